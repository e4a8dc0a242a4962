"""Sites that may not share their rows: each sums its own, and only the sums are shared.

With labels or an accuracy one round is enough. UTS needs two, since its thresholds depend on the
rows of every site: the sites first share their tails and then, given all tails, their curves.
"""

import os
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from tepid import store
from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods.accuracy import accuracy_range, check_error, matched_fit
from tepid.methods.labels import QUESTION, labeled_fit
from tepid.methods.passes import Passes, both, check_total, run_on_sums, without_zero_weight
from tepid.methods.search import read_off, readings_of
from tepid.methods.unsupervised import (
    check_budget,
    guarded_fit,
    tails_of,
    unsupervised,
    uts_question,
    uts_result,
)
from tepid.sources import Batch, open_source
from tepid.summaries.curve import Curve
from tepid.summaries.lattice import Lattice
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature

# Nodes per octave: T read off such a curve is within 1e-5 of what the rows themselves give.
_PER_OCTAVE = 4
_LATTICE = Lattice.window(per_octave=_PER_OCTAVE)


@dataclass(frozen=True)
class Summaries:
    """What a site shares of its rows: O(k) sums over them, and no row.

    `prints` identify the sites whose sums it contains, so that none is added twice. The sum over a
    single row is that row itself: a site should not share sums over a few rows.
    """

    tails: Tails
    curve: Curve
    prints: tuple[str, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
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
        """Write to `.npz`."""
        header: dict[str, Any] = {"prints": list(self.prints)}
        arrays: store.Arrays = {}
        for name, part in (("tails", self.tails), ("curve", self.curve)):
            header[name], own = store.fields_of(part)
            arrays |= {f"{name}.{field}": array for field, array in own.items()}
        store.write(path, "Summaries", header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Summaries":
        """Return what `save` wrote; raises `InputError` if the file is damaged."""
        kind, header, arrays = store.read(path, ("Summaries",))
        with store.checking(path, kind):
            loaded = _unpack(header, arrays)
            _check(loaded)
        return loaded


def _unpack(header: store.Header, arrays: store.Arrays) -> Summaries:
    own: dict[str, store.Arrays] = {"tails": {}, "curve": {}}
    for name, array in arrays.items():
        part, _, field = name.partition(".")
        own.setdefault(part, {})[field] = array
    if header.keys() != {"prints", "tails", "curve"} or own.keys() != {"tails", "curve"}:
        raise InputError("it must hold tails, curve and prints alone, got others")
    prints = header["prints"]
    if not isinstance(prints, list) or not all(isinstance(one, str) for one in prints):
        raise InputError(f"prints must be a list of strings, got {store.shorten(prints)}")
    for name in own:
        if not isinstance(header[name], dict):
            raise InputError(f"{name} must be fields by name, got {store.shorten(header[name])}")
    tails = store.build(Tails, header["tails"], own["tails"])
    return Summaries(tails, store.build(Curve, header["curve"], own["curve"]), tuple(prints))


def _check(summaries: Summaries) -> None:
    """Refuse sums that `summarize` cannot have made, as a damaged file may hold them."""
    tails, curve = summaries.tails, summaries.curve
    tails.check()
    curve.check()
    if tails.classes != curve.classes:
        raise InputError(f"classes must agree, got {tails.classes} and {curve.classes}")
    if curve.lattice != _LATTICE or curve.bins:
        raise InputError("the curve must be on the lattice of summaries, got another one")
    if len(curve.thresholds) not in ((0,) if curve.labeled else (0, 3)):
        raise InputError(f"thresholds must be none or three, got {len(curve.thresholds)}")
    if abs(tails.weight - curve.weight) > 1e-6 * curve.weight:
        raise InputError(f"weights must agree, got {tails.weight:g} and {curve.weight:g}")


def summarize(
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
    """The sums over the rows of one site, to be added to those of others.

    `given` are the merged summaries of the first round, for the second round of UTS. With labels
    there is only one round.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> here, there = (4 * rng.normal(size=(2000, 5)) for _ in range(2))
    >>> tails = summarize(here) + summarize(there)
    >>> both = summarize(here, given=tails) + summarize(there, given=tails)
    >>> from_summaries(both).value  # uts on all rows gives the same
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
    # Without a print, so that two sites whose rows all have weight zero do not look like one.
    prints = (store.digest("Tails", *store.fields_of(total.first)),) if total.second.weight else ()
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
    """The temperature of merged summaries, without the rows.

    Summaries with labels give temperature scaling; with an `accuracy`, the temperature that matches
    it; after the second round UTS, or with a `budget` the result of `tepid.guarded`. The relative
    error against a fit to the rows is below `precision`, 1e-5, while T lies in 1/32 to 32; beyond
    that the status is `at-bound`.
    """
    tails, curve = summaries.tails, summaries.curve
    check_total(curve.weight)
    if accuracy is not None:
        if budget is not None:
            raise InputError("accuracy must go without a budget, got both")
        check_error(standard_error)
        matched = matched_fit(accuracy_range(accuracy), standard_error, repeatable=False)
        return run_on_sums(matched, tails, curve).temperature
    if curve.labeled:
        return labeled_fit(read_off(curve, readings_of(QUESTION, curve))).temperature
    _check_rounds(summaries)
    if budget is not None:
        check_budget(budget)
        return run_on_sums(guarded_fit(budget, repeatable=False), tails, curve).temperature
    return run_on_sums(_uts(), tails, curve)


def _uts() -> Passes[Temperature]:
    answer, tails = yield from unsupervised(repeatable=False)
    return uts_result(answer, tails, answer.temperature, answer.confidence)


def _check_rounds(summaries: Summaries) -> None:
    """Raise unless the thresholds of the second round are those of the rows in it."""
    used = summaries.curve.thresholds
    if not len(used):
        raise InputError(
            "summaries must be of the second round for UTS, got the first; summarize again, given "
            "the merged ones, or say the accuracy"
        )
    own = uts_question(summaries.tails).thresholds
    if own is None or not np.allclose(own, used, rtol=1e-6, atol=1e-12):
        raise InputError(
            "summaries must be of the same rows in both rounds, got thresholds of other rows"
        )
