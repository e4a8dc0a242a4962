"""From a source to all that a report says: the fits, and two readings of the rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tepid import metrics
from tepid.arrays import Float64, Int64
from tepid.curve import Curve
from tepid.engines import Engine
from tepid.lattice import Lattice
from tepid.methods import advise, from_accuracy, from_labels
from tepid.methods.logits import tails_of
from tepid.methods.passes import without_zero_weight
from tepid.reliability import Reliability
from tepid.report.picks import Picks
from tepid.report.summaries import Classes, Members, here, predictions
from tepid.sources import Batch, Source
from tepid.tails import Tails
from tepid.temperature import Temperature

# The slider runs from T = 1/4 to 8, further where a temperature lies outside, in steps of 9 %.
_LOW, _HIGH, _PER_OCTAVE = -3, 2, 8
# A temperature beyond this many octaves is told and not drawn.
_REACH = 20


@dataclass(frozen=True)
class Fits:
    """Temperatures by name, the one that the report is about, and what would help most."""

    temperatures: dict[str, Temperature]
    main: str
    would_help: str = ""
    own: bool = False  # fitted to the very rows of the report

    @property
    def drawn(self) -> dict[str, float]:
        """The temperatures that have a place on the slider."""
        every = {name: t.value for name, t in self.temperatures.items()}
        return {name: t for name, t in every.items() if 2.0**-_REACH <= t <= 2.0**_REACH}

    @property
    def shown(self) -> str:
        """Whose temperature the columns `after` are at: the main one, or the first that moves."""
        moves = [name for name, t in self.drawn.items() if t != 1]
        return self.main if self.main in moves or not moves else moves[0]

    @property
    def after(self) -> float:
        """The temperature of the columns `after`."""
        return self.drawn.get(self.shown, 1.0)


@dataclass(frozen=True)
class Named:
    """Summaries of the same rows by name."""

    parts: dict[str, Any]

    def __add__(self, other: "Named") -> "Named":
        return Named({name: part + other.parts[name] for name, part in self.parts.items()})


@dataclass(frozen=True)
class Findings:
    """All that a report says, as sums over the rows."""

    fits: Fits
    read: int  # all rows, also those of weight zero
    tails: Tails
    curve: Curve
    points: Named
    members: Members
    before: Classes
    after: Classes
    picks: Picks

    @property
    def accuracy(self) -> float | None:
        """The share of rows that are right, where there are labels."""
        if not self.curve.labelled:
            return None
        return float(self.before.correct.sum() / self.curve.weight)


def given(temperatures: Sequence[Temperature] | Mapping[str, Temperature]) -> Fits:
    """The fits that the caller brought, by their own names or by their methods."""
    named = temperatures if isinstance(temperatures, Mapping) else _named(temperatures)
    return Fits(dict(named), next(iter(named)))


def _named(temperatures: Sequence[Temperature]) -> dict[str, Temperature]:
    named: dict[str, Temperature] = {}
    for t in temperatures:
        again = sum(other.method == t.method for other in named.values())
        named[f"{t.method} ({again + 1})" if again else t.method] = t
    return named


def fitted(source: Source, engine: Engine) -> Fits:
    """The report's own fits: from the logits alone, and from labels where there are any."""
    advice = advise(source.select(), engine=engine)
    if not source.labeled:
        return Fits(advice.answers, advice.use, advice.would_help, own=True)
    reliability = partial(without_zero_weight, _reliability)
    accuracy = metrics.accuracy(engine.total(reliability, source, "accuracy"))
    labelled = {
        "temperature": from_labels(source, engine=engine),
        "accuracy": from_accuracy(source.select(), accuracy, engine=engine),
    }
    return Fits(labelled | advice.answers, "temperature", own=True)


def _reliability(batch: Batch) -> Reliability:
    return Reliability.of_logits(here(batch.logits), batch.labels, sample_weight=batch.weight)


def found(source: Source, fits: Fits, engine: Engine, among: Int64 | None = None) -> Findings:
    """The sums over all rows; the picks are taken `among` these rows, if they are given."""
    seen = engine.total(_tails, source, "classes").parts
    tails = seen["tails"]
    for temperature in fits.temperatures.values():
        temperature.check_classes(tails.classes)
    theta = tails.thresholds()
    of = partial(_summed, fits=fits, theta=theta, among=among)
    total = engine.total(partial(_numbered, of=of), source, "report")
    return Findings(fits=fits, read=seen["rows"], tails=tails, **total.parts)


def _tails(batch: Batch) -> Named:
    tails = without_zero_weight(tails_of, batch)
    return Named({"rows": len(batch.logits), "tails": tails})


def _numbered(batch: Batch, of: Callable[[Batch], Named]) -> Named:
    batch.numbers()  # refuses rows without numbers before any are dropped
    return without_zero_weight(of, batch)


def _summed(batch: Batch, fits: Fits, theta: Float64, among: Int64 | None) -> Named:
    z, y, u = here(batch.logits), batch.labels, batch.weight

    def curve(lattice: Lattice) -> Curve:
        return Curve.of(z, lattice=lattice, thresholds=theta, labels=y, sample_weight=u)

    before = predictions(z, labels=y, sample_weight=u)
    after = predictions(z, labels=y, sample_weight=u, temperature=fits.after)
    rows = batch.numbers()
    there = np.ones(len(z), bool) if among is None else np.isin(rows, among)
    points = {name: curve(Lattice.point(t)) for name, t in fits.drawn.items()}
    return Named(
        {
            "curve": curve(_window(fits)),
            "points": Named(points),
            "members": Members.of(z, thresholds=theta, sample_weight=u),
            "before": before.classes,
            "after": after.classes,
            "picks": Picks.of(before, after, rows, there=there, labels=y),
        }
    )


def _window(fits: Fits) -> Lattice:
    octaves = [-math.log2(t) for t in fits.drawn.values()]
    low = min([_LOW, *map(math.floor, octaves)])
    high = max([_HIGH, *map(math.ceil, octaves)])
    return Lattice.window(low, high, _PER_OCTAVE)
