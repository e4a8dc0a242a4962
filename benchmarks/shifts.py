"""A labeled source and an unlabeled target, shifted as the case says.

A random half of a set's rows is the source, another half in each draw. The target comes from the
other half: all of it (iid); half as many rows, drawn with replacement with class frequencies from
Dirichlet(1/2) (label shift); or the 40 % of it that the network itself is least sure of, that the
other networks on average are least sure of, or most sure of. A set whose name ends in `_shift`
brings a shift of its own: source `logits_val`, `labels_val`, target `logits`, `labels`.
"""

from pathlib import Path
from typing import Any

import numpy as np
from cases import REAL_SHIFT, Case
from judging import ONE, Judge, Row
from rungs import sureness
from sets import LogitSet, load

import tepid

SELECTED = 0.4
CONCENTRATION = 0.5
SEED = 3


def shift(folder: Path, case: Case) -> list[Row]:
    """Scaling on the source alone (none) and `from_source` (any), beside UTS on the target."""
    source, target = parts(folder, case)
    z, (old, labels) = target.logits, source
    judge = Judge.of(target)
    found: dict[str, Any] = {
        "T = 1": 1.0,
        "UTS": tepid.uts(z, engine=ONE),
        "source, none": tepid.temperature_scaling(old, labels, engine=ONE),
        "source, any": tepid.from_source(z, old, labels, engine=ONE),
        "best T": judge.best,
    }
    return [judge.judged(rung, t) for rung, t in found.items()]


def parts(folder: Path, case: Case) -> tuple[LogitSet, LogitSet]:
    """The source and the target of a case."""
    whole = load(folder, case.set)
    if case.group == REAL_SHIFT:
        return load(folder, case.set, "_val"), whole
    order = np.random.default_rng([SEED, 0, case.draw]).permutation(len(whole.labels))
    source, rest = np.split(order, [len(order) // 2])
    return whole.of(source), whole.of(_target(folder, case, rest))


def _target(folder: Path, case: Case, rest: Any) -> Any:
    if case.group == "iid":
        return rest
    whole = load(folder, case.set)
    if case.group == "label shift":
        return _of_other_frequencies(whole.labels, rest, case.draw)
    networks = case.others or (case.set,)
    sure = np.mean([sureness(load(folder, name).logits[rest]) for name in networks], axis=0)
    order, count = rest[np.argsort(sure, kind="stable")], round(SELECTED * len(rest))
    return order[-count:] if case.group.startswith("easy") else order[:count]


def _of_other_frequencies(labels: Any, rest: Any, draw: int) -> Any:
    rng = np.random.default_rng([SEED, 1, draw])
    classes, where = np.unique(labels[rest], return_inverse=True)
    wanted = rng.dirichlet(np.full(len(classes), CONCENTRATION))
    chances = (wanted / np.bincount(where))[where]
    return rng.choice(rest, len(rest) // 2, p=chances / chances.sum())
