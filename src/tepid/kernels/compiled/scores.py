"""Sums of a `Reliability`, the softmax, and the gradient of the NLL; all in float64.

A kernel adds into arrays that the caller owns and returns the first invalid row, or -1.
"""

from typing import Any

import numpy as np

from tepid.kernels.compiled import tiles
from tepid.kernels.compiled.elementary import exp64, kernel, maximum, step


@step
def bin_of(p: float, bins: int) -> int:
    """The bin of (0, 1/bins], (1/bins, 2/bins], … that holds p; 0 belongs to the first."""
    b = min(max(int(np.ceil(p * bins)) - 1, 0), bins - 1)
    if b > 0 and p <= b / bins:
        return b - 1
    if b < bins - 1 and p > (b + 1) / bins:
        return b + 1
    return b


@kernel
def class_gaps(p: Any, labels: Any, weight: Any, gaps: Any) -> None:
    """Add, per class and bin of its probability, how much more often it is said than true."""
    bins = gaps.shape[1]
    for i in range(p.shape[0]):
        for k in range(p.shape[1]):
            gaps[k, bin_of(p[i, k], bins)] += weight[i] * p[i, k]
        y = labels[i]
        gaps[y, bin_of(p[i, y], bins)] -= weight[i]


@step
def _score_row(z: Any, label: int, beta: float, out: Any) -> bool:
    """One row's confidence, correctness, NLL and Brier score, in float64."""
    top, best = tiles.peak(z)
    if best < 0:
        return False
    total, squares = 0.0, 0.0
    for j in range(z.shape[0]):
        v = exp64((np.float64(z[j]) - top) * beta)
        total += v
        squares += v * v
    gap = (np.float64(z[label]) - top) * beta
    p = exp64(gap) / total
    out[0] = 1.0 / total
    out[1] = 1.0 if best == label else 0.0
    out[2] = np.log(total) - gap
    out[3] = squares / (total * total) - 2.0 * p + 1.0
    return True


@kernel
def score_sums(z: Any, weight: Any, labels: Any, beta: float, totals: Any, histogram: Any) -> int:
    """Add a batch: totals rows, weight, NLL, Brier; per bin weight, confidence, correct."""
    row = np.zeros(4)
    bins = histogram.shape[1]
    for i in range(z.shape[0]):
        if not _score_row(z[i], labels[i], beta, row):
            return i
        u = weight[i]
        totals[0] += 1.0
        if u == 0.0:  # the NLL may be infinite, and 0 * inf is NaN
            continue
        b = bin_of(row[0], bins)
        totals[1] += u
        totals[2] += u * row[2]
        totals[3] += u * row[3]
        histogram[0, b] += u
        histogram[1, b] += u * row[0]
        histogram[2, b] += u * row[1]
    return -1


@step
def _softmax_row(z: Any, top: Any, beta: float, e: Any, out: Any) -> None:
    total = 0.0
    for j in range(z.shape[0]):
        v = exp64((np.float64(z[j]) - top) * beta)
        e[j] = v
        total += v
    for j in range(z.shape[0]):
        out[j] = e[j] / total


@kernel
def softmax(z: Any, beta: float, out: Any) -> int:
    """Write the softmax of beta * z, computed in float64: the order of a row's logits stays."""
    e = np.empty(z.shape[1])
    for i in range(z.shape[0]):
        top, best = tiles.peak(z[i])
        if best < 0:
            return i
        _softmax_row(z[i], top, beta, e, out[i])
    return -1


@step
def _residual_row(s: Any, label: int, weight: float) -> float:
    top = s[0]
    for j in range(s.shape[0]):
        top = maximum(top, s[j])
    if not np.isfinite(top):
        return np.inf
    own = s[label] - top
    total = 0.0
    for j in range(s.shape[0]):
        v = exp64(s[j] - top)
        s[j] = v
        total += v
    scale = weight / total
    for j in range(s.shape[0]):
        s[j] *= scale
    s[label] -= weight
    return weight * (np.log(total) - own)


@kernel
def residuals(s: Any, labels: Any, weight: Any) -> float:
    """Turn scores into weight * (softmax - one hot), in place, and return the weighted NLL.

    The NLL is infinite where a row has no finite maximum; the scores of that row are left.
    """
    loss = 0.0
    for i in range(s.shape[0]):
        loss += _residual_row(s[i], labels[i], weight[i])
    return loss
