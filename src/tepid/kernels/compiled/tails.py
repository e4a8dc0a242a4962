"""Sums per class: `Tails`, the members of M_k, and predictions against labels.

A kernel adds into arrays that the caller owns and returns the first invalid row, or -1.
"""

from typing import Any

import numpy as np

from tepid.kernels.compiled import tiles
from tepid.kernels.compiled.elementary import exp32, exp64, kernel, step
from tepid.kernels.compiled.scores import bin_of
from tepid.kernels.compiled.tiles import ONE, ROWS, ZERO
from tepid.kernels.limits import ADDED, PREDICTED, REST


@step
def _tail_tile(
    z: Any, start: int, rows: int, u: Any, x: Any, e: Any, scratch: Any, out: Any
) -> int:
    best, top, total = scratch[0], scratch[1], scratch[2]
    bad = tiles.narrow_read(z, start, rows, x, top, best)
    if bad >= 0:
        return bad
    k = z.shape[1]
    tiles.narrow_exponentials(x, k, top, e, total)
    for b in range(ROWS):
        total[b] = ONE / total[b]
    for b in range(rows):
        j = int(best[b])
        e[j, b] = ZERO
        out[0, j] += u[b]
        out[3, j] += u[b] * total[b]
    for j in range(k):
        first, second = 0.0, 0.0
        for b in range(ROWS):
            s = np.float64(e[j, b] * total[b])
            first += u[b] * s
            second += u[b] * s * s
        out[1, j] += first
        out[2, j] += second
    return -1


@step
def _add_squares(e: Any, inverse: Any, u: float, first: Any, second: Any) -> None:
    for j in range(first.shape[0]):
        s = np.float64(e[j] * inverse)
        first[j] += u * s
        second[j] += u * s * s


@step
def _tail_row(z: Any, u: float, e: Any, out: Any) -> bool:
    top, best = tiles.peak(z)
    if best < 0:
        return False
    total = ZERO
    for j in range(z.shape[0]):
        v = exp32(z[j] - top)
        e[j] = v
        total += v
    inverse = ONE / total
    e[best] = ZERO
    out[0, best] += u
    out[3, best] += u * inverse
    _add_squares(e, inverse, u, out[1], out[2])
    return True


@kernel
def wide_tail_sums(z: Any, weight: Any, out: Any) -> int:
    """`kernels.tail_sums` for many classes."""
    row = np.zeros(z.shape[1], np.float32)
    for i in range(z.shape[0]):
        if not _tail_row(z[i], weight[i], row, out):
            return i
    return -1


@kernel
def narrow_tail_sums(z: Any, weight: Any, out: Any) -> int:
    """`kernels.tail_sums` for few classes."""
    n, k = z.shape
    u = np.zeros(ROWS)
    x, e = np.zeros((k, ROWS), np.float32), np.zeros((k, ROWS), np.float32)
    scratch = np.zeros((3, ROWS), np.float32)
    for start in range(0, n, ROWS):
        rows = min(ROWS, n - start)
        for b in range(ROWS):
            u[b] = weight[start + b] if b < rows else 0.0
        bad = _tail_tile(z, start, rows, u, x, e, scratch, out)
        if bad >= 0:
            return start + bad
    return -1


@step
def _exponentials(z: Any, top: Any, e: Any) -> Any:
    total = ZERO
    for j in range(z.shape[0]):
        v = exp32(z[j] - top)
        e[j] = v
        total += v
    return total


@step
def _between(edges: Any, s: Any) -> int:
    """How many edges lie at or below s; all are compared, which is quicker than to branch."""
    count = ZERO
    for m in range(edges.shape[0]):
        count += ONE if edges[m] <= s else ZERO
    return int(count)


@kernel
def member_sums(
    z: Any, weight: Any, thresholds: Any, edges: Any, members: Any, histogram: Any
) -> int:
    """`kernels.member_sums`."""
    e = np.zeros(z.shape[1], np.float32)
    for i in range(z.shape[0]):
        top, best = tiles.peak(z[i])
        if best < 0:
            return i
        total = _exponentials(z[i], top, e)
        u = weight[i]
        for j in range(z.shape[1]):
            # As in `tiles.wide_members`, so that the pairs are those that the curve sums.
            inside = e[j] > ZERO and e[j] >= thresholds[j] * total
            kind = ADDED if inside else REST
            histogram[j, PREDICTED if j == best else kind, _between(edges, e[j] / total)] += u
            if inside:
                members[j] += u
    return -1


@step
def _wide_exponentials(z: Any, top: Any, beta: float, e: Any) -> float:
    total = 0.0
    for j in range(z.shape[0]):
        v = exp64((np.float64(z[j]) - top) * beta)
        e[j] = v
        total += v
    return total


@step
def _by_class(e: Any, total: float, label: int, u: float, out: Any) -> None:
    """Add p_k and whether k is the label, by bin of p_k, for every class k."""
    bins = out.shape[2]
    first = 1.0 / bins
    for j in range(e.shape[0]):
        p = e[j] / total
        b = 0 if p <= first else bin_of(p, bins)
        out[j, 0, b] += u * p
        if j == label:
            out[j, 1, b] += u


@kernel
def class_sums(
    z: Any, weight: Any, labels: Any, beta: float, best: Any, confidence: Any, per: Any, by_bin: Any
) -> int:
    """`kernels.class_sums`."""
    e = np.empty(z.shape[1])
    for i in range(z.shape[0]):
        top, first = tiles.peak(z[i])
        if first < 0:
            return i
        total = _wide_exponentials(z[i], top, beta, e)
        u = weight[i]
        best[i], confidence[i] = first, 1.0 / total
        per[0, first] += u
        per[1, first] += u / total
        for j in range(z.shape[1]):
            per[4, j] += u * (e[j] / total)
        if len(labels):
            per[2, labels[i]] += u
            if labels[i] == first:
                per[3, first] += u
            _by_class(e, total, labels[i], u, by_bin)
    return -1
