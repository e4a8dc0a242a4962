"""The paper's protocol: every method is fitted on a random part of the rows, scored on the rest."""

import dataclasses
import importlib
import importlib.util
import math
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid import metrics, shapes, validation
from tepid.engines import Threads
from tepid.errors import InputError, RowError
from tepid.methods import (
    from_few_labels,
    from_models,
    from_source,
    guarded,
    match_accuracy,
    temperature_scaling,
    uts,
)
from tepid.sources import open_source
from tepid.summaries.reliability import Reliability
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature
from tepid.validation import Array, Int64

Run = dict[str, float]


@dataclass(frozen=True)
class Part:
    """The rows of a split to fit on, and the evidence.

    `accuracy` is the accuracy on all rows, as on a model card; `few` is the number of labels for
    a method that takes few; `strength` is the regularization of each method that takes one.
    """

    logits: Array
    labels: Int64
    accuracy: float
    few: int
    others: tuple[Array, ...]
    source: tuple[Any, Any] | None
    strength: Mapping[str, tuple[float, float]]
    engine: Threads


Fit = Callable[[Part], Any]
DEFAULT = ("uncalibrated", "uts", "temperature", "accuracy")


def _uncalibrated(part: Part) -> Temperature:
    rows, classes = part.logits.shape
    return Temperature(1.0, "none", samples=rows, classes=classes, implied_accuracy=1.0)


def _few_labels(part: Part) -> Temperature:
    few = min(part.few, len(part.labels))
    return from_few_labels(part.logits, part.logits[:few], part.labels[:few], engine=part.engine)


def _from_source(part: Part) -> Temperature:
    return from_source(part.logits, *(part.source or ()), engine=part.engine)


def _scaling_fit(name: str) -> Fit:
    """A method of `tepid.scaling`, imported when it runs: it needs SciPy."""

    def fit(part: Part) -> Any:
        function = getattr(importlib.import_module("tepid.scaling"), name)
        chosen = {"regularization": part.strength[name]} if name in part.strength else {}
        return function(part.logits, part.labels, **chosen)

    return fit


# The regularization of these is chosen once, on the first split.
_REGULARIZED = ("vector", "matrix", "dirichlet")
_SCALING = (*_REGULARIZED, "histogram", "isotonic", "bbq", "ensemble", "beta")
# From this number of classes on, matrix and Dirichlet scaling are left out of `all`.
_MANY_CLASSES = 500
_FITS: dict[str, Fit] = {
    "uncalibrated": _uncalibrated,
    "uts": lambda part: uts(part.logits, engine=part.engine),
    "guarded": lambda part: guarded(part.logits, engine=part.engine),
    "models": lambda part: from_models(part.logits, *part.others, engine=part.engine),
    "source": _from_source,
    "few-labels": _few_labels,
    "temperature": lambda part: temperature_scaling(part.logits, part.labels, engine=part.engine),
    "accuracy": lambda part: match_accuracy(part.logits, part.accuracy, engine=part.engine),
    **{name: _scaling_fit(name) for name in _SCALING},
}


def _choose_methods(
    names: Iterable[str] | str, *, others: bool, source: bool, classes: int
) -> tuple[dict[str, Fit], dict[str, str]]:
    """The methods by name, and why others were left out; `all` means all that the data allow."""
    missing = _missing(others=others, source=source)
    if names == "all":
        left_out = {name: f"it needs {what}" for name, what in missing.items()}
        if classes >= _MANY_CLASSES:
            left_out |= dict.fromkeys(("matrix", "dirichlet"), f"there are {classes} classes")
        return {name: fit for name, fit in _FITS.items() if name not in left_out}, left_out
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise InputError("methods must name at least one, got none")
    return {name: _find_method(name, missing) for name in dict.fromkeys(wanted)}, {}


def _find_method(name: str, missing: dict[str, str]) -> Fit:
    if name not in _FITS:
        raise InputError(f"methods must be among {', '.join(_FITS)} or all, got {name!r}")
    if name in missing:
        raise InputError(f"methods must come with {missing[name]} for {name}, got none")
    return _FITS[name]


def _missing(*, others: bool, source: bool) -> dict[str, str]:
    """What is missing for each method that cannot run."""
    missing = {} if others else {"models": "another model"}
    if not source:
        missing["source"] = "an older labeled set"
    if not all(importlib.util.find_spec(name) for name in ("scipy", "sklearn")):
        missing |= dict.fromkeys(_SCALING, "SciPy and scikit-learn (tepid[scaling])")
    return missing


@dataclass(frozen=True)
class _Set:
    """All rows, and the evidence that is the same in every split."""

    logits: Array
    labels: Int64
    others: tuple[Array, ...]
    source: tuple[Any, Any] | None
    few: int
    strength: dict[str, tuple[float, float]]

    def part(self, rows: Int64, engine: Threads) -> Part:
        known = float((self.logits.argmax(axis=1) == self.labels).mean())
        others = tuple(other[rows] for other in self.others)
        part = self.logits[rows], self.labels[rows]
        return Part(*part, known, self.few, others, self.source, self.strength, engine)


def compare(  # each is an option of the protocol, by keyword
    logits: Any,
    labels: Any,
    *,
    methods: Iterable[str] | str = DEFAULT,
    others: Iterable[Any] = (),
    source: tuple[Any, Any] | None = None,
    few: int = 25,
    splits: int = 10,
    fraction: float = 0.2,
    seed: int = 0,
    engine: Threads | None = None,
) -> dict[str, Any]:
    """Mean and standard deviation over random splits of every measure, for every method.

    The paper used one split. Here each split fits on a random `fraction` of the rows and scores the
    others. `accuracy` matches the accuracy of all rows, `few-labels` uses `few` labels of the part,
    `models` the other models' logits of the same rows, and `source` an older set and its labels.
    The regularization of `vector`, `matrix` and `dirichlet` is chosen once, on the first split.
    `seconds` is the time of the fit alone. A method that raises on a split is scored at T = 1, and
    `refused` counts these splits.
    """
    z = shapes.matrix(validation.as_array(logits))
    y = validation.label_column(labels, len(z), z.shape[1])
    Tails.of(z)  # an error names the row among all rows
    peers = tuple(_peer(number, other, z) for number, other in enumerate(others, 1))
    source = None if source is None else _checked_source(*source)
    size = _check(len(z), splits, fraction, seed, few)
    fits, left_out = _choose_methods(
        methods, others=bool(peers), source=source is not None, classes=z.shape[1]
    )
    engine = engine or Threads()
    parts = [split(len(z), size, seed, i) for i in range(splits)]
    data = _prepared(_Set(z, y, peers, source, few, {}), fits, parts[0][0])
    runs = _runs(data, fits, parts, engine)
    return {
        "samples": len(z),
        "classes": int(z.shape[1]),
        "splits": splits,
        "fraction": fraction,
        "seed": seed,
        "methods": {name: _statistics([run[name] for run in runs]) for name in fits},
        "left_out": left_out,
        "cost_of_uts": _cost(runs),
    }


def measures(reliability: Reliability) -> dict[str, float]:
    """Every measure of a reliability summary, by name."""
    names = ("accuracy", "confidence", "nll", "brier", "ece")
    return {name: getattr(metrics, name)(reliability) for name in names}


def _peer(number: int, other: Any, z: Array) -> Array:
    peer = shapes.matrix(validation.as_array(other))
    if peer.shape != z.shape:
        raise InputError(
            f"other {number} must have the shape of logits, {z.shape}, got {peer.shape}"
        )
    try:
        Tails.of(peer)
    except RowError as error:
        raise error.moved(0, f"other {number}") from None
    return np.asarray(peer)


def _checked_source(logits: Any, labels: Any) -> tuple[Array, Int64]:
    """An older set in memory; raises if a row is invalid."""
    source = open_source(logits, labels=labels)
    if source.weighted:
        raise InputError("sample_weight must be left out of the source to compare, got one")
    past = source.whole()
    z = past.logits
    try:
        Tails.of(z)
    except RowError as error:
        raise error.moved(0, "source") from None
    return z, validation.label_column(past.labels, len(z), z.shape[1], "source labels")


def _check(rows: int, splits: int, fraction: float, seed: int, few: int) -> int:
    """The number of rows to fit on; raises if an option is invalid."""
    for name, value, least in (("splits", splits, 1), ("seed", seed, 0), ("few", few, 1)):
        if validation.whole(value, name) < least:
            raise InputError(f"{name} must be at least {least}, got {value}")
    finite = math.isfinite(validation.number(fraction, "fraction"))
    size = round(rows * fraction) if finite else 0
    if not 0 < size < rows:
        raise InputError(f"fraction must leave rows on both sides, got {fraction} of {rows} rows")
    return size


def split(rows: int, size: int, seed: int, number: int) -> tuple[Int64, Int64]:
    """The `size` rows to fit on and the rows to score, of one split, each in order.

    >>> split(5, 2, seed=0, number=0)
    (array([2, 4]), array([0, 1, 3]))
    """
    order = np.random.default_rng([seed, number]).permutation(rows)
    return np.sort(order[:size]), np.sort(order[size:])


def _prepared(data: _Set, fits: dict[str, Fit], inside: Int64) -> _Set:
    """Compile the kernels before a method is timed, and choose each regularization."""
    uts(data.logits[:2])
    temperature_scaling(data.logits[:2], data.labels[:2])
    strength = {}
    for name in _REGULARIZED:
        if name in fits:
            fitted = fits[name](data.part(inside, Threads(1)))
            strength[name] = (fitted.off_diagonal, fitted.intercepts)
    return dataclasses.replace(data, strength=strength)


def _runs(
    data: _Set, fits: dict[str, Fit], splits: list[tuple[Int64, Int64]], engine: Threads
) -> list[dict[str, Run]]:
    """Every method on every split, the splits side by side."""
    inner = Threads(1)

    def run(split: tuple[Int64, Int64]) -> dict[str, Run]:
        return {name: _run(fit, data, *split, inner) for name, fit in fits.items()}

    pool = ThreadPoolExecutor(engine.threads)
    runs: list[dict[str, Run]] = []
    try:
        with _one_thread_each():
            for measured in pool.map(run, splits):
                runs.append(measured)
                if engine.progress:  # by this thread alone, so the count is never off
                    engine.progress("comparing", len(runs), len(splits))
        return runs
    finally:
        # All are done, or something has stopped them, as Ctrl-C does, and waits for none.
        pool.shutdown(wait=False, cancel_futures=True)


def _one_thread_each() -> AbstractContextManager[Any]:
    """Matrix products on one thread: with the splits side by side, more stand in their own way."""
    if importlib.util.find_spec("threadpoolctl") is None:
        return nullcontext()
    limits: AbstractContextManager[Any] = importlib.import_module(
        "threadpoolctl"
    ).threadpool_limits(1)
    return limits


def _run(fit: Fit, data: _Set, inside: Int64, outside: Int64, engine: Threads) -> Run:
    part = data.part(inside, engine)
    z, y = data.logits[outside], data.labels[outside]
    begin = time.perf_counter()
    try:
        calibrator, refused = fit(part), 0.0
    except InputError:
        calibrator, refused = None, 1.0
    seconds = time.perf_counter() - begin
    temperature = calibrator.value if isinstance(calibrator, Temperature) else math.nan
    if calibrator is None:
        temperature = 1.0
    if math.isnan(temperature):
        # In float32 the probability of an unlikely label would round to zero, and its NLL to inf.
        scored = Reliability.of(calibrator(z.astype(np.float64)), y)
    else:
        scored = Reliability.of_logits(z, y, temperature=temperature)
    return (
        {"temperature": temperature} | measures(scored) | {"seconds": seconds, "refused": refused}
    )


def _statistics(runs: list[Run]) -> dict[str, Any]:
    columns = {name: np.array([run[name] for run in runs]) for name in runs[0]}
    refused = int(columns.pop("refused").sum())
    known = {name: values for name, values in columns.items() if not np.isnan(values).all()}
    measured: dict[str, Any] = {name: _spread(values) for name, values in known.items()}
    return measured | ({"refused": refused} if refused else {})


def _spread(values: Array) -> dict[str, float | None]:
    """Mean and standard deviation; the NLL is infinite where a true label has probability zero."""
    with np.errstate(invalid="ignore"):
        sd = float(values.std(ddof=1)) if len(values) > 1 else None
    return {"mean": float(values.mean()), "sd": sd}


def _cost(runs: list[dict[str, Run]]) -> float | None:
    """The time of UTS over that of temperature scaling, where both were run."""
    if not {"uts", "temperature"} <= runs[0].keys():
        return None
    uts, labeled = (
        float(np.median([r[name]["seconds"] for r in runs])) for name in ("uts", "temperature")
    )
    return uts / labeled
