"""The numbers of a report: fitted temperatures, and sums over the rows at each slider stop.

The methods are fitted in shared passes (`tepid.posterior.calibration.fit_methods`). One further
pass sums everything that the page shows.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tepid.decisions import ConfidenceSums
from tepid.engines import Engine
from tepid.methods.exact import tails_of
from tepid.methods.passes import ByKey
from tepid.posterior.calibration import fit_methods
from tepid.report.summaries import (
    Classes,
    Members,
    TopRows,
    as_numpy,
    choose_examples,
    predict,
)
from tepid.sources import Batch, Source
from tepid.sources.batch import without_zero_weight
from tepid.summaries.curve import Curve, Lattice
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature
from tepid.validation import Float64, Int64, weight_column

# The slider runs from T = 1/4 to 8, further where a temperature lies outside, in steps of 9 %.
_LOW, _HIGH, _PER_OCTAVE = -3, 2, 8
# Bins of confidence at each stop, of which thresholds choose some, and those of the diagrams.
BINS, DIAGRAM_BINS = 1500, 15
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

    @property
    def about(self) -> Temperature:
        """The main temperature."""
        return self.temperatures[self.main]


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
    found, tails = fit_methods(source, engine)
    return Fits(found, next(iter(found)), own=True, tails=tails)


@dataclass(frozen=True)
class Findings:
    """All numbers of a report. `rows_read` counts rows of weight zero too.

    `by_class` holds the sums by class at T = 1, at the temperature that is compared with it, and at
    the main one and both ends of its interval. `confidence` are the sums of those three.
    """

    fits: Fits
    rows_read: int
    curve: Curve
    points: dict[str, Curve]
    members: Members
    by_class: dict[float, Classes]
    confidence: ConfidenceSums
    examples: dict[str, TopRows]

    @property
    def before(self) -> Classes:
        """The sums by class at T = 1."""
        return self.by_class[1.0]

    @property
    def after(self) -> Classes:
        """The sums by class at the temperature that is compared with T = 1."""
        return self.by_class[self.fits.after]

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

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.curve.classes


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
    keyed = {name: total.pop(name).parts for name in ("points", "by_class", "examples")}
    return Findings(fits=fits, **keyed, **total)


def _sum_and_count(batch: Batch, of: Callable[[Batch], ByKey]) -> ByKey:
    batch.numbers()  # raises if the rows have no numbers, before any are dropped
    return ByKey(without_zero_weight(of, batch).parts | {"rows_read": len(batch.logits)})


def _sum_batch(batch: Batch, fits: Fits, theta: Float64, among: Int64 | None) -> ByKey:
    z, y, u = as_numpy(batch.logits), batch.labels, batch.weight

    def curve(lattice: Lattice) -> Curve:
        return Curve.of(z, lattice=lattice, thresholds=theta, labels=y, sample_weight=u, bins=BINS)

    ends = fits.about.ends
    predictions = {
        t: predict(z, labels=y, sample_weight=u, temperature=t) for t in {1.0, fits.after, *ends}
    }
    before, after = predictions[1.0], predictions[fits.after]
    confidence = np.stack([predictions[t].confidence for t in ends])
    rows = batch.numbers()
    eligible = np.ones(len(z), bool) if among is None else np.isin(rows, among)
    points = {name: curve(Lattice.point(t)) for name, t in fits.drawn.items()}
    return ByKey(
        {
            "curve": curve(_window(fits)),
            "points": ByKey(points),
            "members": Members.of(z, thresholds=theta, sample_weight=u),
            "by_class": ByKey({t: found.classes for t, found in predictions.items()}),
            "confidence": ConfidenceSums.of_confidence(confidence, weight_column(u, len(z))),
            "examples": ByKey(choose_examples(before, after, rows, eligible, y)),
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
    `fine` (3, bins) are the weight, confidence and correct rows of narrower bins.
    """

    temperature: float
    confidence: float
    uts: float
    nll: float
    count: Float64
    confidence_sum: Float64
    correct: Float64
    fine: Float64

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
    beta = findings.curve.lattice.nodes.tolist()
    stops = [_stop(findings.curve, q, 1 / b) for q, b in enumerate(beta)]
    fitted = findings.fits.drawn
    for name, t in fitted.items():
        if not any(abs(t / stop.temperature - 1) < 1e-6 for stop in stops):
            stops.append(_stop(findings.points[name], 0, t))
    stops.sort(key=lambda stop: stop.temperature)
    return Slider(stops, {name: _nearest(stops, t) for name, t in fitted.items()})


def _nearest(stops: list[Stop], temperature: float) -> int:
    return min(range(len(stops)), key=lambda i: abs(math.log(stops[i].temperature / temperature)))


def _stop(curve: Curve, node: int, temperature: float) -> Stop:
    fine = curve.histogram[node]
    count, confidence_sum, correct = fine.reshape(3, DIAGRAM_BINS, -1).sum(axis=2)
    losses = [float(loss[node]) for loss in curve.loss]
    return Stop(
        temperature,
        float(curve.confidence[node] / curve.weight),
        losses[0] / curve.pairs[0] if curve.pairs[0] else math.nan,
        losses[1] / curve.pairs[1] if curve.labeled else math.nan,
        count,
        confidence_sum,
        correct,
        fine,
    )
