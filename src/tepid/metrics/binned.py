"""Measures over bins of confidence: how far the mean confidence is from the accuracy in each.

All are of the top label with equal-width bins closed on the right, but for the two that need all
rows: `ece_equal_mass`, whose bins hold equal weight, and `ece_classwise`, over all classes.
"""

import math
from typing import Any

import numpy as np

from tepid import arrays
from tepid.kernels import scores
from tepid.metrics.evidence import per_weight, reliability_of, rows_of
from tepid.metrics.ranked import by_confidence


def ece(
    labels: Any, probabilities: Any = None, *, bins: int = 15, sample_weight: Any = None
) -> float:
    r"""Expected calibration error of the top label, $\sum_b \frac{n_b}{n} |acc_b - conf_b|$.

    Guo et al. (2017) eq. 3: equal-width bins closed on the right, in [0, 1]. Biased upwards:
    calibrated rows scored .080, .036 and .011 at n = 200, 1000 and 10,000
    (`benchmarks/intervals.py`), and less where the model is surer; so compare only at equal n and
    equal bins, and read NLL beside it.

    >>> ece([0, 1], [[0.8, 0.2], [0.8, 0.2]])
    0.3
    """
    r = reliability_of(labels, probabilities, sample_weight, bins)
    # Bin averages are never formed: n_b cancels, and with it the 0/0 of an empty bin.
    return per_weight(r, np.abs(r.correct - r.confidence).sum())


def mce(
    labels: Any, probabilities: Any = None, *, bins: int = 15, sample_weight: Any = None
) -> float:
    r"""Maximum calibration error of the top label, $\max_b |acc_b - conf_b|$ over bins with rows.

    Guo et al. (2017), never below `ece`. One row alone in its bin can decide it, so it says
    little where bins are thinly filled.

    >>> mce([0, 1, 1], [[0.8, 0.2], [0.8, 0.2], [0.3, 0.7]])
    0.3
    """
    r = reliability_of(labels, probabilities, sample_weight, bins)
    filled = r.count > 0
    gap = (r.correct[filled] - r.confidence[filled]) / r.count[filled]
    return float(np.abs(gap).max()) if r.weight else float("nan")


def rmsce_debiased(
    labels: Any, probabilities: Any = None, *, bins: int = 15, sample_weight: Any = None
) -> float:
    r"""Root mean square calibration error of the top label, less what chance alone would add.

    $\sqrt{\sum_b \frac{n_b}{n} \big((acc_b - conf_b)^2 - \frac{acc_b (1 - acc_b)}{n_b - 1}\big)}$,
    Kumar et al. (2019). A bin with less than two rows adds nothing. A calibrated model makes the
    sum negative about half the time; it is then 0, and so is the result. Weights count rows: 2
    stands for two equal rows, and to double all weights is to claim twice the evidence.

    >>> rmsce_debiased([0, 0, 1, 0], [[0.6, 0.4]] * 4)
    0.0
    >>> rmsce_debiased([1] * 4, [[0.6, 0.4]] * 4)
    0.6
    """
    r = reliability_of(labels, probabilities, sample_weight, bins)
    filled = r.count > 1
    count, right = r.count[filled], r.correct[filled]
    chance = right * (count - right) / (count - 1)
    square = (((right - r.confidence[filled]) ** 2 - chance) / count).sum()
    return math.sqrt(max(per_weight(r, square), 0.0)) if r.weight else float("nan")


def brier_calibration(
    labels: Any, probabilities: Any = None, *, bins: int = 15, sample_weight: Any = None
) -> float:
    r"""The part of the Brier score that is miscalibration of the top label, as far as bins show it.

    $\sum_b \frac{n_b}{n} (acc_b - conf_b)^2$, Murphy (1973): what `brier` would lose if in each bin
    the confidences, and they alone, were moved by the constant that suits them best. It adds up to
    `brier` with `brier_refinement`. In [0, 1], and biased upwards as `ece` is; `rmsce_debiased` is
    the root of this less the bias.

    >>> brier_calibration([0, 1], [[0.8, 0.2], [0.8, 0.2]])
    0.09
    """
    r = reliability_of(labels, probabilities, sample_weight, bins)
    filled = r.count > 0
    gap = r.correct[filled] - r.confidence[filled]
    return per_weight(r, (gap**2 / r.count[filled]).sum())


def brier_refinement(
    labels: Any, probabilities: Any = None, *, bins: int = 15, sample_weight: Any = None
) -> float:
    r"""The part of the Brier score that moving the bins' confidences cannot remove, in [0, 2].

    `brier` less `brier_calibration`, which is exactly the mean over rows of

    $$\sum_b \tfrac{n_b}{n} \big(acc_b (1 - acc_b) + Var_b(conf) - 2 Cov_b(conf, right)\big)
    + \sum_{k \ne \hat y} (p_k - [y = k])^2:$$

    how unsure the bins leave the top label, what confidence still varies within them, and all
    that the other classes score. Only the first is refinement in the narrowest sense; the second
    shrinks with more bins, and miscalibration among the other classes counts here.

    >>> brier_refinement([0, 1], [[0.8, 0.2], [0.8, 0.2]])
    0.59
    """
    r = reliability_of(labels, probabilities, sample_weight, bins)
    return per_weight(r, r.brier) - brier_calibration(r)


def ece_equal_mass(
    labels: Any, probabilities: Any = None, *, bins: int = 15, sample_weight: Any = None
) -> float:
    r"""Expected calibration error of the top label over bins of equal weight; needs all rows.

    $\sum_b \frac{n_b}{n} |acc_b - conf_b|$ with the rows in order of confidence, cut into `bins`
    parts. Rows of equal confidence are never parted: they go where the middle of their weight
    lies, so bins may be unequal, and empty where many rows are alike. Biased upwards as `ece` is.

    >>> ece_equal_mass([0, 1, 1], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]], bins=3)
    0.5333
    """
    arrays.check_bins(bins)
    rows = rows_of("ece_equal_mass", labels, probabilities, sample_weight)
    ties = by_confidence(rows)
    if not ties.total:
        return float("nan")
    middle = np.cumsum(ties.weight) - ties.weight / 2
    where = (bins * middle / ties.total).astype(np.int64)
    return float(np.abs(np.bincount(where, ties.gap)).sum() / ties.total)


def ece_classwise(
    labels: Any, probabilities: Any = None, *, bins: int = 15, sample_weight: Any = None
) -> float:
    r"""The mean over classes of the binned error of each class's probability; needs all rows.

    $\frac{1}{K} \sum_k \sum_b \frac{n_{kb}}{n} |freq_{kb} - \bar p_{kb}|$, Kull et al. (2019), with
    the bins of `ece` for each class alone. With many classes nearly all rows lie in the first bin
    of nearly all classes, and the mean is small whatever the model: compare at equal K only.

    >>> ece_classwise([0, 1], [[0.8, 0.2], [0.8, 0.2]])
    0.3
    """
    arrays.check_bins(bins)
    rows = rows_of("ece_classwise", labels, probabilities, sample_weight)
    total = rows.weight.sum()
    if not total:
        return float("nan")
    gaps = np.zeros((rows.probabilities.shape[1], bins))
    scores.class_gaps(rows.probabilities, rows.labels, rows.weight, gaps)
    return float(np.abs(gaps).sum() / (total * len(gaps)))
