r"""One posterior over $u = \log T$ from all evidence, and the temperature it leads to.

$\log p(u \mid \text{evidence}) = \text{prior} + \text{labels} + \text{accuracy} + \text{models} +
\text{reference} + \text{source} + \text{constant}$. Each term is a function of u that comes from
sums over rows. The constants were chosen on 39 sets of real logits; docs/posterior.md has the
figures.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tepid.errors import InputError
from tepid.summaries.curve import Curve
from tepid.summaries.optimum import (
    Interpolant,
    confidence_along,
    loss_along,
    matching_confidence,
)
from tepid.temperature import Contribution
from tepid.validation import Float64

# The standard deviation of log T below and above that of UTS, and around T = 1 without UTS.
LEFT, RIGHT, ALONE = 0.4, 0.8, 0.8
# The mean confidence at the best T misses the accuracy by about a tenth of the error.
MISFIT, LEAST_ERROR = 0.1, 0.002
# The standard deviation of a reading: of a reference or a source, and of comparable models.
TRUST, PEER = 0.15, 0.2
# The probability that a reading carries no information: of a reference or a source, of models, and
# of models that are all less confident by GAP.
DECLARED, LIKE, WEAK = 0.02, 0.1, 0.5
GAP = 0.05
# Logits alone: from this mean confidence on, the odds of an error are multiplied by DOUBT.
GATE, DOUBT = 0.95, 3.0
# But not where this share of the rows is predicted as one class: a rare class explains the
# confidence. No set that the rule was measured on and that it changes is like that.
DOMINANT = 0.9
# A reading without information is uniform over a factor of e^6 in T.
_OUTLIER = 1 / 6
# The grid covers the place of every term and this much of log T on both sides.
REACH = 3.0
# A kind is in tension if it lies further than this from all others, in joint standard deviations.
_TENSION = 2.6
# The posterior is at a bound if more than this share of it lies in the outer hundredth of the grid.
_AT_BOUND, _OUTER = 1e-3, 0.01
# The rounding of the expected distance, whose rows are float32, as a share of that at T = infinity.
_FLAT = 1e-6
# The distance of the grid's points. A peak whose standard deviation is below _RESOLVED of them gets
# _PEAK points over _PEAK_REACH standard deviations to both sides.
_STEP, _RESOLVED, _PEAK, _PEAK_REACH = 0.01, 20.0, 401, 8.0

Term = Callable[[Float64], Float64]


@dataclass(frozen=True)
class RowMeans:
    r"""Means over rows as functions of u: log-sum-exp L, expected distance M and confidence C.

    $L = \mathrm{mean} \log \sum_k e^{d_k/T}$, $M = dL / d(1/T)$ and $C = \mathrm{mean} \max_k p_k$,
    with d the distance to the row's largest logit. M and C fall as u grows.
    """

    curve: Curve
    loss: Interpolant
    confidence: Interpolant

    @classmethod
    def of(cls, curve: Curve) -> "RowMeans":
        """The means of a curve in which each row's label is its predicted class."""
        return cls(curve, loss_along(curve), confidence_along(curve))

    def log_sum_exp(self, u: Float64 | float) -> Float64:
        """L."""
        return self.loss(-u) / self.curve.weight

    def distance(self, u: Float64 | float) -> Float64:
        """M."""
        return self.loss(-u, 1) * np.exp(u) / self.curve.weight

    def top(self, u: Float64 | float) -> Float64:
        """C."""
        return self.confidence(-u) / self.curve.weight

    def solve_distance(self, target: float, grid: Float64) -> float:
        """Where M has this value, within the grid."""
        u = float(np.interp(-target, -self.distance(grid), grid))
        for _ in range(3):
            gap = float(self.distance(u)) - target
            first, second = (float(self.loss(-u, order)) for order in (1, 2))
            slope = math.exp(u) * (first - second) / self.curve.weight
            # Interpolation has placed u within a step of the grid.
            if not slope < 0 or not abs(gap / slope) < _STEP:
                break
            u = min(max(u - gap / slope, grid[0]), grid[-1])
        return u

    def information(self, u: float) -> float:
        """The expected Fisher information of one label on log T at u: the mean variance of d/T."""
        bend = float(self.loss(-u, 2) - self.loss(-u, 1))
        return max(bend / self.curve.weight, 0.0)


# Terms --------------------------------------------------------------------------------------------


def prior_term(uts: float | None, around: float = 0.0) -> Term:
    """The two-piece normal around log T of UTS; wide `around` a place where UTS found none."""
    if uts is None:
        return lambda u: -0.5 * ((u - around) / ALONE) ** 2
    return lambda u: -0.5 * ((u - uts) / np.where(u < uts, LEFT, RIGHT)) ** 2


def label_term(curve: Curve, design_effect: float = 1.0) -> Term:
    """The log likelihood of the labeled rows.

    Where they depend on each other, it is divided by the design effect, so that its curvature is
    that of the robust standard error.
    """
    loss = loss_along(curve)
    return lambda u: -loss(-u) / design_effect


def accuracy_term(rows: RowMeans, accuracy: float, standard_error: float) -> Term:
    """The mean confidence near the accuracy, within its error and the misfit of a temperature."""
    variance = standard_error**2 + (MISFIT * max(1 - accuracy, LEAST_ERROR)) ** 2
    return lambda u: -0.5 * (rows.top(u) - accuracy) ** 2 / variance


def reading_term(readings: Sequence[tuple[float, float]], outlier: float) -> Term:
    """A mixture of readings of log T, as (place, standard deviation), and of no information."""

    def term(u: Float64) -> Float64:
        each = [
            math.log((1 - outlier) / len(readings) / (sd * math.sqrt(2 * math.pi)))
            - 0.5 * ((u - place) / sd) ** 2
            for place, sd in readings
        ]
        nothing = np.full(np.shape(u), math.log(outlier * _OUTLIER))
        return np.asarray(np.logaddexp.reduce([*each, nothing], axis=0))

    return term


# Densities on a grid ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Density:
    """A density of u that is linear between the points of a grid."""

    grid: Float64
    height: Float64

    @classmethod
    def of(cls, terms: Iterable[Term], grid: Float64) -> "Density":
        """The normalized product of terms."""
        log = sum((term(grid) for term in terms), np.zeros(len(grid)))
        raw = cls(grid, np.exp(log - log.max()))
        return cls(grid, raw.height / raw.mass.sum())

    @property
    def mass(self) -> Float64:
        """The weight of each point in a mean, by the trapezoidal rule."""
        step = np.diff(self.grid)
        return np.asarray(self.height * (np.append(step, 0.0) + np.insert(step, 0, 0.0)) / 2)

    @property
    def below(self) -> Float64:
        """The probability below each point."""
        cells = np.diff(self.grid) * (self.height[1:] + self.height[:-1]) / 2
        return np.asarray(np.insert(np.cumsum(cells), 0, 0.0))

    @property
    def mean(self) -> float:
        """The mean of u."""
        return float(self.mass @ self.grid)

    @property
    def variance(self) -> float:
        """The variance of u."""
        return float(self.mass @ (self.grid - self.mean) ** 2)

    def quantile(self, share: float) -> float:
        """The point below which this share lies."""
        below = self.below
        q = min(max(int(np.searchsorted(below, share)) - 1, 0), len(below) - 2)
        low, bend = self.height[q], self._bend(q)
        rest = max(share - float(below[q]), 0.0)
        root = math.sqrt(max(low**2 + 2 * rest * bend, 0.0))
        return float(self.grid[q] + (2 * rest / (low + root) if low + root else 0.0))

    def share_below(self, u: float) -> float:
        """The probability below a point."""
        q = min(max(int(np.searchsorted(self.grid, u)) - 1, 0), len(self.grid) - 2)
        step = u - float(self.grid[q])
        share = self.below[q] + step * (self.height[q] + step * self._bend(q) / 2)
        return float(min(max(share, 0.0), 1.0))

    def _bend(self, q: int) -> float:
        """The slope of the density between two points."""
        step = self.grid[q + 1] - self.grid[q]
        return float((self.height[q + 1] - self.height[q]) / step)

    @property
    def interval(self) -> tuple[float, float]:
        """The central 95 % as temperatures."""
        return math.exp(self.quantile(0.025)), math.exp(self.quantile(0.975))

    @property
    def at_bound(self) -> bool:
        """Whether the grid cuts the density off."""
        low, high = self.grid[0], self.grid[-1]
        outer = _OUTER * (high - low)
        ends = (self.grid < low + outer) | (self.grid > high - outer)
        return bool(self.mass[ends].sum() > _AT_BOUND)


def make_grid(low: float, high: float, products: Iterable[Sequence[Term]]) -> Float64:
    """Points from low to high, with more of them where a product of terms has a narrow peak.

    The points around a peak move with it continuously, so that rounding in the sums moves the
    result no further than itself.
    """
    base = np.linspace(low, high, max(2, math.ceil((high - low) / _STEP)) + 1)
    points = [base]
    for terms in products:
        here = base
        for _ in range(12):
            density = Density.of(terms, here)
            step = float(here[1] - here[0])
            center, sd = density.mean, math.sqrt(density.variance)
            if sd > _RESOLVED * step:
                break
            reach = _PEAK_REACH * max(sd, step)
            here = np.linspace(max(center - reach, low), min(center + reach, high), _PEAK)
        if here is not base:
            points.append(here)
    return np.unique(np.concatenate(points))


# The posterior ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Posterior:
    """The density of log T given all evidence, and the temperature it leads to.

    `helps` is the probability that it has a lower expected log loss than T = 1. `identified` is
    False where the temperature is the one for logits alone.
    """

    log_t: float
    density: Density
    helps: float | None
    evidence: dict[str, Contribution]
    tension: tuple[str, ...]
    identified: bool
    kept: bool


def combine(
    rows: RowMeans,
    prior: Term,
    terms: Mapping[str, Term],
    span: tuple[float, float],
    *,
    alone: float,
    weak_models: bool = False,
) -> Posterior:
    """The posterior from a prior and terms by kind of evidence, on a range of u.

    `alone` is log T for logits alone. `weak_models` says that all models given are less
    confident by GAP.
    """
    others = {name: _without(name, prior, terms) for name in terms}
    products = [(prior, *terms.values()), *((term,) for term in terms.values())]
    products += [*((prior, term) for term in terms.values()), *others.values()]
    grid = make_grid(*span, products)
    density = Density.of((prior, *terms.values()), grid)
    unknown = not terms or (weak_models and set(terms) == {"models"})
    log_t = alone if unknown else _act(rows, density, set(terms))
    if not math.isfinite(log_t):
        raise InputError("logits must lie closer together, got distances near the end of float32")
    return Posterior(
        log_t,
        density,
        helps=None if unknown and log_t == 0 else probability_of_help(rows, density, log_t),
        evidence=_contributions(rows, prior, terms, grid, alone),
        tension=tuple(
            name for name, term in terms.items()
            if len(terms) > 1 and _apart(Density.of((term,), grid), Density.of(others[name], grid))
        ),
        identified=not unknown,
        kept=unknown and log_t == 0,
    )  # fmt: skip


def _without(name: str, prior: Term, terms: Mapping[str, Term]) -> tuple[Term, ...]:
    return (prior, *(term for other, term in terms.items() if other != name))


def _apart(one: Density, other: Density) -> bool:
    return abs(one.mean - other.mean) > _TENSION * math.sqrt(one.variance + other.variance)


def _act(rows: RowMeans, density: Density, kinds: set[str]) -> float:
    """The Bayes act for log loss; the median where only other models or an older set are known.

    If u0 is the truth, the expected log loss at u is L(u) - M(u0) / T. Its posterior mean is least
    where M(u) is the posterior mean of M. The median does not follow the skew of the prior. Where M
    is flat, because no T of the grid changes the probabilities, every T is as good.
    """
    distance = rows.distance(density.grid)
    flat = np.ptp(distance) <= _FLAT * abs(rows.curve.flat[0]) / rows.curve.weight
    if flat or not kinds & {"labels", "accuracy"}:
        return density.quantile(0.5)
    return rows.solve_distance(float(density.mass @ distance), density.grid)


def logits_alone(rows: RowMeans) -> float:
    """T = 1, or above GATE the T that multiplies the odds of an error by DOUBT."""
    confidence = float(rows.top(0.0))
    if not GATE <= confidence < 1:
        return 0.0
    odds = confidence / (1 - confidence) / DOUBT
    return matching_confidence(rows.curve, odds / (1 + odds)).log_t or 0.0


def probability_of_help(rows: RowMeans, density: Density, log_t: float) -> float:
    """The probability that T has a lower expected log loss than T = 1."""
    if log_t == 0:
        return 0.0
    change = float(rows.log_sum_exp(log_t) - rows.log_sum_exp(0.0))
    limit = change / math.expm1(-log_t)
    below = density.share_below(rows.solve_distance(limit, density.grid))
    return 1 - below if log_t > 0 else below


def _contributions(
    rows: RowMeans, prior: Term, terms: Mapping[str, Term], grid: Float64, alone: float
) -> dict[str, Contribution]:
    """What each kind gives beside the logits, and what the logits alone give."""
    precision = {"logits": 1 / Density.of((prior,), grid).variance}
    precision |= {name: 1 / Density.of((term,), grid).variance for name, term in terms.items()}
    total = sum(precision.values())
    found = {}
    for name, own in precision.items():
        density = Density.of((prior, *([terms[name]] if name in terms else [])), grid)
        log_t = _act(rows, density, {name}) if name in terms else alone
        found[name] = Contribution(math.exp(log_t), density.interval, own / total)
    return found
