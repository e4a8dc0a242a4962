"""Measures of probabilities against labels, from arrays or from a `Reliability`.

Each takes `(labels, probabilities)`, in scikit-learn's order, or one `Reliability`, which merges:
score the parts where they lie and add. All are NaN where there are no rows.
"""

from typing import Any

import numpy as np

from tepid.reliability import Reliability


def accuracy(labels: Any, probabilities: Any = None, *, sample_weight: Any = None) -> float:
    """The share of rows whose most probable class, the first on ties, is the label.

    >>> accuracy([0, 1], [[0.8, 0.2], [0.8, 0.2]])
    0.5
    """
    r = _reliability(labels, probabilities, sample_weight)
    return _per_weight(r, r.correct.sum())


def confidence(labels: Any, probabilities: Any = None, *, sample_weight: Any = None) -> float:
    """The mean probability of the most probable class."""
    r = _reliability(labels, probabilities, sample_weight)
    return _per_weight(r, r.confidence.sum())


def nll(labels: Any, probabilities: Any = None, *, sample_weight: Any = None) -> float:
    r"""Negative log likelihood, the mean of $-\log p_{i y_i}$ in nats, paper eq. 2 over n.

    >>> nll([0, 1], [[0.5, 0.5], [0.75, 0.25]])
    1.0397
    """
    r = _reliability(labels, probabilities, sample_weight)
    return _per_weight(r, r.nll)


def brier(labels: Any, probabilities: Any = None, *, sample_weight: Any = None) -> float:
    r"""Brier score, the mean of $\sum_k (p_{ik} - [y_i = k])^2$: in [0, 2], also for two classes.

    >>> brier([0], [[0.8, 0.2]])
    0.08
    """
    r = _reliability(labels, probabilities, sample_weight)
    return _per_weight(r, r.brier)


def ece(
    labels: Any, probabilities: Any = None, *, bins: int = 15, sample_weight: Any = None
) -> float:
    r"""Expected calibration error of the top label, $\sum_b \frac{n_b}{n} |acc_b - conf_b|$.

    Guo et al. (2017) eq. 3: equal-width bins closed on the right, in [0, 1]. Biased upwards: a
    perfectly calibrated model scores about .005 at 10,000 rows and .04 at 200, so compare only at
    equal n and equal bins, and read NLL beside it.

    >>> ece([0, 1], [[0.8, 0.2], [0.8, 0.2]])
    0.3
    """
    r = _reliability(labels, probabilities, sample_weight, bins)
    # Bin averages are never formed: n_b cancels, and with it the 0/0 of an empty bin.
    return _per_weight(r, np.abs(r.correct - r.confidence).sum())


def _reliability(labels: Any, probabilities: Any, weight: Any, bins: int = 15) -> Reliability:
    if isinstance(labels, Reliability):
        return labels
    return Reliability.of(probabilities, labels, bins=bins, sample_weight=weight)


def _per_weight(r: Reliability, total: float) -> float:
    return float(total) / r.weight if r.weight else float("nan")
