"""Measures that are a mean over rows: accuracy, confidence, NLL and the Brier score."""

from typing import Any

from tepid.metrics.evidence import per_weight, reliability_of


def accuracy(labels: Any, probabilities: Any = None, *, sample_weight: Any = None) -> float:
    """The share of rows whose most probable class, the first on ties, is the label.

    >>> accuracy([0, 1], [[0.8, 0.2], [0.8, 0.2]])
    0.5
    """
    r = reliability_of(labels, probabilities, sample_weight)
    return per_weight(r, r.correct.sum())


def confidence(labels: Any, probabilities: Any = None, *, sample_weight: Any = None) -> float:
    """The mean probability of the most probable class."""
    r = reliability_of(labels, probabilities, sample_weight)
    return per_weight(r, r.confidence.sum())


def nll(labels: Any, probabilities: Any = None, *, sample_weight: Any = None) -> float:
    r"""Negative log likelihood, the mean of $-\log p_{i y_i}$ in nats, paper eq. 2 over n.

    >>> nll([0, 1], [[0.5, 0.5], [0.75, 0.25]])
    1.0397
    """
    r = reliability_of(labels, probabilities, sample_weight)
    return per_weight(r, r.nll)


def brier(labels: Any, probabilities: Any = None, *, sample_weight: Any = None) -> float:
    r"""Brier score, the mean of $\sum_k (p_{ik} - [y_i = k])^2$: in [0, 2], also for two classes.

    >>> brier([0], [[0.8, 0.2]])
    0.08
    """
    r = reliability_of(labels, probabilities, sample_weight)
    return per_weight(r, r.brier)
