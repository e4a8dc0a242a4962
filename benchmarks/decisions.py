"""What decisions without labels promise and keep, on folders of real logit sets.

`python benchmarks/decisions.py FOLDER...`, each file an `.npz` of `logits` and `labels`, writes
`results/decisions.json` and `.md`. A fifth of the rows gives the temperature, the thresholds and
the prediction sets, which are applied to the other rows and judged with their labels. The expected
performance is that of the other rows, found without their labels. Everything goes through
`Temperature.threshold`, `prediction_sets` and `expected_performance`. On the 39 sets of the design
the figures are compared with its targets. Where the evidence is random, everything is repeated with
other random seeds, because the targets come from one seed.
"""

import argparse
import dataclasses
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import decisions_tables
import numpy as np
import record
from evidence_cases import (
    ONE,
    SEED,
    Collection,
    Make,
    Record,
    View,
    accuracy,
    calibrate,
    halves,
    labels,
    open_collection,
    random_draw,
    random_of,
    softmax,
    spread,
    together,
)
from rich.progress import track
from sets import LogitSet

import tepid

# The number of sets that the design targets were measured on.
DESIGN = 39
WANTED = (0.90, 0.95)
# A threshold that accepts fewer of the rows that it is found on rests on chance; it counts as none.
LEAST = 12
# Labeled rows of split conformal prediction.
CONFORMAL = 100
# Sets of more classes have too few rows of each for measures per class.
FEW_CLASSES = 10
# Measures of a class that is predicted or labeled in fewer rows are left out.
LEAST_OF_CLASS = 30
DRAWN: dict[str, Make] = {
    "accuracy ±.02": accuracy(0.02),
    "25 labels": labels(25),
    "25 labels + accuracy ±.03": together(labels(25), accuracy(0.03)),
}


@dataclasses.dataclass(frozen=True)
class Scale:
    """How many splits, draws of evidence in each, and random seeds."""

    splits: int = 2
    draws: int = 2
    seeds: int = 20


FULL, QUICK = Scale(), Scale(splits=1, seeds=2)


def measure(name: str, folders: tuple[Path, ...], scale: Scale) -> list[Record]:
    """All records of one set."""
    return list(_of_set(open_collection(folders), name, scale))


def _of_set(collection: Collection, name: str, scale: Scale) -> Iterator[Record]:
    whole = collection.load(name)
    for split in range(scale.splits):
        inside, outside = halves(whole, split)
        view = View(name, whole.of(inside), whole, whole.accuracy, {}, None, None)
        judge = Judge(view.fitted, whole.of(outside))
        for row, t in _fixed(view.fitted):
            yield from judge.judge(row, t)
        for seed in range(scale.seeds):
            rng = random_of(name, split, seed)
            for _ in range(scale.draws):
                yield from ({"seed": seed} | each for each in _drawn(view, judge, rng))


def _drawn(view: View, judge: "Judge", rng: np.random.Generator) -> Iterator[Record]:
    """Every row with the evidence of one draw."""
    draw = random_draw(view, rng)
    for row, make in DRAWN.items():
        evidence = make(view, draw)
        assert evidence is not None
        yield from judge.judge(row, calibrate(view.fitted.logits, **evidence))
    yield from judge.conformal(view.fitted.of(draw.fitted[:CONFORMAL]))


def _fixed(fitted: LogitSet) -> Iterator[tuple[str, tepid.Temperature]]:
    """The temperatures that need no draw."""
    z, y = fitted
    yield "T = 1", _manual(1.0, z)
    yield "UTS", _manual(tepid.uts(z, engine=ONE).value, z)
    # `threshold` and `prediction_sets` refuse logits alone; here they are let through.
    yield "logits alone", dataclasses.replace(calibrate(z), status="ok")
    yield "TS on 20 % labels", tepid.temperature_scaling(z, y, engine=ONE)


def _manual(value: float, z: Any) -> tepid.Temperature:
    return tepid.Temperature(
        value, "manual", samples=len(z), classes=z.shape[1], implied_accuracy=0.0
    )


class Judge:
    """Rows that decisions are found on, and rows whose labels judge these decisions."""

    def __init__(self, fitted: LogitSet, rows: LogitSet) -> None:
        self.fitted = fitted.logits
        self.z, self.y = rows
        self.predicted = self.z.argmax(axis=1)
        self.right = self.predicted == self.y

    def judge(self, row: str, t: tepid.Temperature) -> Iterator[Record]:
        """A record for each wanted precision and coverage, and one for the performance."""
        at = self._confidence(t.value)
        ends = None if t.interval is None else [self._confidence(end) for end in t.interval]
        for wanted in WANTED:
            found = t.threshold(self.fitted, precision=wanted, engine=ONE)
            about: Record = {"part": "precision", "wanted": wanted}
            yield about | {"row": row} | self._threshold(found, at, ends)
            if ends is not None:
                cautious = self._threshold(found, at, cautious=True)
                yield about | {"row": f"{row}, cautious"} | cautious
            sets = t.prediction_sets(self.fitted, wanted, engine=ONE)
            yield self._sets(row, wanted, sets(self.z))
        yield self._performance(row, t)

    def _confidence(self, temperature: float) -> Any:
        return softmax(self.z.astype(np.float64) / temperature).max(axis=1)

    def _threshold(
        self, found: Any, at: Any, ends: list[Any] | None = None, *, cautious: bool = False
    ) -> Record:
        """What a threshold accepts; `ends` is the confidence at both ends of T's interval."""
        promise = found.cautious if cautious else found.accepted
        kept = found.accept(at, self.predicted, cautious=cautious)
        about = {"accepted": float(kept.mean())}
        if round(promise.share * found.rows) < LEAST or not kept.any():
            return about | {"nothing": True}
        realized = float(self.right[kept].mean())
        expected = promise.precision.low if cautious else promise.precision.value
        about |= {"nothing": False, "realized": realized, "expected": expected}
        about["binding"] = promise.share < 1
        if ends is not None:
            high, low = (float(end[kept].mean()) for end in ends)
            about["missed"] = max(low - realized, realized - high, 0.0)
        return about

    def _sets(self, row: str, wanted: float, inside: Any) -> Record:
        return {
            "part": "sets", "row": row, "wanted": wanted, "size": float(inside.sum(axis=1).mean()),
            "classes": inside.shape[1],
            "coverage": float(inside[np.arange(len(self.y)), self.y].mean()),
        }  # fmt: skip

    def conformal(self, labeled: LogitSet) -> Iterator[Record]:
        """Split conformal prediction on the model's own probabilities."""
        t = _manual(1.0, self.z)
        for wanted in WANTED:
            found = t.prediction_sets(self.fitted, wanted, labeled=tuple(labeled), engine=ONE)
            assert found.conformal is not None
            inside = found.conformal(self.z)
            yield self._sets(f"split conformal, {CONFORMAL} labels", wanted, inside)

    def _performance(self, row: str, t: tepid.Temperature) -> Record:
        found = t.expected_performance(self.z, engine=ONE)
        realized = float(self.right.mean())
        about: Record = {
            "part": "performance", "row": row, "error": abs(found.accuracy.value - realized),
        }  # fmt: skip
        if t.interval is not None:
            about["covered"] = bool(found.accuracy.low <= realized <= found.accuracy.high)
            about["width"] = found.accuracy.high - found.accuracy.low
        if len(found.classes) <= FEW_CLASSES:
            about |= self._by_class(list(found.classes.values()))
        return about

    def _by_class(self, expected: list[Any]) -> Record:
        predicted, actual = (
            np.bincount(which, minlength=len(expected)) for which in (self.predicted, self.y)
        )
        right = np.bincount(self.y[self.right], minlength=len(expected))
        counted = np.flatnonzero(np.minimum(predicted, actual) >= LEAST_OF_CLASS)
        if not len(counted):
            return {}
        under = {"precision": predicted, "recall": actual, "f1": (predicted + actual) / 2}
        errors = {
            name: [abs(getattr(expected[k], name).value - right[k] / count[k]) for k in counted]
            for name, count in under.items()
        }
        mean = {name: float(np.mean(values)) for name, values in errors.items()}
        return mean | {"worst_f1": float(max(errors["f1"]))}


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one split and two seeds")
    parser.add_argument("--sets", type=lambda text: text.split(","), help="only these are judged")
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    args = parser.parse_args(arguments)
    known = open_collection(tuple(args.folders)).paths
    if not known:
        parser.error(f"the folders must hold .npz files, got none in {args.folders}")
    if strangers := sorted(set(args.sets or []) - set(known)):
        parser.error(f"--sets must be names of sets in the folders, got {', '.join(strangers)}")
    return args


def main() -> None:
    """Measure every set and write the figures."""
    args = options()
    folders, scale = tuple(args.folders), QUICK if args.quick else FULL
    shown = " ".join(f"{f.resolve().parent.name}/{f.name}" for f in folders)
    command = f"python benchmarks/decisions.py {shown}" + (" --quick" if args.quick else "")
    command += f" --sets {','.join(args.sets)}" if args.sets else ""
    about = record.circumstances(command, SEED, args.workers, ("tepid", "numpy", "numba"))
    names = [n for n in open_collection(folders).paths if args.sets is None or n in args.sets]
    start = time.perf_counter()
    task = partial(measure, folders=folders, scale=scale)
    records: list[Record] = []
    for name, found in zip(
        names, track(spread(task, names, args.workers), "", len(names)), strict=True
    ):
        records += [{"set": name} | each for each in found]
    summary = decisions_tables.summarize(records) | {"seeds": scale.seeds}
    design = len(names) == DESIGN and not args.quick and not args.sets
    targets = decisions_tables.read_targets() if design else None
    about |= {"sets_judged": len(names), "records": len(records)}
    about |= dataclasses.asdict(scale)
    about["seconds"] = round(time.perf_counter() - start)
    tables = decisions_tables.markdown(summary, targets)
    text = record.preamble("Decisions", about) + "\n" + tables
    missed = {"missed": decisions_tables.missed(summary, targets)} if targets else {}
    record.write("decisions", about | summary | missed, text, args.results)
    print(text)


if __name__ == "__main__":
    main()
