"""Intervals for any measure, and for the difference of two models on the same rows."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tepid import validation
from tepid.errors import InputError
from tepid.metrics import from_reliability, from_rows
from tepid.summaries.reliability import Reliability, Rows
from tepid.validation import Float64, Int64, number, whole

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
    from_rows.excess_nll: math.inf,
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
    clusters: ArrayLike | None = None,
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

    With `clusters`, one name per row, whole clusters are drawn: the pixels of an image or the
    visits of a patient are not independent.

    How often the interval holds the truth depends on the measure (docs/measures.md). Do not
    conclude from an interval of `ece` above 0 that a model is miscalibrated: for calibrated models
    it is wrong in half of the cases. Ask `brier_calibration` instead. A draw costs $O(n)$, for
    `ece_classwise` $O(n k)$.

    >>> import tepid
    >>> labels, probabilities = [0, 1, 0, 0] * 50, [[0.8, 0.2]] * 200
    >>> found = bootstrap(tepid.metrics.accuracy, labels, probabilities)
    >>> found.value, found.low, found.high
    (0.75, 0.69, 0.81)
    """
    level, draws, seed = _check(level, draws, seed)
    drawn = _draw(measure, labels, probabilities, draws, seed, clusters)
    return _interval(drawn, level, *_range(measure))


def difference(
    measure: Measure,
    labels: ArrayLike,
    before: ArrayLike,
    after: ArrayLike,
    *,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
    clusters: ArrayLike | None = None,
) -> Interval:
    r"""How much a measure changes from `before` to `after`, two models or one and its calibration.

    The value is `after` less `before`, so what lowers an error is negative. Each draw takes the
    same rows of both: what makes a row hard for both cancels, and the interval is as a rule far
    narrower than the two of `bootstrap` would suggest. It is the basic interval, and `clusters` are
    as there.

    >>> import tepid
    >>> labels = [0, 1, 0, 0] * 50
    >>> found = difference(tepid.metrics.nll, labels, [[0.9, 0.1]] * 200, [[0.75, 0.25]] * 200)
    >>> found.value, found.low, found.high
    (-0.0923, -0.158, -0.0264)
    """
    return compared(
        measure, labels, before, after, level=level, draws=draws, seed=seed, clusters=clusters
    )[2]


def compared(
    measure: Measure,
    labels: ArrayLike,
    before: ArrayLike,
    after: ArrayLike,
    *,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
    clusters: ArrayLike | None = None,
) -> tuple[Interval, Interval, Interval]:
    """What `bootstrap` says of each of two models, and `difference` of both, from one drawing."""
    level, draws, seed = _check(level, draws, seed)
    one, other = (_draw(measure, labels, p, draws, seed, clusters) for p in (before, after))
    ends = _range(measure)
    with np.errstate(invalid="ignore"):  # inf - inf is NaN
        change = other - one
    return _interval(one, level, *ends), _interval(other, level, *ends), _interval(change, level)


def _check(level: Any, draws: Any, seed: Any) -> tuple[float, int, int]:
    share = number(level, "level")
    if not 0 < share < 1:
        raise InputError(f"level must be between 0 and 1, got {level}")
    return share, whole(draws, "draws", 1), whole(seed, "seed", 0, validation.LARGEST_SEED)


def _draw(
    measure: Measure,
    labels: ArrayLike,
    probabilities: ArrayLike,
    draws: int,
    seed: int,
    clusters: ArrayLike | None,
) -> Float64:
    """The measure of all rows, and of each draw; of these none where the first is not finite."""
    weighted = of_counts(measure, labels, probabilities)
    rows = len(np.atleast_1d(validation.as_array(labels, "labels")))
    value = weighted(np.ones(rows))
    if not math.isfinite(value):
        return np.concatenate([[value], np.full(draws, math.nan)])
    where = None if clusters is None else _number_clusters(clusters, rows)
    counts = draw_counts(rows if where is None else int(where.max()) + 1, draws, seed)
    drawn = counts if where is None else (each[where] for each in counts)
    return np.array([value, *map(weighted, drawn)])


def _number_clusters(clusters: ArrayLike, rows: int) -> Int64:
    names = validation.group_column(clusters, "clusters")
    if len(names) != rows:
        raise InputError(f"clusters must be one for each of the {rows} rows, got {len(names)}")
    where: Int64 = np.unique(names, return_inverse=True)[1].reshape(-1)
    if not where.max():
        raise InputError(f"clusters must be at least two, got {names[0]} alone")
    return where


def _interval(
    drawn: Float64, level: float, least: float = -math.inf, greatest: float = math.inf
) -> Interval:
    """The basic interval, cut to the values that the measure can take."""
    value, draws = float(drawn[0]), len(drawn) - 1
    if not np.isfinite(drawn).all():
        return Interval(value, math.nan, math.nan, level, draws)
    quantiles = np.quantile(drawn[1:], [(1 + level) / 2, (1 - level) / 2])
    low, high = np.clip(2 * value - quantiles, least, greatest).tolist()
    return Interval(value, low, high, level, draws)


def _range(measure: Measure) -> tuple[float, float]:
    """The values that a measure can take."""
    greatest = _GREATEST.get(_plain(measure))
    return (-math.inf, math.inf) if greatest is None else (0.0, greatest)


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
    if _plain(measure) is from_rows.excess_nll:
        options = getattr(measure, "keywords", {})
        return from_rows.excess_of_counts(labels, probabilities, **options)
    if _plain(measure) in _GREATEST:
        rows = Rows.of(labels, probabilities)
        return lambda counts: measure(rows.weighing(counts))
    return lambda counts: measure(labels, probabilities, sample_weight=counts)


def _plain(measure: Measure) -> Measure:
    function: Measure = getattr(measure, "func", measure)
    return function
