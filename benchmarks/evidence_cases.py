"""Kinds of evidence, drawn from real sets, and what the temperatures that they give are worth.

`evidence.py` and `decisions.py` draw the same cases from here.

Every random number of a set comes from the seed, the set's name and the number of the split, so
that a run on some of the sets gives the figures that a run on all of them gives.
"""

import multiprocessing
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import sets
from sets import LogitSet

import tepid

Record = dict[str, Any]
ONE = tepid.Threads(1)
SEED = 1
# Temperatures are judged within this range: matching an accuracy of 1 gives T = 0.
BOX = (0.05, 50.0)
# The drawn accuracies stay below 1, where matching has no answer.
HIGHEST = 0.999


@dataclass(frozen=True)
class Scale:
    """How many splits, draws of evidence in each, draws of a shift, and groups of models."""

    splits: int = 3
    draws: int = 16
    shifts: int = 4
    groups: int = 1000


FULL, QUICK = Scale(), Scale(splits=1, draws=2, shifts=1, groups=2)


class Collection:
    """Sets by name, and which of them are models on the same rows."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self.paths = sets.find(folders)
        self.families = sets.families(self.paths)

    def load(self, name: str) -> LogitSet:
        """A set."""
        return sets.load(self.paths[name])

    def relatives(self, name: str) -> list[str]:
        """The other models on the same rows."""
        for members in self.families.values():
            if name in members:
                return [other for other in members if other != name]
        return []

    def is_language_model(self, name: str) -> bool:
        """Whether a set is of a language model: by its name or its folder."""
        return name.startswith("llm_") or self.paths[name].parent.name == "llm"

    def stronger(self, name: str) -> str | None:
        """The most accurate relative, if it is more accurate than the model itself."""
        return max(
            (r for r in self.relatives(name) if self._accuracy(r) > self._accuracy(name)),
            key=self._accuracy,
            default=None,
        )

    def weakest(self, names: list[str]) -> str | None:
        """The least accurate of some sets."""
        return min(names, key=self._accuracy, default=None)

    def _accuracy(self, name: str) -> float:
        return _accuracy(self.paths[name])


@cache
def open_collection(folders: tuple[Path, ...]) -> Collection:
    """The sets of some folders; a process opens them once."""
    return Collection(folders)


def spread(task: Callable[[Any], list[Record]], jobs: Iterable[Any], workers: int) -> Iterator[Any]:
    """`task` of every job, in their order.

    Workers are spawned: a fork would copy tepid's thread pool without its threads.
    """
    if workers == 1:
        yield from map(task, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(task, jobs)


@cache
def _accuracy(path: Path) -> float:
    return sets.load(path).accuracy


# Judging a temperature ----------------------------------------------------------------------------


class Judge:
    """Labeled rows, their oracle temperature, and a target that intervals should contain."""

    def __init__(self, rows: LogitSet, target: float | None = None) -> None:
        self.rows = rows
        best = tepid.temperature_scaling(*rows, engine=ONE).value
        self.target = best if target is None else target
        self.least_nll = self._score(best)[1]
        self.before = self._score(1.0)

    def _score(self, temperature: float) -> tuple[float, float]:
        t = min(max(temperature, BOX[0]), BOX[1])
        found = tepid.summaries.Reliability.of_logits(*self.rows, temperature=t)
        return tepid.metrics.ece(found), tepid.metrics.nll(found)

    def record(self, row: str, found: Any) -> Record:
        """What a temperature is worth; `found` may be a number or a result with an interval."""
        ece, nll = self._score(float(found))
        record = {
            "row": row,
            "temperature": float(found),
            "ece": ece,
            "change": ece - self.before[0],
            "excess_nll": nll - self.least_nll,
            "helped": bool(nll < self.before[1]),
        }
        if isinstance(found, tepid.Temperature) and found.method == "calibrate":
            assert found.interval is not None
            low, high = found.interval
            record |= {
                "covered": bool(low <= self.target <= high),
                "width": float(np.log(high / low)),
                "tension": bool(found.tension),
                "helps": found.helps,
            }
        return record


def calibrate(logits: Any, **evidence: Any) -> tepid.Temperature:
    """`tepid.calibrate` without its warnings: weak intervals are what is counted here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tepid.CalibrationWarning)
        return tepid.calibrate(logits, engine=ONE, **evidence)


# Evidence on the rows of a set --------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """A fifth of a set to fit, the accuracy of all its rows, and its relatives on the fifth."""

    name: str
    fitted: LogitSet
    whole: LogitSet
    accuracy: float
    others: dict[str, Any]
    stronger: str | None
    weakest: str | None

    def some_labels(self, rows: Any) -> Any:
        """The labels of these fitted rows, and -1 elsewhere."""
        labels = np.full(len(self.fitted.labels), -1)
        labels[rows] = self.fitted.labels[rows]
        return labels


@dataclass(frozen=True)
class Draw:
    """Shuffled fitted rows, shuffled rows of the set, shuffled relatives, and a standard normal."""

    fitted: Any
    rows: Any
    relatives: list[str]
    normal: float


# The evidence of a view and a draw as arguments of `tepid.calibrate`; None if the set has none.
Make = Callable[[View, Draw], dict[str, Any] | None]


def labels(n: int) -> Make:
    """The labels of n random fitted rows."""
    return lambda view, draw: {"labels": view.some_labels(draw.fitted[:n])}


def accuracy(error: float, *, bare: bool = False) -> Make:
    """The accuracy with an error of this size, which is stated unless it is given bare."""

    def make(view: View, draw: Draw) -> dict[str, Any]:
        value = noisy(view.accuracy, error, draw)
        return {"accuracy": value if bare else (value, error)}

    return make


def noisy(value: float, error: float, draw: Draw) -> float:
    """An accuracy with an error of this size."""
    return min(max(value + error * draw.normal, 0.0), HIGHEST)


def counted(n: int) -> Make:
    """The accuracy as counted on n random rows of the set."""

    def make(view: View, draw: Draw) -> dict[str, Any]:
        z, y = view.whole.of(draw.rows[:n])
        return {"accuracy": tepid.Counted(int((z.argmax(axis=1) == y).sum()), len(y))}

    return make


def models(n: int) -> Make:
    """The logits of n random relatives."""

    def make(view: View, draw: Draw) -> dict[str, Any] | None:
        chosen = draw.relatives[:n]
        return {"models": [view.others[name] for name in chosen]} if len(chosen) == n else None

    return make


def reference(view: View, _: Draw) -> dict[str, Any] | None:
    """The most accurate relative, if it is more accurate."""
    return None if view.stronger is None else {"reference": view.others[view.stronger]}


def weakest(view: View, _: Draw) -> dict[str, Any] | None:
    """The least accurate relative, declared as a reference."""
    return None if view.weakest is None else {"reference": view.others[view.weakest]}


def named_reference(name: str) -> Make:
    """This relative as a reference, whatever its strength."""
    return lambda view, _: {"reference": view.others[name]} if name in view.others else None


def together(*makes: Make) -> Make:
    """Several kinds of evidence at once."""

    def make(view: View, draw: Draw) -> dict[str, Any] | None:
        evidence: dict[str, Any] = {}
        for each in makes:
            found = each(view, draw)
            if found is None:
                return None
            evidence |= found
        return evidence

    return make


LABELS, COUNTED = (5, 10, 25, 50, 100, 200), (25, 50, 100, 200)
# Rows that are the same in every draw.
FIXED: dict[str, Make] = {
    "logits alone": lambda _view, _draw: {},
    "labels: all fitted rows": lambda view, _: {"labels": view.fitted.labels},
    "accuracy ±0": accuracy(0.0),
    "reference": reference,
    "reference = llama31_70b_base": named_reference("llama31_70b_base"),
    "weakest model declared as reference": weakest,
}
DRAWN: dict[str, Make] = {
    **{f"{n} labels": labels(n) for n in LABELS},
    "accuracy ±.01": accuracy(0.01),
    "accuracy ±.03": accuracy(0.03),
    "stale accuracy": accuracy(0.03, bare=True),
    **{f"accuracy counted on {n}": counted(n) for n in COUNTED},
    "10 labels + accuracy ±.03": together(labels(10), accuracy(0.03)),
    "25 labels + accuracy ±.01": together(labels(25), accuracy(0.01)),
    "25 labels + accuracy ±.03": together(labels(25), accuracy(0.03)),
    "25 labels + counted on 100": together(labels(25), counted(100)),
    "100 labels + accuracy ±.03": together(labels(100), accuracy(0.03)),
    "1 model": models(1),
    "2 models": models(2),
    "4 models": models(4),
    "1 model + 25 labels": together(models(1), labels(25)),
    "2 models + 25 labels": together(models(2), labels(25)),
    "4 models + 25 labels": together(models(4), labels(25)),
    "1 model + accuracy ±.03": together(models(1), accuracy(0.03)),
    "4 models + accuracy ±.03": together(models(4), accuracy(0.03)),
    "reference + 25 labels": together(reference, labels(25)),
    "reference + accuracy ±.03": together(reference, accuracy(0.03)),
    "reference + 2 models + 25 labels + accuracy ±.03": together(
        reference, models(2), labels(25), accuracy(0.03)
    ),
}
# The exact method on the same accuracies.
MATCHED: dict[str, Make] = {
    "matching ±.01": accuracy(0.01),
    "matching ±.03": accuracy(0.03),
    **{f"matching counted on {n}": counted(n) for n in COUNTED},
}


def of_set(collection: Collection, name: str, scale: Scale) -> Iterator[Record]:
    """Every row of evidence on one set."""
    whole = collection.load(name)
    target = tepid.temperature_scaling(*whole, engine=ONE).value
    for split in range(scale.splits):
        inside, outside = halves(whole, split)
        view = View(
            name,
            whole.of(inside),
            whole,
            whole.accuracy,
            {other: collection.load(other).logits[inside] for other in collection.relatives(name)},
            collection.stronger(name),
            collection.weakest(collection.relatives(name)),
        )
        judge = Judge(whole.of(outside), target)
        about = {"part": "sets", "group": "", "set": name, "case": name}
        yield from (about | record for record in _of_split(view, judge, split, scale.draws))


def halves(rows: LogitSet, split: int) -> tuple[Any, Any]:
    """A random fifth of the rows to fit, and the others to judge by."""
    order = np.random.default_rng(100 + split).permutation(len(rows.labels))
    inside, outside = np.split(order, [len(order) // 5])
    return inside, outside


def random_of(name: str, *numbers: int) -> np.random.Generator:
    """The random numbers of a set and a split."""
    return np.random.default_rng([SEED, zlib.crc32(name.encode()), *numbers])


def _of_split(view: View, judge: Judge, split: int, draws: int) -> Iterator[Record]:
    z = view.fitted.logits
    rng = random_of(view.name, split)
    uts = judge.record("UTS", tepid.uts(z, engine=ONE))
    yield judge.record("T = 1", 1.0)
    yield uts
    yield judge.record("matching ±0", tepid.match_accuracy(z, view.accuracy, engine=ONE))
    if view.stronger is not None:
        other = view.others[view.stronger]
        votes = tepid.temperature_scaling(z, other.argmax(axis=1), engine=ONE)
        yield judge.record("votes-TS on the reference", votes)
        yield judge.record("DACA", daca(z, other))
        yield uts | {"row": "UTS on these"}
    for turn in range(draws):
        draw = random_draw(view, rng)
        for row, make in {**({} if turn else FIXED), **DRAWN}.items():
            evidence = make(view, draw)
            if evidence is not None:
                yield judge.record(row, calibrate(z, **evidence))
        for row, make in MATCHED.items():
            known = make(view, draw)
            assert known is not None
            yield judge.record(row, tepid.match_accuracy(z, known["accuracy"], engine=ONE))


def random_draw(view: View, rng: np.random.Generator) -> Draw:
    """The next draw of a split."""
    return Draw(
        rng.permutation(len(view.fitted.labels)),
        rng.permutation(len(view.whole.labels)),
        rng.permutation(sorted(view.others)).tolist(),
        float(rng.normal()),
    )


def softmax(logits: Any) -> Any:
    """Probabilities in float64."""
    e = np.exp(logits - logits.max(axis=1, keepdims=True).astype(np.float64))
    return e / e.sum(axis=1, keepdims=True)


def daca(z: Any, reference: Any) -> tepid.Temperature:
    """Disagreement-aware calibration: scaling on a reference's softmax where both agree.

    Luo et al. (2025). A soft label is one row of each class, weighted by its probability.
    """
    agree = z.argmax(axis=1) == reference.argmax(axis=1)
    belief, (n, k) = softmax(reference[agree]), z[agree].shape
    return tepid.temperature_scaling(
        np.repeat(z[agree], k, axis=0),
        np.tile(np.arange(k), n),
        sample_weight=belief.ravel(),
        engine=ONE,
    )
