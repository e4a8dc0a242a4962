"""Intervals for any measure, and for the difference of two models on the same rows."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tepid import validation
from tepid.errors import InputError
from tepid.metrics import from_reliability, from_rows
from tepid.metrics.excess import excess_nll, excess_of_counts
from tepid.summaries.reliability import Reliability, Rows
from tepid.validation import Float64, number, whole

Measure = Callable[..., float]

# The measures of this package, none of which is ever negative, with the greatest value of each.
_GREATEST: dict[Measure, float] = {
    from_reliability.accuracy: 1.0,
    from_reliability.confidence: 1.0,
    from_reliability.nll: math.inf,
    from_reliability.brier: 2.0,
    from_reliability.ece: 1.0,
    from_reliability.mce: 1.0,
    from_reliability.rmsce_debiased: 1.0,
    from_reliability.brier_calibration: 1.0,
    from_reliability.brier_refinement: 2.0,
    from_rows.ece_equal_mass: 1.0,
    from_rows.ece_classwise: 1.0,
    from_rows.ks_error: 1.0,
    from_rows.aurc: 1.0,
    from_rows.eaurc: 1.0,
    from_rows.smooth_ece: 1.0,
    excess_nll: math.inf,
}


@dataclass(frozen=True)
class Interval:
    """A measure with the interval that holds its true value with probability `level`, nearly.

    How nearly depends on the measure: see `bootstrap`. `value` is the plain measure of all rows.
    """

    value: float
    low: float
    high: float
    level: float
    draws: int


def bootstrap(
    measure: Measure,
    labels: ArrayLike,
    probabilities: ArrayLike,
    *,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> Interval:
    r"""A measure with its interval, from drawing the rows again with replacement.

    `measure` is any of this module, a `functools.partial` of one to set its bins, or a function of
    your own that is called as `measure(labels, probabilities, sample_weight=counts)`. `excess_nll`
    takes its logits in the place of the probabilities.

    The interval is the basic one, $[2 m - q_{high}, 2 m - q_{low}]$ with $q$ the quantiles of the
    draws, cut to the values that the measure can take. Where a measure is biased upwards, the draws
    are so once more; the basic interval subtracts that, and the value may lie above it. Quantiles
    as they are would add it: those of `ece` never held the 0 of a calibrated model. BCa would need
    the measure without each row in turn. NaN where a draw is not finite.

    Of 95 % intervals for 200 to 5000 rows, calibrated to half again too sharp, so many held the
    truth (`benchmarks/results/intervals.md`):

    - `nll` .93 to .95, `brier` .94 to .96;
    - `ece` .85 to .94, but of a calibrated model .45 to .49: do not conclude from an interval above
      0 that a model is miscalibrated;
    - `brier_calibration` .92 to 1.00, and 1.00 of a calibrated model: ask this one instead;
    - `rmsce_debiased` .52 to .92 and .95 to .97, for it is cut at 0: the roots of the interval of
      `brier_calibration` are a better one for the same;
    - `excess_nll` 1.00 of a calibrated model (200 and 1000 rows).

    The other measures were not tried. A draw costs $O(n)$; for `ece_classwise` $O(n k)$, and
    `excess_nll` fits a temperature to each.

    >>> import tepid
    >>> labels, probabilities = [0, 1, 0, 0] * 50, [[0.8, 0.2]] * 200
    >>> found = bootstrap(tepid.metrics.accuracy, labels, probabilities)
    >>> found.value, found.low, found.high
    (0.75, 0.69, 0.81)
    """
    _check(level, draws, seed)
    drawn = _drawn(of_counts(measure, labels, probabilities), _count(labels), draws, seed)
    return _possible(measure, _interval(drawn, level))


def difference(
    measure: Measure,
    labels: ArrayLike,
    before: ArrayLike,
    after: ArrayLike,
    *,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> Interval:
    r"""How much a measure changes from `before` to `after`, two models or one and its calibration.

    The value is `after` less `before`, so what lowers an error is negative. Each draw takes the
    same rows of both: what makes a row hard for both cancels, and the interval is as a rule far
    narrower than the two of `bootstrap` would suggest. It is the basic interval, as there.

    >>> import tepid
    >>> labels = [0, 1, 0, 0] * 50
    >>> found = difference(tepid.metrics.nll, labels, [[0.9, 0.1]] * 200, [[0.75, 0.25]] * 200)
    >>> found.value, found.low, found.high
    (-0.0923, -0.158, -0.0264)
    """
    return compared(measure, labels, before, after, level=level, draws=draws, seed=seed)[2]


def compared(
    measure: Measure,
    labels: ArrayLike,
    before: ArrayLike,
    after: ArrayLike,
    *,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> tuple[Interval, Interval, Interval]:
    """What `bootstrap` says of each of two models, and `difference` of both, from one drawing."""
    _check(level, draws, seed)
    rows = _count(labels)
    one, other = (_drawn(of_counts(measure, labels, p), rows, draws, seed) for p in (before, after))
    each = [_possible(measure, _interval(drawn, level)) for drawn in (one, other)]
    with np.errstate(invalid="ignore"):  # inf - inf is NaN
        change = other - one
    return each[0], each[1], _interval(change, level)


def _drawn(measure: Callable[[Float64], float], rows: int, draws: int, seed: int) -> Float64:
    """The measure of all rows, and of each draw; of these none where the first is not finite."""
    value = measure(np.ones(rows))
    if not math.isfinite(value):
        return np.concatenate([[value], np.full(draws, math.nan)])
    return np.array([value, *(measure(counts) for counts in draw_counts(rows, draws, seed))])


def _interval(drawn: Float64, level: float) -> Interval:
    value, draws = float(drawn[0]), len(drawn) - 1
    if not np.isfinite(drawn).all():
        return Interval(value, math.nan, math.nan, level, draws)
    low, high = np.quantile(drawn[1:], [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(2 * value - high), float(2 * value - low), level, draws)


def _possible(measure: Measure, found: Interval) -> Interval:
    """The interval cut to the values that a measure can take."""
    greatest = _GREATEST.get(_plain(measure))
    least = -math.inf if greatest is None else 0.0
    low, high = np.clip((found.low, found.high), least, greatest).tolist()
    return dataclasses.replace(found, low=low, high=high)


def draw_counts(rows: int, draws: int, seed: int) -> Iterator[Float64]:
    """How often each row is drawn; the same for the same seed."""
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        yield np.bincount(rng.integers(0, rows, rows), minlength=rows).astype(np.float64)


def of_counts(
    measure: Measure, labels: ArrayLike, probabilities: ArrayLike
) -> Callable[[Float64], float]:
    """The measure as a function of how often each row counts; its rows are checked once."""
    if isinstance(labels, Reliability):
        raise InputError(
            "labels must be the label of every row, since rows are drawn, got a Reliability"
        )
    if "sample_weight" in getattr(measure, "keywords", {}):
        raise InputError("measure must leave sample_weight to the draws, got one that sets it")
    if _plain(measure) is excess_nll:
        options = getattr(measure, "keywords", {})
        return excess_of_counts(labels, probabilities, **options)
    if _plain(measure) in _GREATEST:
        rows = Rows.of(labels, probabilities)
        return lambda counts: measure(rows.weighing(counts))
    return lambda counts: measure(labels, probabilities, sample_weight=counts)


def _plain(measure: Measure) -> Measure:
    function: Measure = getattr(measure, "func", measure)
    return function


def _count(labels: ArrayLike) -> int:
    return len(np.atleast_1d(validation.as_array(labels, "labels")))


def _check(level: float, draws: int, seed: int) -> None:
    if not 0 < number(level, "level") < 1:
        raise InputError(f"level must be between 0 and 1, got {level}")
    if whole(draws, "draws") < 1:
        raise InputError(f"draws must be at least one, got {draws}")
    if whole(seed, "seed") < 0:
        raise InputError(f"seed must not be below zero, got {seed}")
