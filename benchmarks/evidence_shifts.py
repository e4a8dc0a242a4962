"""A labeled source and an unlabeled target that differs from it.

A random half of a set's rows is the source. The target comes from the other half: all of it (iid);
half as many rows with class frequencies from Dirichlet(1/2) (label shift); or half of it, drawn
without replacement with probability proportional to (1 - r)² (hard rows) or r² (easy rows), where r
is the rank of the model's own confidence or of the mean confidence of its relatives. A set whose
name ends in `_shift` has a shift of its own: source `logits_val`, `labels_val`, target `logits`,
`labels`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import sets
from evidence_cases import (
    HIGHEST,
    ONE,
    Collection,
    Judge,
    Record,
    Scale,
    calibrate,
    random_of,
    softmax,
)
from sets import LogitSet

import tepid

KINDS = (
    "iid",
    "label shift",
    "hard rows, own confidence",
    "hard rows, other models",
    "easy rows, other models",
)
REAL = "real shift"
CONCENTRATION = 0.5
SMALL, LABELED, ERROR = 200, 25, 0.03


def of_set(collection: Collection, name: str, scale: Scale) -> Iterator[Record]:
    """Every row with a source, for every kind of shift of one set."""
    about = {"part": "sources", "set": name, "case": name}
    whole = collection.load(name)
    if name.endswith("_shift"):
        source = sets.load(collection.paths[name], "_val")
        rng = random_of(name, 2)
        yield from (about | {"group": REAL} | record for record in _rows(source, whole, rng))
    relatives = collection.relatives(name)
    if not relatives:
        return
    others = np.mean([_confidence(collection.load(r).logits) for r in relatives], axis=0)
    for number, kind in enumerate(KINDS):
        for turn in range(scale.shifts):
            rng = random_of(name, 1, number, turn)
            order = rng.permutation(len(whole.labels))
            half, rest = np.split(order, [len(order) // 2])
            sure = others if "other" in kind else _confidence(whole.logits)
            target = _target(kind, rest, whole.labels[rest], sure[rest], rng)
            records = _rows(whole.of(half), whole.of(target), rng)
            yield from (about | {"group": kind} | record for record in records)


def _confidence(logits: Any) -> Any:
    return softmax(logits).max(axis=1)


def _target(kind: str, rest: Any, labels: Any, sure: Any, rng: np.random.Generator) -> Any:
    if kind == "iid":
        return rest
    if kind == "label shift":
        classes, where = np.unique(labels, return_inverse=True)
        wanted = rng.dirichlet(np.full(len(classes), CONCENTRATION))
        chances = (wanted / np.bincount(where))[where]
        return rng.choice(rest, len(rest) // 2, p=chances / chances.sum())
    rank = (np.argsort(np.argsort(sure, kind="stable")) + 0.5) / len(sure)
    chances = (rank if kind.startswith("easy") else 1 - rank) ** 2
    return rng.choice(rest, len(rest) // 2, replace=False, p=chances / chances.sum())


def _rows(source: LogitSet, target: LogitSet, rng: np.random.Generator) -> Iterator[Record]:
    judge, z = Judge(target), target.logits
    scaled = tepid.temperature_scaling(*source, engine=ONE)
    expected = thresholded_accuracy(source, z, scaled.value)
    small = source.of(rng.permutation(len(source.labels))[:SMALL])
    some = np.full(len(z), -1)
    chosen = rng.permutation(len(z))[:LABELED]
    some[chosen] = target.labels[chosen]
    known = min(max(target.accuracy + ERROR * float(rng.normal()), 0.0), HIGHEST), ERROR
    yield judge.record("T = 1", 1.0)
    yield judge.record("source TS", scaled)
    yield judge.record("ATC + matching", tepid.match_accuracy(z, expected, engine=ONE))
    for row, evidence in {
        "source": {"source": source},
        "source of 200 rows": {"source": small},
        "25 target labels": {"labels": some},
        "source + 25 target labels": {"source": source, "labels": some},
        "source + target accuracy ±.03": {"source": source, "accuracy": known},
    }.items():
        yield judge.record(row, calibrate(z, **evidence))


def thresholded_accuracy(source: LogitSet, z: Any, temperature: float) -> float:
    """The accuracy that average thresholded confidence expects (Garg et al. 2022).

    The share of the target's rows whose entropy is below a threshold, which as many of the source's
    rows pass as are correct.
    """
    threshold = np.quantile(_entropy(source.logits, temperature), source.accuracy)
    share = float((_entropy(z, temperature) <= threshold).mean())
    return min(max(share, 1 / z.shape[1] + 0.005), 0.9995)


def _entropy(logits: Any, temperature: float) -> Any:
    p = softmax(logits / temperature)
    return -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)
