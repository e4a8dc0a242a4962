"""Measures that a `Reliability` alone determines, so that they merge over batches.

Means over rows (accuracy, confidence, NLL, Brier score) and measures over equal-width bins of the
top label's confidence, closed on the right. Given a `Reliability`, they use its bins.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from tepid.summaries.reliability import Reliability, Rows

# The label of every row; or rows that were checked before; or the sums over bins.
Labels = ArrayLike | Rows | Reliability


def accuracy(
    labels: Labels,
    probabilities: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """The share of rows whose most probable class, the first on ties, is the label.

    >>> accuracy([0, 1], [[0.8, 0.2], [0.8, 0.2]])
    0.5
    """
    r = _sum_bins(labels, probabilities, sample_weight)
    return _per_weight(r, r.correct.sum())


def confidence(
    labels: Labels,
    probabilities: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """The mean probability of the most probable class."""
    r = _sum_bins(labels, probabilities, sample_weight)
    return _per_weight(r, r.confidence.sum())


def nll(
    labels: Labels,
    probabilities: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Negative log likelihood, the mean of $-\log p_{i y_i}$ in nats, paper eq. 2 over n.

    >>> nll([0, 1], [[0.5, 0.5], [0.75, 0.25]])
    1.0397
    """
    r = _sum_bins(labels, probabilities, sample_weight)
    return _per_weight(r, r.nll)


def brier(
    labels: Labels,
    probabilities: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Brier score, the mean of $\sum_k (p_{ik} - [y_i = k])^2$: in [0, 2], also for two classes.

    >>> brier([0], [[0.8, 0.2]])
    0.08
    """
    r = _sum_bins(labels, probabilities, sample_weight)
    return _per_weight(r, r.brier)


def ece(
    labels: Labels,
    probabilities: ArrayLike | None = None,
    *,
    bins: int = 15,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Expected calibration error of the top label, $\sum_b \frac{n_b}{n} |acc_b - conf_b|$.

    Guo et al. (2017) eq. 3: equal-width bins closed on the right, in [0, 1]. Biased upwards:
    calibrated rows scored .080, .036 and .011 at n = 200, 1000 and 10,000
    (`benchmarks/intervals.py`), and less where the model is surer; so compare only at equal n and
    equal bins, and read NLL beside it.

    >>> ece([0, 1], [[0.8, 0.2], [0.8, 0.2]])
    0.3
    """
    r = _sum_bins(labels, probabilities, sample_weight, bins)
    # Bin averages are never formed: n_b cancels, and with it the 0/0 of an empty bin.
    return _per_weight(r, np.abs(r.correct - r.confidence).sum())


def mce(
    labels: Labels,
    probabilities: ArrayLike | None = None,
    *,
    bins: int = 15,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Maximum calibration error of the top label, $\max_b |acc_b - conf_b|$ over bins with rows.

    Guo et al. (2017), never below `ece`. One row alone in its bin can decide it, so it says
    little where bins are thinly filled.

    >>> mce([0, 1, 1], [[0.8, 0.2], [0.8, 0.2], [0.3, 0.7]])
    0.3
    """
    r = _sum_bins(labels, probabilities, sample_weight, bins)
    filled = r.count > 0
    gap = (r.correct[filled] - r.confidence[filled]) / r.count[filled]
    return float(np.abs(gap).max()) if r.weight else math.nan


def rmsce_debiased(
    labels: Labels,
    probabilities: ArrayLike | None = None,
    *,
    bins: int = 15,
    sample_weight: ArrayLike | None = None,
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
    r = _sum_bins(labels, probabilities, sample_weight, bins)
    filled = r.count > 1
    count, right = r.count[filled], r.correct[filled]
    chance = right * (count - right) / (count - 1)
    square = (((right - r.confidence[filled]) ** 2 - chance) / count).sum()
    return math.sqrt(max(_per_weight(r, square), 0.0))  # NaN stays


def brier_calibration(
    labels: Labels,
    probabilities: ArrayLike | None = None,
    *,
    bins: int = 15,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""The part of the Brier score that is miscalibration of the top label, as far as bins show it.

    $\sum_b \frac{n_b}{n} (acc_b - conf_b)^2$, Murphy (1973): what `brier` would lose if in each bin
    the confidences, and they alone, were moved by the constant that suits them best. It adds up to
    `brier` with `brier_refinement`. In [0, 1], and biased upwards as `ece` is; `rmsce_debiased` is
    the root of this less the bias.

    >>> brier_calibration([0, 1], [[0.8, 0.2], [0.8, 0.2]])
    0.09
    """
    r = _sum_bins(labels, probabilities, sample_weight, bins)
    filled = r.count > 0
    gap = r.correct[filled] - r.confidence[filled]
    return _per_weight(r, (gap**2 / r.count[filled]).sum())


def brier_refinement(
    labels: Labels,
    probabilities: ArrayLike | None = None,
    *,
    bins: int = 15,
    sample_weight: ArrayLike | None = None,
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
    r = _sum_bins(labels, probabilities, sample_weight, bins)
    return _per_weight(r, r.brier) - brier_calibration(r)


def _sum_bins(
    labels: Labels,
    probabilities: ArrayLike | None,
    weight: ArrayLike | None,
    bins: int = 15,
) -> Reliability:
    """The sums over bins, of rows or as they are given."""
    if isinstance(labels, Reliability):
        return labels
    if isinstance(labels, Rows):
        return Reliability.of_rows(labels, bins=bins)
    return Reliability.of(probabilities, labels, bins=bins, sample_weight=weight)


def _per_weight(r: Reliability, total: float) -> float:
    return float(total) / (r.weight or math.nan)
