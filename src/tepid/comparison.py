"""The paper's protocol: every method is fitted on a random part of the rows, scored on the rest."""

import dataclasses
import importlib
import importlib.util
import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tepid import metrics, shapes, validation
from tepid.engines import Threads
from tepid.errors import CalibrationWarning, InputError, RowError
from tepid.methods import match_accuracy, temperature_scaling, uts
from tepid.posterior import calibrate
from tepid.sources import open_source
from tepid.sources.attached import peer_logits
from tepid.summaries.reliability import Reliability
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature
from tepid.validation import Array, Int64

Run = dict[str, float]


@dataclass(frozen=True)
class _Data:
    """Rows to fit on, and the evidence.

    `accuracy` is the accuracy on all rows, as on a model card; `few` is the number of labels where
    only some are used; `strength` is the regularization of each method that takes one.
    """

    logits: Array
    labels: Int64
    accuracy: float
    few: int
    models: tuple[Array, ...]
    reference: Array | None
    source: tuple[Array, Int64] | None
    strength: Mapping[str, tuple[float, float]]
    engine: Threads

    def take(self, rows: Int64) -> "_Data":
        """Return some of the rows."""
        return dataclasses.replace(
            self,
            logits=self.logits[rows],
            labels=self.labels[rows],
            models=tuple(model[rows] for model in self.models),
            reference=None if self.reference is None else self.reference[rows],
        )

    def evidence(self, kinds: Iterable[str]) -> dict[str, Any]:
        """Return the arguments of `calibrate` for these kinds of evidence."""
        known = {
            "labels": np.where(np.arange(len(self.labels)) < self.few, self.labels, -1),
            "accuracy": self.accuracy,
            "models": self.models,
            "reference": self.reference,
            "source": self.source,
        }
        return {kind: known[kind] for kind in kinds}


Fit = Callable[[_Data], Any]
# The kinds of evidence that `calibrate` takes, each run by itself and all together.
KINDS = ("labels", "accuracy", "models", "reference", "source")


def _uncalibrated(data: _Data) -> Temperature:
    rows, classes = data.logits.shape
    return Temperature(1.0, "none", samples=rows, classes=classes, implied_accuracy=1.0)


def _calibrate(data: _Data, *, kinds: tuple[str, ...]) -> Temperature:
    return calibrate(data.logits, **data.evidence(kinds), engine=data.engine)


def _scale(data: _Data, *, name: str) -> Any:
    """A method of `tepid.scaling`, imported when it runs: it needs SciPy."""
    function = getattr(importlib.import_module("tepid.scaling"), name)
    chosen = {"regularization": data.strength[name]} if name in data.strength else {}
    return function(data.logits, data.labels, **chosen)


# The regularization of these is chosen once, on the first split.
_REGULARIZED = ("vector", "matrix", "dirichlet")
_SCALING = (*_REGULARIZED, "histogram", "isotonic", "bbq", "ensemble", "beta")
# From this number of classes on, matrix and Dirichlet scaling are left out of `all`.
_MANY_CLASSES = 500
_FITS: dict[str, Fit] = {
    "uncalibrated": _uncalibrated,
    "uts": lambda data: uts(data.logits, engine=data.engine),
    "temperature": lambda data: temperature_scaling(data.logits, data.labels, engine=data.engine),
    "accuracy": lambda data: match_accuracy(data.logits, data.accuracy, engine=data.engine),
    "calibrate": partial(_calibrate, kinds=()),
    **{f"calibrate+{kind}": partial(_calibrate, kinds=(kind,)) for kind in KINDS},
    **{name: partial(_scale, name=name) for name in _SCALING},
}


def _choose_methods(
    names: Iterable[str] | str, given: frozenset[str], classes: int
) -> tuple[dict[str, Fit], dict[str, str]]:
    """The methods by name, and why others were left out.

    `all` means all that the data allow, `default` the same without `tepid.scaling`. `given` are the
    kinds of evidence that the data have.
    """
    together = tuple(kind for kind in KINDS if kind in given)
    fits = _FITS | {"calibrate+all": partial(_calibrate, kinds=together)}
    missing = _missing(given)
    if names == "default":
        unwanted = {*missing, *_SCALING}
        return {name: fit for name, fit in fits.items() if name not in unwanted}, {}
    if names == "all":
        left_out = {name: f"it needs {what}" for name, what in missing.items()}
        if classes >= _MANY_CLASSES:
            left_out |= dict.fromkeys(("matrix", "dirichlet"), f"there are {classes} classes")
        return {name: fit for name, fit in fits.items() if name not in left_out}, left_out
    if not isinstance(names, Iterable):
        raise InputError(f"methods must be a list of their names, got {names!r}")
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise InputError("methods must name at least one, got none")
    for name in wanted:
        if not isinstance(name, str) or name not in fits:
            raise InputError(f"methods must be among {', '.join(fits)} or all, got {name!r}")
        if name in missing:
            raise InputError(f"methods must come with {missing[name]} for {name}, got none")
    return {name: fits[name] for name in dict.fromkeys(wanted)}, {}


def _missing(given: frozenset[str]) -> dict[str, str]:
    """What is missing for each method that cannot run."""
    needs = {
        "models": "another model", "reference": "a reference", "source": "an older labeled set",
    }  # fmt: skip
    missing = {f"calibrate+{kind}": what for kind, what in needs.items() if kind not in given}
    if not all(importlib.util.find_spec(name) for name in ("scipy", "sklearn")):
        missing |= dict.fromkeys(_SCALING, "SciPy and scikit-learn (tepid[scaling])")
    return missing


def compare(  # noqa: PLR0913  # each is an option of the protocol, by keyword
    logits: Any,
    labels: Any,
    *,
    methods: Iterable[str] | str = "default",
    models: Iterable[Any] = (),
    reference: Any = None,
    source: tuple[Any, Any] | None = None,
    few: int = 25,
    splits: int = 10,
    fraction: float = 0.2,
    seed: int = 0,
    engine: Threads | None = None,
) -> dict[str, Any]:
    """Mean and standard deviation over random splits of every measure, for every method.

    The paper used one split. Here each split fits on a random `fraction` of the rows and scores the
    others. `uts`, `temperature` and `accuracy` are the exact methods; `calibrate` is
    `tepid.calibrate` on logits alone, `calibrate+labels` with `few` labels, and so on for each kind
    of evidence and for all together. The accuracy is that of all rows, those that are scored
    included. By default all of these run that the data allow; `methods="all"` adds the supervised
    calibrators of `tepid.scaling`, whose regularization is chosen once, on the first split.
    `seconds` is the time of the fit alone. A method that raises on a split is scored at T = 1, and
    `refused` counts these splits.
    """
    _check_kinds(models, source, engine)
    z = shapes.matrix(validation.as_array(logits))
    y = validation.label_column(labels, len(z), z.shape[1])
    Tails.of(z)  # an error names the row among all rows
    peers = tuple(_peer(f"model {number}", model, z) for number, model in enumerate(models, 1))
    judge = None if reference is None else _peer("reference", reference, z)
    source = None if source is None else _checked_source(*source)
    splits, few = validation.whole(splits, "splits", 1), validation.whole(few, "few", 1)
    seed = validation.whole(seed, "seed", 0, validation.LARGEST_SEED)
    fraction = validation.number(fraction, "fraction")
    size = _fitted_rows(len(z), fraction)
    given = {"models": bool(peers), "reference": judge is not None, "source": source is not None}
    known = frozenset(("labels", "accuracy", *(kind for kind, there in given.items() if there)))
    fits, left_out = _choose_methods(methods, known, z.shape[1])
    parts = [split(len(z), size, seed, i) for i in range(splits)]
    accuracy = float((z.argmax(axis=1) == y).mean())
    # The splits run side by side, and each fit on one thread.
    data = _Data(z, y, accuracy, few, peers, judge, source, {}, Threads(1))
    data = _prepare(data, fits, parts[0][0])
    runs = _run_splits(data, fits, parts, engine or Threads())
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


def _peer(name: str, other: Any, z: Array) -> Array:
    """Another model's logits; a row of NaN is no answer."""
    shape = shapes.matrix(validation.as_array(other)).shape
    if shape != z.shape:
        raise InputError(f"{name} must have the shape of logits, {z.shape}, got {shape}")
    return peer_logits(other, name)


def _checked_source(logits: Any, labels: Any) -> tuple[Array, Int64]:
    """An older set in memory; raises if a row is invalid."""
    source = open_source(logits, labels=labels).renamed("source")
    if source.weighted:
        raise InputError("sample_weight must be left out of the source to compare, got one")
    past = source.whole()
    z = past.logits
    try:
        Tails.of(z)
    except RowError as error:
        raise error.moved(0, "source") from None
    return z, validation.label_column(past.labels, len(z), z.shape[1], "source labels")


def _check_kinds(models: Any, source: Any, engine: Any) -> None:
    """Refuse arguments of another kind than they must be."""
    if not isinstance(models, Iterable):
        raise InputError(f"models must be a list of logits, got {type(models).__name__}")
    if source is not None and (not isinstance(source, tuple | list) or len(source) != 2):
        raise InputError(f"source must be a pair (logits, labels), got {type(source).__name__}")
    if engine is not None and not isinstance(engine, Threads):
        raise InputError(f"engine must be tepid.Threads to compare, got {engine!r:.80}")


def _fitted_rows(rows: int, fraction: float) -> int:
    """The number of rows to fit on; raises if that leaves none on either side."""
    size = round(rows * fraction) if math.isfinite(fraction) else 0
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


def _prepare(data: _Data, fits: dict[str, Fit], inside: Int64) -> _Data:
    """Compile the kernels before a method is timed, and choose each regularization."""
    uts(data.logits[:2])
    temperature_scaling(data.logits[:2], data.labels[:2])
    strength = {}
    for name in _REGULARIZED:
        if name in fits:
            fitted = fits[name](data.take(inside))
            strength[name] = (fitted.off_diagonal, fitted.intercepts)
    return dataclasses.replace(data, strength=strength)


def _run_splits(
    data: _Data, fits: dict[str, Fit], splits: list[tuple[Int64, Int64]], engine: Threads
) -> list[dict[str, Run]]:
    """Every method on every split, the splits side by side."""

    def run(split: tuple[Int64, Int64]) -> dict[str, Run]:
        inside, outside = (data.take(rows) for rows in split)
        return {name: _run(fit, inside, outside) for name, fit in fits.items()}

    pool = ThreadPoolExecutor(engine.threads)
    runs: list[dict[str, Run]] = []
    try:
        # A weak fit is a result of the comparison. Filters are those of all threads.
        with _one_thread_each(), warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
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
    pools: Any = importlib.import_module("threadpoolctl")
    limits: AbstractContextManager[Any] = pools.threadpool_limits(1)
    return limits


def _run(fit: Fit, inside: _Data, outside: _Data) -> Run:
    """Fit on some rows and score others; a method that raises is scored at T = 1."""
    begin = time.perf_counter()
    try:
        calibrator, refused = fit(inside), 0.0
    except InputError:
        calibrator, refused = _uncalibrated(inside), 1.0
    seconds = time.perf_counter() - begin
    z, y = outside.logits, outside.labels
    temperature = math.nan
    if isinstance(calibrator, Temperature):
        temperature = calibrator.value
        scored = Reliability.of_logits(z, y, temperature=temperature)
    else:
        # In float32 the probability of an unlikely label would round to zero, and its NLL to inf.
        scored = Reliability.of(calibrator(z.astype(np.float64)), y)
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
    seconds = [
        float(np.median([run[name]["seconds"] for run in runs])) for name in ("uts", "temperature")
    ]
    return seconds[0] / seconds[1]
