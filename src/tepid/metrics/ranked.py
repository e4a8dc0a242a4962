"""Measures over the rows in order of confidence; none is a sum over bins, so all need all rows.

Rows of equal confidence count as one group, so the order of the rows makes no difference.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid.arrays import Float64
from tepid.metrics.evidence import rows_of
from tepid.rows import Rows


def ks_error(labels: Any, probabilities: Any = None, *, sample_weight: Any = None) -> float:
    r"""Kolmogorov-Smirnov calibration error of the top label, in [0, 1]; needs all rows.

    $\max_s \frac{1}{n} \big|\sum_{i: conf_i \le s} (right_i - conf_i)\big|$, Gupta et al. (2021):
    the largest distance between cumulated confidence and cumulated accuracy. No bins to choose,
    and never below |accuracy - confidence|, which is the last of the distances. Gaps of unlike
    sign along the confidences cancel in part, so it is as a rule below `ece`.

    >>> ks_error([0, 1], [[0.9, 0.1], [0.7, 0.3]])
    0.35
    """
    ties = by_confidence(rows_of("ks_error", labels, probabilities, sample_weight))
    if not ties.total:
        return float("nan")
    return float(np.abs(np.cumsum(ties.gap)).max() / ties.total)


def aurc(labels: Any, probabilities: Any = None, *, sample_weight: Any = None) -> float:
    r"""Area under the risk-coverage curve, in [0, 1]; needs all rows.

    $\int_0^1 risk(c)\,dc$, where $risk(c)$ is the share of errors among the fraction $c$ of the
    rows with the highest confidence, and a group of equal confidence enters evenly. It judges the
    order of the confidences and the accuracy, not the calibration. Geifman et al. (2019)
    take the mean of the risk after each row, which differs by order $\log(n) / n$ and is
    changed by counting every row twice; the area is not.

    >>> aurc([0, 1], [[0.9, 0.1], [0.7, 0.3]])
    0.1534
    """
    ties = by_confidence(rows_of("aurc", labels, probabilities, sample_weight))
    return _area(ties) if ties.total else float("nan")


def eaurc(labels: Any, probabilities: Any = None, *, sample_weight: Any = None) -> float:
    r"""The part of `aurc` that a better order of the same answers would remove; needs all rows.

    `aurc` less $r + (1 - r) \log(1 - r)$, the area at error rate $r$ if every error had less
    confidence than every right answer, Geifman et al. (2019). Never below 0.

    >>> eaurc([0, 1], [[0.7, 0.3], [0.9, 0.1]])
    0.6931
    """
    ties = by_confidence(rows_of("eaurc", labels, probabilities, sample_weight))
    if not ties.total:
        return float("nan")
    risk = 1 - ties.right.sum() / ties.total
    least = risk + ((1 - risk) * math.log1p(-risk) if risk < 1 else 0.0)
    return max(_area(ties) - float(least), 0.0)  # rounding


@dataclass(frozen=True, eq=False)
class Ties:
    """Sums over the rows of each distinct confidence, in rising order."""

    weight: Float64
    right: Float64
    gap: Float64
    total: float


def by_confidence(rows: Rows) -> Ties:
    """The rows in groups of equal confidence; rows of no weight are left out."""
    counted = rows.weight > 0
    u, right, confidence = rows.weight[counted], rows.right[counted], rows.confidence[counted]
    values, where = np.unique(confidence, return_inverse=True)
    weight = np.bincount(where, u, len(values)).astype(np.float64)
    correct = np.bincount(where, u * right, len(values)).astype(np.float64)
    return Ties(weight, correct, correct - weight * values, float(weight.sum()))


def _area(ties: Ties) -> float:
    weight, errors = ties.weight[::-1], (ties.weight - ties.right)[::-1]
    covered, erred, rate = np.cumsum(weight)[:-1], np.cumsum(errors)[:-1], (errors / weight)[1:]
    # The integral over a group of (erred + rate x) / (covered + x); the first has none before it.
    growth = np.log1p(weight[1:] / covered)
    return float((errors.sum() + ((erred - rate * covered) * growth).sum()) / ties.total)
