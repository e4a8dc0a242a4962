"""Sums of `Reliability` and of reports, the softmax, and the gradient of the NLL, in NumPy.

Everything is float64 and goes block by block, so that temporary arrays stay in the cache.
"""

import math
from collections.abc import Iterator

import numpy as np

from tepid.kernels.array_sums import bins_of
from tepid.kernels.limits import ADDED, PREDICTED, REST, UNDERFLOW
from tepid.validation import Array, Float32, Float64, Int64

_BLOCK = 1 << 15


def _blocks(n: int, k: int) -> Iterator[slice]:
    size = max(1, _BLOCK // k)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def _distances(z: Array) -> tuple[Float64, int]:
    """Z - max z in float64, and the first row that cannot be used, or -1."""
    d = z.astype(np.float64)
    top = d.max(axis=1, keepdims=True)
    d -= top
    if np.isfinite(top).all():
        return d, -1
    return d, int(np.isfinite(top[:, 0]).argmin())


def softmax(z: Array, beta: float, out: Array) -> int:
    """As `kernels.softmax`."""
    for rows in _blocks(*z.shape):
        e = z[rows].astype(np.float64)
        e -= np.maximum.reduce(e, axis=1, keepdims=True)
        e *= beta
        np.exp(e, out=e)
        total = np.add.reduce(e, axis=1, keepdims=True)
        # inf - inf is NaN, so the sum is NaN exactly where a row cannot be used.
        if not math.isfinite(np.add.reduce(total, axis=None)):
            return rows.start + int(np.isnan(total[:, 0]).argmax())
        np.divide(e, total, out=out[rows], casting="same_kind")
    return -1


def residuals(s: Float64, labels: Int64, weight: Float64) -> float:
    """As `kernels.residuals`."""
    loss = 0.0
    for rows in _blocks(*s.shape):
        block, y, u = s[rows], labels[rows], weight[rows]
        if not np.isfinite(block.max(axis=1)).all():
            return np.inf
        each = np.arange(len(block))
        block -= block.max(axis=1, keepdims=True)
        own = block[each, y]
        np.exp(block, out=block)
        total = block.sum(axis=1)
        block *= (u / total)[:, None]
        block[each, y] -= u
        loss += float(u @ (np.log(total) - own))
    return loss


def class_gaps(p: Float64, labels: Int64, weight: Float64, gaps: Float64) -> None:
    """As `kernels.class_gaps`."""
    classes, bins = gaps.shape
    flat = gaps.reshape(-1)
    for rows in _blocks(*p.shape):
        block, y, u = p[rows], labels[rows], weight[rows]
        where = bins_of(block, bins) + bins * np.arange(classes)
        said = (u[:, None] * block).reshape(-1)
        flat += np.bincount(where.reshape(-1), said, flat.size)
        flat -= np.bincount(where[np.arange(len(block)), y], u, flat.size)


def score_sums(
    z: Float32, weight: Float64, labels: Int64, beta: float, totals: Float64, histogram: Float64
) -> int:
    """As `kernels.score_sums`."""
    bins = histogram.shape[1]
    for rows in _blocks(*z.shape):
        d, bad = _distances(z[rows])
        if bad >= 0:
            return rows.start + bad
        best, y, u = z[rows].argmax(axis=1), labels[rows], weight[rows]
        d *= beta
        gap = d[np.arange(len(d)), y]
        e = np.exp(d, out=d)
        total = e.sum(axis=1)
        squares = np.einsum("bk,bk->b", e, e)
        share, brier = 1.0 / total, squares / (total * total) - 2.0 * np.exp(gap) / total + 1.0
        counts = u > 0  # the NLL may be infinite, and 0 * inf is NaN
        nll = float(u[counts] @ (np.log(total) - gap)[counts])
        totals += (len(u), u.sum(), nll, u @ brier)
        where = bins_of(share, bins)
        for place, values in enumerate((u, u * share, u * (best == y))):
            histogram[place] += np.bincount(where, values, bins)
    return -1


def member_sums(
    z: Float32,
    weight: Float64,
    thresholds: Float32,
    edges: Float32,
    members: Float64,
    histogram: Float64,
) -> int:
    """As `kernels.member_sums`."""
    k, kinds, places = histogram.shape
    flat = histogram.reshape(-1)
    for rows in _blocks(*z.shape):
        d, bad = _distances(z[rows])
        if bad >= 0:
            return rows.start + bad
        e = np.exp(d)
        e[d <= UNDERFLOW] = 0.0
        total = e.sum(axis=1, keepdims=True)
        u = weight[rows]
        # As the curve has it, so that the pairs are those that it sums.
        inside = (e > 0) & (e >= thresholds.astype(np.float64) * total)
        members += np.einsum("b,bk->k", u, inside)
        kind = np.where(inside, ADDED, REST)
        kind[np.arange(len(e)), z[rows].argmax(axis=1)] = PREDICTED
        place = np.searchsorted(edges, (e / total).astype(np.float32), side="right")
        where = (kinds * np.arange(k) + kind) * places + place
        flat += np.bincount(where.reshape(-1), np.repeat(u, k), flat.size)
    return -1


def class_sums(
    z: Float32,
    weight: Float64,
    labels: Int64,
    beta: float,
    best: Int64,
    confidence: Float64,
    per: Float64,
    by_bin: Float64,
) -> int:
    """As `kernels.class_sums`."""
    k, _, bins = by_bin.shape
    for rows in _blocks(*z.shape):
        e, bad = _distances(z[rows])
        if bad >= 0:
            return rows.start + bad
        e *= beta
        np.exp(e, out=e)
        total = e.sum(axis=1)
        e /= total[:, None]
        u, first, share = weight[rows], z[rows].argmax(axis=1), 1.0 / total
        best[rows], confidence[rows] = first, share
        per[0] += np.bincount(first, u, k)
        per[1] += np.bincount(first, u * share, k)
        per[4] += np.einsum("b,bk->k", u, e)
        if len(labels):
            y = labels[rows]
            per[2] += np.bincount(y, u, k)
            per[3] += np.bincount(y, u * (first == y), k)
            where = bins_of(e, bins) + bins * np.arange(k)
            mass = np.bincount(where.reshape(-1), (u[:, None] * e).reshape(-1), k * bins)
            true = np.bincount(where[np.arange(len(e)), y], u, k * bins)
            by_bin[:, 0] += mass.reshape(k, bins)
            by_bin[:, 1] += true.reshape(k, bins)
    return -1
