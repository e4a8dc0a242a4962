"""What a block of rows adds to `Tails`.

Each kernel adds into arrays that the caller owns and returns the first row it cannot use, or -1.
"""

from typing import Any

import numpy as np

from tepid.kernels import narrow, wide
from tepid.kernels.elementary import exp32, kernel, step
from tepid.kernels.narrow import FEW_CLASSES, ONE, ROWS, ZERO


@step
def _tail_tile(
    z: Any, start: int, rows: int, u: Any, x: Any, e: Any, scratch: Any, out: Any
) -> int:
    best, top, total = scratch[0], scratch[1], scratch[2]
    bad = narrow.read(z, start, rows, x, top, best)
    if bad >= 0:
        return bad
    k = z.shape[1]
    narrow.exponentials(x, k, top, e, total)
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
    top, best = wide.peak(z)
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
def tail_sums(z: Any, weight: Any, out: Any) -> int:
    """Add, per class: predicted weight; S and S² where not predicted; S where predicted."""
    n, k = z.shape
    if k > FEW_CLASSES:
        row = np.zeros(k, np.float32)
        for i in range(n):
            if not _tail_row(z[i], weight[i], row, out):
                return i
        return -1
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
