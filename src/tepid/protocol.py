"""The paper's protocol: a random part of the test set to calibrate, the rest to report on."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tepid import arrays, metrics, shapes
from tepid.arrays import Array, Int64
from tepid.engines import Threads
from tepid.errors import InputError
from tepid.methods import from_accuracy, from_labels, from_logits
from tepid.reliability import Reliability

Fit = Callable[[Array, Int64], float]


def compare(
    logits: Any,
    labels: Any,
    *,
    splits: int = 10,
    fraction: float = 0.2,
    seed: int = 0,
    engine: Threads | None = None,
) -> dict[str, Any]:
    """Mean and standard deviation over random splits of every measure, for every method.

    The paper used one split. Here a split draws `fraction` of the rows to fit on and scores the
    others; `accuracy` matches the accuracy of all rows, the one number a model card would give.
    `seconds` is the time of the fit alone.
    """
    z = shapes.matrix(arrays.as_array(logits))
    y = arrays.label_column(labels, len(z), z.shape[1])
    size = _check(len(z), splits, fraction, seed)
    engine = engine or Threads()
    report = engine.progress or (lambda _, __, ___: None)
    fits = _methods(z, y, Threads(engine.count))
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in fits}
    for split in range(splits):
        order = np.random.default_rng([seed, split]).permutation(len(z))
        inside, outside = np.sort(order[:size]), np.sort(order[size:])
        for name, fit in fits.items():
            runs[name].append(_run(fit, z, y, inside, outside))
        report("comparing", split + 1, splits)
    seconds = {name: sum(run["seconds"] for run in measured) for name, measured in runs.items()}
    return {
        "samples": len(z),
        "classes": int(z.shape[1]),
        "splits": splits,
        "fraction": fraction,
        "seed": seed,
        "methods": {name: _statistics(measured) for name, measured in runs.items()},
        "cost_of_uts": seconds["uts"] / seconds["temperature"],
    }


def _check(rows: int, splits: int, fraction: float, seed: int) -> int:
    """How many rows to fit on."""
    if splits < 1:
        raise InputError(f"splits must be at least one, got {splits}")
    if seed < 0:
        raise InputError(f"seed must not be below zero, got {seed}")
    size = round(rows * fraction) if math.isfinite(fraction) else 0
    if not 0 < size < rows:
        raise InputError(f"fraction must leave rows on both sides, got {fraction} of {rows} rows")
    return size


def _methods(z: Array, y: Int64, engine: Threads) -> dict[str, Fit]:
    known = float((z.argmax(axis=1) == y).mean())
    # Compiled before any is timed.
    from_logits(z[:2], engine=engine)
    return {
        "uncalibrated": lambda _, __: 1.0,
        "uts": lambda z, _: float(from_logits(z, engine=engine)),
        "temperature": lambda z, y: float(from_labels(z, y, engine=engine)),
        "accuracy": lambda z, _: float(from_accuracy(z, known, engine=engine)),
    }


def _run(fit: Fit, z: Array, y: Int64, inside: Int64, outside: Int64) -> dict[str, float]:
    part, part_labels = z[inside], y[inside]
    begin = time.perf_counter()
    temperature = fit(part, part_labels)
    seconds = time.perf_counter() - begin
    measured = measures(Reliability.of_logits(z[outside], y[outside], temperature=temperature))
    return {"temperature": temperature} | measured | {"seconds": seconds}


def measures(reliability: Reliability) -> dict[str, float]:
    """Every measure of a reliability summary, by name."""
    names = ("accuracy", "confidence", "nll", "brier", "ece")
    return {name: getattr(metrics, name)(reliability) for name in names}


def _statistics(runs: list[dict[str, float]]) -> dict[str, dict[str, float | None]]:
    columns = {name: np.array([run[name] for run in runs]) for name in runs[0]}
    return {
        name: {
            "mean": float(values.mean()),
            "sd": float(values.std(ddof=1)) if len(values) > 1 else None,
        }
        for name, values in columns.items()
    }
