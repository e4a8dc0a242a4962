"""The numbers of a report: fitted temperatures, and sums over the rows at each slider stop.

The methods are fitted in shared passes (`tepid.methods.advice.fit_shared`). One further pass sums
everything that the page shows.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tepid.engines import Engine
from tepid.methods.advice import fit_shared, would_help
from tepid.methods.passes import ByKey, without_zero_weight
from tepid.methods.unsupervised import tails_of
from tepid.report.summaries import Classes, Examples, Members, as_numpy, predict
from tepid.sources import Batch, Source
from tepid.summaries.curve import Curve
from tepid.summaries.lattice import Lattice
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature
from tepid.validation import Float64, Int64

# The slider runs from T = 1/4 to 8, further where a temperature lies outside, in steps of 9 %.
_LOW, _HIGH, _PER_OCTAVE = -3, 2, 8
# Temperatures beyond this many octaves appear in the table but not on the slider.
_REACH = 20


@dataclass(frozen=True)
class Fits:
    """Temperatures by name, which of them the report is about, and how they were obtained.

    `tails` are those of the rows, if fitting has summed them. `own` says that the temperatures were
    fitted to the rows of the report.
    """

    temperatures: dict[str, Temperature]
    main: str
    would_help: str = ""
    own: bool = False
    tails: Tails | None = None

    @property
    def drawn(self) -> dict[str, float]:
        """The temperatures that have a slider stop."""
        values = {name: t.value for name, t in self.temperatures.items()}
        return {name: t for name, t in values.items() if 2.0**-_REACH <= t <= 2.0**_REACH}

    @property
    def shown(self) -> str:
        """The name of the temperature `after`: the main one, or the first other than T = 1."""
        moves = [name for name, t in self.drawn.items() if t != 1]
        return self.main if self.main in moves or not moves else moves[0]

    @property
    def after(self) -> float:
        """The temperature that is compared with T = 1 for each class and example row."""
        return self.drawn.get(self.shown, 1.0)


def name_fits(temperatures: Sequence[Temperature] | Mapping[str, Temperature]) -> Fits:
    """The temperatures of the caller, by their names or by their methods."""
    if isinstance(temperatures, Mapping):
        return Fits(dict(temperatures), next(iter(temperatures)))
    named: dict[str, Temperature] = {}
    for t in temperatures:
        again = sum(other.method == t.method for other in named.values())
        named[f"{t.method} ({again + 1})" if again else t.method] = t
    return Fits(named, next(iter(named)))


def fit_temperatures(source: Source, engine: Engine) -> Fits:
    """The report's own fits: from the logits alone, and from labels if there are any."""
    shared = fit_shared(source, engine, "measure" if source.labeled else None)
    found = shared.temperatures
    if not source.labeled:
        advice = would_help(found["guarded"])
        return Fits(found, "guarded", advice, own=True, tails=shared.tails)
    order = ("temperature", "accuracy", "uts", "guarded")
    ordered = {name: found[name] for name in order}
    return Fits(ordered, "temperature", own=True, tails=shared.tails)


@dataclass(frozen=True)
class Findings:
    """All numbers of a report. `rows_read` counts rows of weight zero too."""

    fits: Fits
    rows_read: int
    tails: Tails
    curve: Curve
    points: dict[str, Curve]
    members: Members
    before: Classes
    after: Classes
    examples: Examples

    @property
    def accuracy(self) -> float | None:
        """The share of correct rows, or None without labels."""
        if not self.labeled:
            return None
        return float(self.before.correct.sum() / self.curve.weight)

    @property
    def labeled(self) -> bool:
        """Whether the rows have labels."""
        return self.curve.labeled


def sum_findings(
    source: Source, fits: Fits, engine: Engine, among: Int64 | None = None
) -> Findings:
    """The findings, by one pass; example rows are chosen `among` these rows, if given."""
    tails = fits.tails
    if tails is None:
        tails = engine.total(partial(without_zero_weight, tails_of), source, "reading")
    for temperature in fits.temperatures.values():
        temperature.check_classes(tails.classes)
    of = partial(_sum_batch, fits=fits, theta=tails.thresholds(), among=among)
    total = engine.total(partial(_sum_and_count, of=of), source, "report").parts
    sums = total["sums"].parts
    points = sums.pop("points").parts
    return Findings(fits=fits, rows_read=total["rows"], tails=tails, points=points, **sums)


def _sum_and_count(batch: Batch, of: Callable[[Batch], ByKey]) -> ByKey:
    batch.numbers()  # raises if the rows have no numbers, before any are dropped
    return ByKey({"rows": len(batch.logits), "sums": without_zero_weight(of, batch)})


def _sum_batch(batch: Batch, fits: Fits, theta: Float64, among: Int64 | None) -> ByKey:
    z, y, u = as_numpy(batch.logits), batch.labels, batch.weight

    def curve(lattice: Lattice) -> Curve:
        return Curve.of(z, lattice=lattice, thresholds=theta, labels=y, sample_weight=u)

    before = predict(z, labels=y, sample_weight=u)
    after = predict(z, labels=y, sample_weight=u, temperature=fits.after)
    rows = batch.numbers()
    eligible = np.ones(len(z), bool) if among is None else np.isin(rows, among)
    points = {name: curve(Lattice.point(t)) for name, t in fits.drawn.items()}
    return ByKey(
        {
            "curve": curve(_window(fits)),
            "points": ByKey(points),
            "members": Members.of(z, thresholds=theta, sample_weight=u),
            "before": before.classes,
            "after": after.classes,
            "examples": Examples.of(before, after, rows, eligible=eligible, labels=y),
        }
    )


def _window(fits: Fits) -> Lattice:
    octaves = [-math.log2(t) for t in fits.drawn.values()]
    low = min([_LOW, *map(math.floor, octaves)])
    high = max([_HIGH, *map(math.ceil, octaves)])
    return Lattice.window(low, high, _PER_OCTAVE)


@dataclass(frozen=True)
class Stop:
    """One slider stop: mean losses and confidence, and sums by bin of confidence.

    `uts` is the UTS loss per pair, `nll` the loss of the labels per row; NaN where there are none.
    """

    temperature: float
    confidence: float
    uts: float
    nll: float
    count: Float64
    confidence_sum: Float64
    correct: Float64

    @property
    def ece(self) -> float:
        """Expected calibration error over the bins."""
        return float(np.abs(self.confidence_sum - self.correct).sum() / self.count.sum())


@dataclass(frozen=True)
class Slider:
    """Every stop, in rising order of T, and the position of each named temperature."""

    stops: list[Stop]
    positions: dict[str, int]

    @property
    def uncalibrated(self) -> int:
        """The position of T = 1."""
        return _nearest(self.stops, 1.0)

    def stop_of(self, name: str) -> Stop | None:
        """The stop of a named temperature, or None if it is out of reach."""
        return self.stops[self.positions[name]] if name in self.positions else None


def make_slider(findings: Findings) -> Slider:
    """The stops of the lattice and of the fitted temperatures."""
    beta = findings.curve.lattice.nodes
    on_lattice = [_stop(findings.curve, q, 1 / float(b)) for q, b in enumerate(beta)]
    fitted = findings.fits.drawn
    between = [
        _stop(curve, 0, fitted[name])
        for name, curve in findings.points.items()
        if not any(_same(fitted[name], stop.temperature) for stop in on_lattice)
    ]
    stops: list[Stop] = []
    for stop in sorted(on_lattice + between, key=lambda stop: stop.temperature):
        if not stops or not _same(stop.temperature, stops[-1].temperature):
            stops.append(stop)
    return Slider(stops, {name: _nearest(stops, t) for name, t in fitted.items()})


def _nearest(stops: list[Stop], temperature: float) -> int:
    return min(range(len(stops)), key=lambda i: abs(math.log(stops[i].temperature / temperature)))


def _same(a: float, b: float) -> bool:
    return abs(a / b - 1) < 1e-6


def _stop(curve: Curve, node: int, temperature: float) -> Stop:
    count, confidence_sum, correct = curve.histogram[node]
    losses = [float(loss[node]) for loss in curve.loss]
    return Stop(
        temperature,
        float(curve.confidence[node] / curve.weight),
        losses[0] / curve.pairs[0] if curve.pairs[0] else math.nan,
        losses[1] / curve.pairs[1] if curve.labeled else math.nan,
        count,
        confidence_sum,
        correct,
    )
