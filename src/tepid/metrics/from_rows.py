"""Measures that need every row: by rank, by class, with a smooth kernel, or along the temperature.

Rows of equal confidence count as one group, so the order of the rows makes no difference.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tepid import kernels, validation
from tepid.errors import InputError
from tepid.methods import temperature_scaling
from tepid.metrics.from_reliability import Labels, nll
from tepid.summaries.reliability import Reliability, Rows
from tepid.validation import Float32, Float64, Int64

# The grid of smooth_ece cannot resolve widths below two cells.
_CELLS = 8192
_NARROWEST = 2 / _CELLS
# Tolerance of the width.
_CLOSE = 1e-6
# Where excess_of_counts tabulates the rows' losses around the best temperature, in log T.
_REACH, _NODES = 0.8, 17


def ece_equal_mass(
    labels: Labels,
    probabilities: ArrayLike | None = None,
    *,
    bins: int = 15,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Expected calibration error of the top label over bins of equal weight; needs all rows.

    $\sum_b \frac{n_b}{n} |acc_b - conf_b|$ with the rows in order of confidence, cut into `bins`
    parts. Rows of equal confidence are never parted: they go where the middle of their weight
    lies, so bins may be unequal, and empty where many rows are alike. Biased upwards as `ece` is.

    >>> ece_equal_mass([0, 1, 1], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]], bins=3)
    0.5333
    """
    bins = validation.check_bins(bins)
    rows = _rows_of("ece_equal_mass", labels, probabilities, sample_weight)
    ties = _by_confidence(rows)
    middle = np.cumsum(ties.weight) - ties.weight / 2
    where = (bins * middle / ties.total).astype(np.int64)
    return float(np.abs(np.bincount(where, ties.gap)).sum() / ties.total)


def ece_classwise(
    labels: Labels,
    probabilities: ArrayLike | None = None,
    *,
    bins: int = 15,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""The mean over classes of the binned error of each class's probability; needs all rows.

    $\frac{1}{K} \sum_k \sum_b \frac{n_{kb}}{n} |freq_{kb} - \bar p_{kb}|$, Kull et al. (2019), with
    the bins of `ece` for each class alone. With many classes nearly all rows lie in the first bin
    of nearly all classes, and the mean is small whatever the model: compare at equal K only.

    >>> ece_classwise([0, 1], [[0.8, 0.2], [0.8, 0.2]])
    0.3
    """
    bins = validation.check_bins(bins)
    rows = _rows_of("ece_classwise", labels, probabilities, sample_weight)
    gaps = np.zeros((rows.probabilities.shape[1], bins))
    kernels.class_gaps(rows.probabilities, rows.labels, rows.weight, gaps)
    return float(np.abs(gaps).sum() / (_total(rows.weight) * len(gaps)))


def ks_error(
    labels: Labels,
    probabilities: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Kolmogorov-Smirnov calibration error of the top label, in [0, 1]; needs all rows.

    $\max_s \frac{1}{n} \big|\sum_{i: conf_i \le s} (right_i - conf_i)\big|$, Gupta et al. (2021):
    the largest distance between cumulated confidence and cumulated accuracy. No bins to choose,
    and never below |accuracy - confidence|, which is the last of the distances. Gaps of unlike
    sign along the confidences cancel in part, so it is as a rule below `ece`.

    >>> ks_error([0, 1], [[0.9, 0.1], [0.7, 0.3]])
    0.35
    """
    ties = _by_confidence(_rows_of("ks_error", labels, probabilities, sample_weight))
    return float(np.abs(np.cumsum(ties.gap)).max(initial=0.0) / ties.total)


def aurc(
    labels: Labels,
    probabilities: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Area under the risk-coverage curve, in [0, 1]; needs all rows.

    $\int_0^1 risk(c)\,dc$, where $risk(c)$ is the share of errors among the fraction $c$ of the
    rows with the highest confidence, and a group of equal confidence enters evenly. It judges the
    order of the confidences and the accuracy, not the calibration. Geifman et al. (2019)
    take the mean of the risk after each row, which differs by order $\log(n) / n$ and is
    changed by counting every row twice; the area is not.

    >>> aurc([0, 1], [[0.9, 0.1], [0.7, 0.3]])
    0.1534
    """
    return _area(_by_confidence(_rows_of("aurc", labels, probabilities, sample_weight)))


def eaurc(
    labels: Labels,
    probabilities: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""The part of `aurc` that a better order of the same answers would remove; needs all rows.

    `aurc` less $r + (1 - r) \log(1 - r)$, the area at error rate $r$ if every error had less
    confidence than every right answer, Geifman et al. (2019). Never below 0.

    >>> eaurc([0, 1], [[0.7, 0.3], [0.9, 0.1]])
    0.6931
    """
    ties = _by_confidence(_rows_of("eaurc", labels, probabilities, sample_weight))
    risk = 1 - ties.right.sum() / ties.total
    least = risk + ((1 - risk) * math.log1p(-risk) if risk < 1 else 0.0)
    return max(_area(ties) - float(least), 0.0)  # rounding; NaN stays


def smooth_ece(
    labels: Labels,
    probabilities: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Smooth calibration error of the top label, in [0, 1]; needs all rows.

    $e(\sigma) = \int_0^1 \big|\frac{1}{n} \sum_i (right_i - conf_i) K_\sigma(conf_i, t)\big| dt$,
    Błasiok & Nakkiran (2023), where $K_\sigma$ is the Gaussian reflected at 0 and 1, at the one
    $\sigma$ with $e(\sigma) = \sigma$. It falls as $\sigma$ grows, so there is one. No bins to
    choose, continuous in the confidences, and between |accuracy - confidence| and the mean of
    $|right - conf|$. The rows are spread on a grid of 8192 cells: cost $O(n)$ and a fixed search.

    Biased upwards as `ece` is, less with few rows and more with many: calibrated rows scored .050,
    .029 and .013 at n = 200, 1000 and 10,000, and by `ece` .080, .036 and .011
    (`benchmarks/intervals.py`).

    >>> smooth_ece([0, 1], [[0.8, 0.2], [0.8, 0.2]])
    0.3
    """
    rows = _rows_of("smooth_ece", labels, probabilities, sample_weight)
    waves = _cosine_series(rows) / _total(rows.weight)
    # The error at the width, not the width itself: the width is cut off at _NARROWEST.
    return _smooth_error(waves, _smooth_width(waves))


def excess_nll(
    labels: Labels,
    logits: ArrayLike | None = None,
    *,
    temperature: float = 1.0,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""The NLL at a temperature above the least that any temperature gives, in nats; from logits.

    $NLL(T) - \min_{T'} NLL(T')$ over the same rows, which must be given all: 0 means that no other
    temperature is better, not that the model is calibrated. It is never below zero, so it is
    biased upwards, by about $1 / 2n$ for a model at its best temperature. A label whose
    logit is -inf is refused.

    >>> excess_nll([0, 0, 0, 1], [[2.0, 0.0]] * 4)
    0.0646
    """
    _refuse_sums("excess_nll", labels, "logits")
    if logits is None:
        raise InputError("logits must be given, got none")
    z = validation.as_array(logits)
    now = Reliability.of_logits(z, labels, temperature=temperature, sample_weight=sample_weight)
    if not now.weight:
        return float("nan")
    best = temperature_scaling(z, labels, sample_weight=sample_weight)
    least = Reliability.of_logits(z, labels, temperature=best.value, sample_weight=sample_weight)
    return max(nll(now) - nll(least), 0.0)  # the temperature is exact to 5e-6, not beyond


def excess_of_counts(
    labels: ArrayLike, logits: ArrayLike, temperature: float = 1.0
) -> Callable[[Float64], float]:
    """`excess_nll` as a function of how often each row counts, for many draws of the same rows.

    The loss of every row is tabulated around the best temperature, and the least of a weighted sum
    is that of the quartic through the five nodes nearest to it; a draw whose best temperature lies
    outside the table is measured in full.
    """
    z = validation.as_kernel_input(validation.as_array(logits))
    y = validation.label_column(labels, len(z), z.shape[1])
    best = temperature_scaling(z, y)
    if best.status != "ok":
        return lambda counts: excess_nll(y, z, temperature=temperature, sample_weight=counts)
    nodes = best.value * np.exp(np.linspace(-_REACH, _REACH, _NODES))
    table = np.stack([_losses(z, y, t) for t in (temperature, *nodes)])

    def excess(counts: Float64) -> float:
        now, *along = (table @ counts / counts.sum()).tolist()
        middle = int(np.argmin(along))
        if not 2 <= middle < _NODES - 2:
            return excess_nll(y, z, temperature=temperature, sample_weight=counts)
        return max(float(now) - _least(along[middle - 2 : middle + 3]), 0.0)

    return excess


def _losses(z: Float32, y: Int64, temperature: float) -> Float64:
    x = z.astype(np.float64) / temperature
    x -= x.max(axis=1, keepdims=True)
    chosen = x[np.arange(len(x)), y]
    return np.asarray(np.log(np.exp(x).sum(axis=1)) - chosen)


def _least(values: list[float]) -> float:
    """The least of the quartic through five equally spaced values, near the middle."""
    places = np.arange(-2.0, 3.0)
    quartic = np.polynomial.Polynomial(
        np.linalg.solve(np.vander(places, 5, increasing=True), values)
    )
    at = 0.0
    for _ in range(4):
        at -= float(quartic.deriv()(at) / quartic.deriv(2)(at))
    return float(quartic(at))


def _rows_of(
    measure: str, labels: Labels, probabilities: ArrayLike | None, weight: ArrayLike | None
) -> Rows:
    _refuse_sums(measure, labels, "probabilities")
    return labels if isinstance(labels, Rows) else Rows.of(labels, probabilities, weight)


def _refuse_sums(measure: str, labels: Labels, values: str) -> None:
    """Refuse a `Reliability` in the place of labels and the `values` beside them."""
    if isinstance(labels, Reliability):
        raise InputError(
            f"labels must be the label of every row, with the {values} beside them, because "
            f"{measure} is no sum over bins, got a Reliability"
        )


def _total(weight: Float64) -> float:
    """The sum of weights; NaN where it is zero, so that a mean over no rows is NaN."""
    return float(weight.sum()) or math.nan


@dataclass(frozen=True, eq=False)
class _Ties:
    """Sums over the rows of each distinct confidence, in rising order."""

    weight: Float64
    right: Float64
    gap: Float64
    total: float


def _by_confidence(rows: Rows) -> _Ties:
    """Group rows of equal confidence; rows of weight zero are left out."""
    counted = rows.weight > 0
    u, right, confidence = rows.weight[counted], rows.right[counted], rows.confidence[counted]
    values, where = np.unique(confidence, return_inverse=True)
    weight = np.bincount(where, u, len(values)).astype(np.float64)
    correct = np.bincount(where, u * right, len(values)).astype(np.float64)
    return _Ties(weight, correct, correct - weight * values, _total(weight))


def _area(ties: _Ties) -> float:
    weight, errors = ties.weight[::-1], (ties.weight - ties.right)[::-1]
    covered, erred, rate = np.cumsum(weight)[:-1], np.cumsum(errors)[:-1], (errors / weight)[1:]
    # The integral over a group of (erred + rate x) / (covered + x); the first has none before it.
    growth = np.log1p(weight[1:] / covered)
    return float((errors.sum() + ((erred - rate * covered) * growth).sum()) / ties.total)


def _smooth_width(waves: Float64) -> float:
    """The width at which the error equals the width: regula falsi (Illinois) in a bracket."""
    low, high = _NARROWEST, 1.0
    above, below = _smooth_error(waves, low) - low, _smooth_error(waves, high) - high
    last, margin = 0.0, _CLOSE / 2
    while above > 0 > below and high - low > _CLOSE:
        step = (high - low) * above / (above - below)
        middle = low + min(max(step, margin), high - low - margin)
        gap = _smooth_error(waves, middle) - middle
        # Illinois: an end that did not move counts half, which keeps convergence superlinear.
        stays = gap * last > 0
        if gap > 0:
            low, above, below = middle, gap, below / 2 if stays else below
        else:
            high, below, above = middle, gap, above / 2 if stays else above
        last = gap
    return high if above > 0 else low


def _cosine_series(rows: Rows) -> Float64:
    """The cosine series of right - confidence along confidence, on the grid."""
    gap = rows.weight * (rows.right - rows.confidence)
    place = rows.confidence * _CELLS
    cell = np.minimum(place.astype(np.int64), _CELLS - 1)
    share = place - cell
    grid = np.bincount(cell, gap * (1 - share), _CELLS + 1)
    grid += np.bincount(cell + 1, gap * share, _CELLS + 1)
    waves: Float64 = np.fft.rfft(grid, 2 * _CELLS).real
    return waves


def _smooth_error(waves: Float64, width: float) -> float:
    # With reflection at both ends each cosine is an eigenfunction: smoothing multiplies it.
    shrunk = waves * np.exp(-0.5 * (np.pi * width * np.arange(_CELLS + 1)) ** 2)
    return float(np.abs(np.fft.irfft(shrunk, 2 * _CELLS)).sum())
