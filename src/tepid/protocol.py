"""The paper's protocol: a random part of the test set to calibrate, the rest to report on."""

import dataclasses
import importlib
import importlib.util
import math
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid import arrays, contenders, metrics, scalars, shapes
from tepid.arrays import Array, Int64
from tepid.contenders import Fit, Part
from tepid.engines import Threads
from tepid.errors import InputError, RowError
from tepid.methods import from_labels, from_logits
from tepid.reliability import Reliability
from tepid.sources import open_source
from tepid.tails import Tails
from tepid.temperature import Temperature

Run = dict[str, float]


@dataclass(frozen=True)
class _Set:
    """All rows, and what is known of them in every split."""

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
    methods: Iterable[str] | str = contenders.DEFAULT,
    others: Iterable[Any] = (),
    source: tuple[Any, Any] | None = None,
    few: int = 25,
    splits: int = 10,
    fraction: float = 0.2,
    seed: int = 0,
    engine: Threads | None = None,
) -> dict[str, Any]:
    """Mean and standard deviation over random splits of every measure, for every method.

    The paper used one split. Here a split draws `fraction` of the rows to fit on and scores the
    others; `accuracy` matches the accuracy of all rows, `few-labels` sees `few` labels of the part,
    `models` the other models' logits of the same rows, `source-…` an older set and its labels.
    The regularisation of `vector`, `matrix` and `dirichlet` is chosen once, on the first split.
    `seconds` is the time of the fit alone. A method that refuses a split is scored at T = 1, and
    `refused` says how often.
    """
    z = shapes.matrix(arrays.as_array(logits))
    y = arrays.label_column(labels, len(z), z.shape[1])
    Tails.of(z)  # names a bad row by its place in the whole
    peers = tuple(_peer(number, other, z) for number, other in enumerate(others, 1))
    source = None if source is None else _checked_source(*source)
    size = _check(len(z), splits, fraction, seed, few)
    fits, left_out = contenders.chosen(
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
    peer = shapes.matrix(arrays.as_array(other))
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
    """An older set in memory, every row of it looked at once."""
    source = open_source(logits, labels=labels)
    if source.weighted:
        raise InputError("sample_weight must be left out of the source to compare, got one")
    past = source.whole()
    z = past.logits
    try:
        Tails.of(z)
    except RowError as error:
        raise error.moved(0, "source") from None
    return z, arrays.label_column(past.labels, len(z), z.shape[1], "source labels")


def _check(rows: int, splits: int, fraction: float, seed: int, few: int) -> int:
    """How many rows to fit on."""
    for name, value, least in (("splits", splits, 1), ("seed", seed, 0), ("few", few, 1)):
        if scalars.whole(value, name) < least:
            raise InputError(f"{name} must be at least {least}, got {value}")
    finite = math.isfinite(scalars.number(fraction, "fraction"))
    size = round(rows * fraction) if finite else 0
    if not 0 < size < rows:
        raise InputError(f"fraction must leave rows on both sides, got {fraction} of {rows} rows")
    return size


def split(rows: int, size: int, seed: int, number: int) -> tuple[Int64, Int64]:
    """The rows to fit on, `size` of them, and the rows to report on, of one split, each in order.

    >>> split(5, 2, seed=0, number=0)
    (array([2, 4]), array([0, 1, 3]))
    """
    order = np.random.default_rng([seed, number]).permutation(rows)
    return np.sort(order[:size]), np.sort(order[size:])


def _prepared(data: _Set, fits: dict[str, Fit], inside: Int64) -> _Set:
    """Kernels compiled before a method is timed, regularisations chosen on the first split."""
    from_logits(data.logits[:2])
    from_labels(data.logits[:2], data.labels[:2])
    strength = {}
    for name in contenders.REGULARISED:
        if name in fits:
            fitted = fits[name](data.part(inside, Threads(1)))
            strength[name] = (fitted.off_diagonal, fitted.intercepts)
    return dataclasses.replace(data, strength=strength)


def _runs(
    data: _Set, fits: dict[str, Fit], splits: list[tuple[Int64, Int64]], engine: Threads
) -> list[dict[str, Run]]:
    """Every method on every split, the splits side by side."""
    inner = Threads(1)
    done = 0

    def run(split: tuple[Int64, Int64]) -> dict[str, Run]:
        nonlocal done
        measured = {name: _run(fit, data, *split, inner) for name, fit in fits.items()}
        done += 1
        if engine.progress:
            engine.progress("comparing", done, len(splits))
        return measured

    pool = ThreadPoolExecutor(engine.threads)
    try:
        with _one_thread_each():
            return list(pool.map(run, splits))
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
    """Mean and standard deviation; a method that rules a true label out has an infinite NLL."""
    with np.errstate(invalid="ignore"):
        sd = float(values.std(ddof=1)) if len(values) > 1 else None
    return {"mean": float(values.mean()), "sd": sd}


def _cost(runs: list[dict[str, Run]]) -> float | None:
    """How much longer UTS takes than temperature scaling, where both were run."""
    if not {"uts", "temperature"} <= runs[0].keys():
        return None
    uts, labelled = (
        float(np.median([r[name]["seconds"] for r in runs])) for name in ("uts", "temperature")
    )
    return uts / labelled
