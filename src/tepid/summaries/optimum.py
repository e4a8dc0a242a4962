r"""Reading a temperature off a curve: where the loss is least, or where confidence has a value.

Between two nodes a curve is the quintic in $u = \log \beta$ that shares its value, slope and
curvature at both. That places T within `INTERPOLATION`; one exact pass at the place found, and a
step from there, brings it within `EXACT`.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tepid.summaries.curve import Curve
from tepid.validation import Float64

# The relative error of T read between nodes, by the number of nodes per octave; the largest seen
# over 30 real sets and three methods was 2.9e-3, 8.9e-5 and 4.6e-6, and over 4,000 synthetic ones
# 2.7e-4 with two nodes. Where the rounding of the sums allows more, that is stated instead.
# After the exact pass what is left is the rounding of float32, which averages out over rows: 2e-8
# on the same sets, up to 2e-6 where all rows are alike.
EXACT = 5e-6
# The rounding of a row's mean of d, at most; rows that are alike round alike.
_ROUNDING = 1e-6
INTERPOLATION = {1: 6e-3, 2: 4e-4, 4: 1e-5}

Where = Literal["inside", "below", "above", "beyond-zero", "beyond-infinity", "nowhere", "no-pairs"]


@dataclass(frozen=True)
class Reading:
    """A temperature on a curve, or on which side of the window it lies.

    `below` and `above` say where T is in relation to the window's temperatures; `beyond-zero` and
    `beyond-infinity` that no T is low or high enough; `nowhere` that T makes no difference, and
    `no-pairs` that nothing asks for one.
    """

    where: Where
    temperature: float

    @property
    def log_t(self) -> float | None:
        """Log T, if there is a temperature in the window."""
        return math.log(self.temperature) if self.where == "inside" else None


@dataclass(frozen=True)
class Interpolant:
    """A function between nodes: on each interval the quintic of Hermite."""

    nodes: Float64  # rising
    coefficients: Float64  # per power and interval, in t from 0 to 1 within the interval

    @classmethod
    def of(cls, nodes: Float64, values: Float64, slopes: Float64, bends: Float64) -> "Interpolant":
        """The interpolant of values with their first and second derivatives at the nodes."""
        h = np.diff(nodes)
        c0, c1, c2 = values[:-1], h * slopes[:-1], h * h * bends[:-1] / 2
        # What the upper end still lacks in value, slope and curvature.
        rest = values[1:] - (c0 + c1 + c2)
        slope = h * slopes[1:] - (c1 + 2 * c2)
        bend = h * h * bends[1:] - 2 * c2
        c3 = 10 * rest - 4 * slope + bend / 2
        c4 = -15 * rest + 7 * slope - bend
        c5 = 6 * rest - 3 * slope + bend / 2
        return cls(nodes, np.array([c0, c1, c2, c3, c4, c5]))

    def __call__(self, x: Float64 | float, order: int = 0) -> Float64:
        """The function, or one of its derivatives, at points between the first and last node."""
        q = np.clip(np.searchsorted(self.nodes, x, side="right") - 1, 0, len(self.nodes) - 2)
        h = self.nodes[q + 1] - self.nodes[q]
        t = (x - self.nodes[q]) / h
        total = np.zeros(np.shape(x))
        for power in range(5, order - 1, -1):
            total = total * t + math.perm(power, order) * self.coefficients[power, q]
        return np.asarray(total / h**order)

    def rises_through_zero(self, q: int, order: int = 0) -> float:
        """Where the function, or a derivative, crosses zero after node q: bracketed Newton."""
        powers = range(5, order - 1, -1)
        falling = [math.perm(power, order) * float(self.coefficients[power, q]) for power in powers]
        low, high, t = 0.0, 1.0, 0.5
        for _ in range(60):
            height, slope = 0.0, 0.0
            for c in falling:  # Horner's rule for the polynomial and its derivative
                height, slope = height * t + c, slope * t + height
            low, high = (t, high) if height < 0 else (low, t)
            guess = t - height / slope if slope > 0 else t
            following = guess if low < guess < high else (low + high) / 2
            if abs(following - t) < 1e-13:
                break
            t = following
        return float(self.nodes[q] + t * (self.nodes[q + 1] - self.nodes[q]))


def least_loss(curve: Curve, weighting: int = 0) -> Reading:
    r"""Where $L'(\beta) = 0$.

    The loss is convex, so its slope at $\beta = 0$ and its limit decide alone whether a minimum
    exists: if every pair is its row's maximum the loss falls for ever as T shrinks, and if the
    pairs are no better than chance, $L'(0) \ge 0$, as T grows.
    """
    flat, pull = curve.flat[weighting], curve.pull[weighting]
    if curve.pairs[weighting] == 0:
        return Reading("no-pairs", 1.0)
    if flat == 0:
        return Reading("nowhere", 1.0)
    # The row means are float32: below this a slope at zero cannot be told from none.
    if flat - pull >= -1e-6 * abs(pull):
        return Reading("beyond-infinity", _edge(curve, 0))
    if pull == 0:
        return Reading("beyond-zero", _edge(curve, -1))
    return _crossing(curve, curve.slope[weighting], loss_along(curve, weighting), order=1)


def matching_confidence(curve: Curve, accuracy: float) -> Reading:
    """Where the mean confidence equals `accuracy`; it falls strictly as T grows."""
    if curve.spread == 0:
        return Reading("nowhere", 1.0)
    if accuracy * curve.weight >= curve.sharpest * (1 - 1e-12):
        return Reading("beyond-zero", _edge(curve, -1))
    if accuracy * curve.weight <= curve.softest * (1 + 1e-6):  # as far as float32 can tell
        return Reading("beyond-infinity", _edge(curve, 0))
    wanted = accuracy * curve.weight
    return _crossing(curve, curve.confidence - wanted, confidence_along(curve, less=wanted))


def confidence_at(curve: Curve, temperature: float) -> float:
    """The mean confidence at a temperature inside the window, interpolated."""
    return _value_at(confidence_along(curve), temperature) / curve.weight


def loss_at(curve: Curve, temperature: float, weighting: int = 0) -> float:
    """The loss of a weighting at a temperature inside the window, interpolated."""
    return _value_at(loss_along(curve, weighting), temperature)


def _value_at(along: Interpolant, temperature: float) -> float:
    log_beta = min(max(-math.log(temperature), along.nodes[0]), along.nodes[-1])
    return float(along(log_beta))


def loss_along(curve: Curve, weighting: int = 0) -> Interpolant:
    """The loss of a weighting as a function of log beta."""
    return Interpolant.of(
        np.log(curve.lattice.nodes), curve.loss[weighting], *_loss_derivatives(curve, weighting)
    )


def _loss_derivatives(curve: Curve, weighting: int) -> tuple[Float64, Float64]:
    """The slope and the curvature of the loss by log beta, at the nodes."""
    nodes = curve.lattice.nodes
    slopes = nodes * curve.slope[weighting]
    return slopes, nodes**2 * curve.curvature[weighting] + slopes


def confidence_along(curve: Curve, less: float = 0.0) -> Interpolant:
    """The sum of confidences, less a constant, as a function of log beta."""
    nodes = curve.lattice.nodes
    slopes = nodes * curve.confidence_slope
    bends = nodes**2 * curve.confidence_curvature + slopes
    return Interpolant.of(np.log(nodes), curve.confidence - less, slopes, bends)


def with_pull(curve: Curve, pull: float) -> Curve:
    """A curve of one weighting whose pairs are replaced by others with this sum of d."""
    nodes, change = curve.lattice.nodes, pull - float(curve.pull[0])
    return dataclasses.replace(
        curve,
        pull=curve.pull + change,
        loss=curve.loss - nodes * change,
        slope=curve.slope - change,
    )


@dataclass(frozen=True)
class LeastLoss:
    """What a search looks for: the temperature of least loss of a weighting."""

    weighting: int = 0

    def read(self, curve: Curve) -> Reading:
        """The temperature read off a curve."""
        return least_loss(curve, self.weighting)

    def step(self, point: Curve, curve: Curve) -> float:
        r"""The step in $\log T$ from the exact sums at one node to the temperature.

        Slope and curvature are exact; how the curvature changes is read off `curve`, whose
        weighting is the only one of `point`.
        """
        beta = point.lattice.nodes[0]
        slope = beta * point.slope[0, 0]
        bend = beta**2 * point.curvature[0, 0] + slope
        return _step(slope, bend, self._bend_change(curve, beta))

    def _bend_change(self, curve: Curve, beta: float) -> float:
        """The third derivative of the loss by log beta, between two nodes.

        It is that of the cubic through the slopes. The rounding of the losses themselves, divided
        by the third power of the distance of two nodes, would hide it where the loss is nearly
        flat.
        """
        nodes, q = curve.lattice.nodes, _interval(curve, beta)
        h = math.log(nodes[q + 1] / nodes[q])
        x = math.log(beta / nodes[q]) / h
        (slope, next_slope), (bend, next_bend) = (
            values[q : q + 2] for values in _loss_derivatives(curve, self.weighting)
        )
        between = (12 * x - 6) * (slope - next_slope) / h
        return float(between + (6 * x - 4) * bend + (6 * x - 2) * next_bend) / h

    def precision(self, point: Curve) -> float:
        """A bound on the relative error of T: float32's rounding of the slope, over its steepness.

        Where the labels are close to chance the loss is nearly flat, and no temperature is sharp.
        """
        steepness = point.lattice.nodes[0] * point.curvature[0, 0]
        return _precision(abs(float(point.pull[0])), float(steepness))

    def interpolation(self, curve: Curve, temperature: float) -> float:
        """A bound on the relative error of a T that was read off a curve.

        The slope between two nodes depends on the difference of their losses, which are rounded.
        """
        nodes, q = curve.lattice.nodes, _interval(curve, 1.0 / temperature)
        both = self.weighting, slice(q, q + 2)
        losses = curve.loss[both] / math.log(nodes[q + 1] / nodes[q])
        bends = nodes[q : q + 2] ** 2 * curve.curvature[both]
        least = INTERPOLATION[curve.lattice.per_octave]
        return _precision(2 * float(losses.max()), float(bends.min()), least)


@dataclass(frozen=True)
class MatchingConfidence:
    """What a search looks for: the temperature whose mean confidence is `accuracy`.

    The methods are as those of `LeastLoss`.
    """

    accuracy: float

    def read(self, curve: Curve) -> Reading:
        """The temperature read off a curve."""
        return matching_confidence(curve, self.accuracy)

    def step(self, point: Curve, curve: Curve) -> float:  # noqa: ARG002  # the point is enough
        r"""The step in $\log T$ from the exact sums at one node to the temperature."""
        beta = point.lattice.nodes[0]
        gap = point.confidence[0] - self.accuracy * point.weight
        slope = beta * point.confidence_slope[0]
        bend = beta**2 * point.confidence_curvature[0] + slope
        return _step(gap, slope, bend)

    def precision(self, point: Curve) -> float:
        """A bound on the relative error of T; the distance of the confidence from 1 is rounded."""
        steepness = point.lattice.nodes[0] * point.confidence_slope[0]
        return _precision(point.weight - float(point.confidence[0]), float(steepness))

    def interpolation(self, curve: Curve, temperature: float) -> float:
        """A bound on the relative error of a T that was read off a curve."""
        nodes, q = curve.lattice.nodes, _interval(curve, 1.0 / temperature)
        doubts = curve.weight - curve.confidence[q : q + 2]
        slopes = nodes[q : q + 2] * curve.confidence_slope[q : q + 2]
        least = INTERPOLATION[curve.lattice.per_octave]
        return _precision(float(doubts.max()), float(slopes.min()), least)


def _precision(size: float, steepness: float, least: float = EXACT) -> float:
    return min(max(least, _ROUNDING * size / steepness), 1.0) if steepness > 0 else 1.0


def _step(f: float, df: float, ddf: float) -> float:
    """How far log T moves to the near root of f + df s + ddf s²/2, s being a step in log beta."""
    inner = df * df - 2 * f * ddf
    if df <= 0 or inner <= 0:
        return math.copysign(1.0, f)
    return float(2 * f / (df + math.sqrt(inner)))


def _interval(curve: Curve, beta: float) -> int:
    """The last node at or below beta that has a next."""
    nodes = curve.lattice.nodes
    return min(max(int(np.count_nonzero(nodes <= beta)) - 1, 0), len(nodes) - 2)


def _crossing(curve: Curve, rising: Float64, along: Interpolant, order: int = 0) -> Reading:
    """Where a derivative of a function crosses zero; `rising` are its values at the nodes."""
    if rising[0] > 0:
        return Reading("above", _edge(curve, 0))
    if rising[-1] < 0:
        return Reading("below", _edge(curve, -1))
    q = min(max(int(np.count_nonzero(rising < 0)) - 1, 0), len(rising) - 2)
    return Reading("inside", math.exp(-along.rises_through_zero(q, order)))


def _edge(curve: Curve, node: int) -> float:
    return float(1.0 / curve.lattice.nodes[node])
