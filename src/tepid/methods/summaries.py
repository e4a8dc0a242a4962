"""Rows that must stay where they are: each site sums its own, and only the sums are shared.

With labels or an accuracy one round is enough. UTS takes two, since its thresholds come from the
rows of every site: the sites share their tails first, and then their curves, given all tails.
"""

import os
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any, TypeVar

import numpy as np

from tepid import records
from tepid.curve import Curve
from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.lattice import Lattice
from tepid.methods.accuracy import accuracy_range, check_error, matched_fit
from tepid.methods.groups import Fit
from tepid.methods.guard import check_budget, guarded_fit
from tepid.methods.labels import QUESTION, labelled_fit
from tepid.methods.logits import tails_of, unsupervised, uts_question, uts_result
from tepid.methods.passes import Asking, both, check_total, without_zero_weight
from tepid.methods.search import read_off, readings_of
from tepid.sources import Batch, open_source
from tepid.tails import Tails
from tepid.temperature import Temperature

# Nodes per octave: T read off such a curve is within 1e-5 of what the rows themselves give.
_PER_OCTAVE = 4
_LATTICE = Lattice.window(per_octave=_PER_OCTAVE)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Summaries:
    """What a site shares of its rows: O(k) sums over them, and no row.

    `prints` tell whose sums are in it, so that nobody's are added twice. The trap: the sum over a
    single row is that row's own, so a site should not share what it has summed over a few.
    """

    tails: Tails
    curve: Curve
    prints: tuple[str, ...]

    @property
    def rows(self) -> int:
        """How many rows were summed."""
        return round(self.curve.rows)

    def __add__(self, other: "Summaries") -> "Summaries":
        classes = self.tails.classes, other.tails.classes
        if classes[0] != classes[1]:
            raise InputError(
                f"summaries must be of the same classes, got {classes[0]} and {classes[1]}"
            )
        if not np.array_equal(self.curve.thresholds, other.curve.thresholds):
            raise InputError(
                "summaries must be of one round, given the same merged tails, got two rounds"
            )
        twice = set(self.prints) & set(other.prints)
        if twice:
            raise InputError("summaries must be of different rows, got the same rows twice")
        return Summaries(
            self.tails + other.tails, self.curve + other.curve, (*self.prints, *other.prints)
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file of plain arrays; nothing is pickled."""
        records.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Summaries":
        """Read what `save` wrote."""
        loaded: Summaries = records.load(path, cls)
        return loaded


def summarise(
    logits: Any,
    labels: Any = None,
    *,
    given: Summaries | None = None,
    sample_weight: Any = None,
    class_axis: int | None = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Summaries:
    """What the rows say together, to be added to what others' rows say.

    `given` are the merged summaries of the first round, for the second one of UTS. With labels
    there is only one round.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> here, there = (4 * rng.normal(size=(2000, 5)) for _ in range(2))
    >>> tails = summarise(here) + summarise(there)
    >>> both = summarise(here, given=tails) + summarise(there, given=tails)
    >>> from_summaries(both).value  # what from_logits says of all rows
    0.96993
    """
    source = open_source(
        logits,
        labels=labels,
        sample_weight=sample_weight,
        class_axis=class_axis,
        columns=columns,
        probabilities=probabilities,
    )
    if given is not None and source.labeled:
        raise InputError("labels must go without given, which is for UTS, got both")
    if given is not None and source.classes not in (None, given.tails.classes):
        raise InputError(
            f"given must be of the {source.classes} classes of the logits, "
            f"got {given.tails.classes}"
        )
    thresholds = None if given is None else uts_question(given.tails).thresholds
    of = both(tails_of, partial(_curve, thresholds=thresholds))
    total = choose_engine(engine, source).total(partial(without_zero_weight, of), source, "summing")
    # Rows that weigh nothing are nobody's, so that two such sites do not look like one.
    prints = (records.digest(total.first),) if total.second.weight else ()
    return Summaries(total.first, total.second, prints)


def _curve(batch: Batch, thresholds: Any) -> Curve:
    return Curve.of(
        batch.logits,
        lattice=_LATTICE,
        thresholds=thresholds,
        labels=batch.labels,
        sample_weight=batch.weight,
        bins=0,
    )


def merged(summaries: list[Summaries]) -> Summaries:
    """The sum of several."""
    if not summaries:
        raise InputError("summaries must be at least one, got none")
    return reduce(add, summaries)


def from_summaries(
    summaries: Summaries,
    *,
    accuracy: float | tuple[float, float] | None = None,
    standard_error: float = 0.0,
    budget: float | None = None,
) -> Temperature:
    """The temperature that merged summaries tell; the rows are not needed any more.

    From summaries with labels it is temperature scaling, with an `accuracy` the temperature that
    matches it, and after the second round UTS, or with a `budget` what `tepid.guarded` gives. The
    relative error against a fit to the rows is below `precision`, 1e-5, while T lies in 1/32 to 32;
    beyond that the status is `at-bound`.
    """
    _check_weight(summaries)
    if accuracy is not None:
        if budget is not None:
            raise InputError("accuracy must go without a budget, got both")
        check_error(standard_error)
        known = accuracy_range(accuracy)
        fit = _answered(matched_fit(known, standard_error, repeatable=False), summaries)
        return fit.temperature
    if summaries.curve.labelled:
        return _labelled(summaries.curve)
    _check_rounds(summaries)
    if budget is not None:
        check_budget(budget)
        return _answered(guarded_fit(budget, repeatable=False), summaries).temperature
    return _answered(_unsupervised(), summaries).temperature


def _labelled(curve: Curve) -> Temperature:
    return labelled_fit(read_off(curve, readings_of(QUESTION, curve))).temperature


def _unsupervised() -> Asking[Fit]:
    answer, tails = yield from unsupervised(repeatable=False)
    return Fit(uts_result(answer, tails, answer.temperature, answer.confidence), None)


def _answered(asking: Asking[Result], summaries: Summaries) -> Result:
    """What a method returns when its passes are answered by sums that are there already."""
    reply: Any = None
    while True:
        try:
            wanted = asking.send(reply)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # a generator's value is not typed
        reply = summaries.tails if wanted.stage == "reading" else summaries.curve


def _check_weight(summaries: Summaries) -> None:
    check_total(summaries.curve.weight)


def _check_rounds(summaries: Summaries) -> None:
    """The thresholds of the second round must be those of the very rows in it."""
    used = summaries.curve.thresholds
    if not len(used):
        raise InputError(
            "summaries must be of the second round for UTS, got the first; summarise again, given "
            "the merged ones, or say the accuracy"
        )
    own = uts_question(summaries.tails).thresholds
    if own is None or not np.allclose(own, used, rtol=1e-6, atol=1e-12):
        raise InputError(
            "summaries must be of the same rows in both rounds, got thresholds of other rows"
        )
