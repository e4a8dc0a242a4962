"""Whether the intervals that are printed hold what they should, on real sets and where T is known.

Real sets: rows are drawn with replacement, so that the whole set is the population and its
temperature the target. Simulated: `synthetic` networks, for which one temperature is right, T = 2.
An accuracy is counted on 500 rows drawn apart from those that are fitted, 1000 of them; as a range
it is that count with 1.96 standard errors either way.
"""

import math
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import synthetic
from cases import Case
from judging import ONE, Row, interval
from sets import LogitSet, load

import tepid

LABELLED, FEW = (200, 1000), (25, 100)
FITTED, COUNTED, UNLABELLED = 1000, 500, 3000
CLASSES = 10
GROUPS, IN_GROUP, APART = 8, 250, 0.2
REAL_GROUPS = 4
# What `from_few_labels` takes log T to be spread by around that of UTS.
PRIOR = 0.4
SEED = 4


def coverage(folder: Path, case: Case) -> list[Row]:
    """One draw of every kind of interval."""
    rng = np.random.default_rng([SEED, zlib.crc32(case.set.encode()), case.draw])
    if case.group == "simulated":
        return _simulated(rng)
    return _real(folder, case.set, rng)


@cache
def _targets(folder: Path, name: str) -> tuple[float, float, dict[str, float]]:
    """On all rows: the T of the labels, the T that matches the accuracy, and that of each group."""
    whole = load(folder, name)
    z, y = whole
    groups = _groups(y)
    apart = {
        group: tepid.temperature_scaling(z[groups == group], y[groups == group], engine=ONE).value
        for group in np.unique(groups).tolist()
    }
    best = tepid.temperature_scaling(z, y, engine=ONE).value
    return best, tepid.match_accuracy(z, whole.accuracy, engine=ONE).value, apart


def _groups(labels: Any) -> Any:
    return np.char.add("g", (labels % REAL_GROUPS).astype(str))


def _real(folder: Path, name: str, rng: np.random.Generator) -> list[Row]:
    whole = load(folder, name)
    best, matching, apart = _targets(folder, name)

    def drawn(n: int) -> LogitSet:
        return whole.of(rng.integers(len(whole.labels), size=n))

    rows = _labeled(drawn, best) + _few(drawn(UNLABELLED), best)
    rows += _known(drawn, matching)
    z, y = drawn(FITTED)
    groups = _groups(y)
    found = tepid.temperature_scaling(z, y, groups=groups, engine=ONE).groups
    return [*rows, _by_group("groups of labels", found, apart)]


def _simulated(rng: np.random.Generator) -> list[Row]:
    def drawn(n: int) -> LogitSet:
        z = synthetic.fill(np.empty((n, CLASSES), np.float32), rng)
        return LogitSet(z, synthetic.labels_of(z, rng))

    right = synthetic.SHARPNESS
    rows = _labeled(drawn, right) + _known(drawn, right)
    rows += _few(*_as_the_prior_says(drawn(UNLABELLED), rng))
    return [
        *rows,
        _grouped("groups alike", 0.0, drawn, rng),
        _grouped("groups that differ", APART, drawn, rng),
    ]


def _labeled(drawn: Any, target: float) -> list[Row]:
    return [
        interval(f"labels, n = {n}", tepid.temperature_scaling(*drawn(n), engine=ONE), target)
        for n in LABELLED
    ]


def _few(rows: LogitSet, target: float) -> list[Row]:
    z, y = rows
    return [
        interval(f"few labels, n = {n}", tepid.from_few_labels(z, z[:n], y[:n], engine=ONE), target)
        for n in FEW
    ]


def _known(drawn: Any, target: float) -> list[Row]:
    other, z = drawn(COUNTED), drawn(FITTED).logits
    right = int((other.logits.argmax(axis=1) == other.labels).sum())
    share, error = tepid.counted(right, COUNTED)
    ends = max(share - 1.96 * error, 0.0), min(share + 1.96 * error, 1.0)
    found = {
        "accuracy, counted": tepid.match_accuracy(z, share, standard_error=error, engine=ONE),
        "accuracy, a range": tepid.match_accuracy(z, ends, engine=ONE),
    }
    return [interval(rung, t, target) for rung, t in found.items()]


def _as_the_prior_says(rows: LogitSet, rng: np.random.Generator) -> tuple[LogitSet, float]:
    """The rows at a scale at which the right T lies around that of UTS as the prior has it."""
    away = math.exp(PRIOR * rng.normal())
    posterior = rows.logits / np.float32(synthetic.SHARPNESS)
    right = away
    for _ in range(8):  # T of UTS depends on the scale, though less than in proportion
        right = away * tepid.uts(posterior * np.float32(right), engine=ONE).value
    return LogitSet(posterior * np.float32(right), rows.labels), right


def _grouped(rung: str, apart: float, drawn: Any, rng: np.random.Generator) -> Row:
    z, y = drawn(GROUPS * IN_GROUP)
    groups = np.repeat([f"g{i}" for i in range(GROUPS)], IN_GROUP)
    scale = {f"g{i}": math.exp(apart * rng.normal()) for i in range(GROUPS)}
    z *= np.array([scale[g] for g in groups], np.float32)[:, None]
    found = tepid.temperature_scaling(z, y, groups=groups, engine=ONE).groups
    return _by_group(rung, found, {g: synthetic.SHARPNESS * s for g, s in scale.items()})


def _by_group(rung: str, found: Any, targets: dict[str, float]) -> Row:
    """The share of the groups whose intervals hold their targets."""
    each = [interval(rung, t, targets[group]) for group, t in found.items()]
    held = [row["covered"] for row in each if "covered" in row]
    return {"rung": rung, "status": "ok"} | ({"covered": float(np.mean(held))} if held else {})
