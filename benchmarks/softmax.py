"""The unit that a fit is counted in: one softmax pass, log-sum-exp with two moments.

Per row the maximum, then exp, its sum and the sums of d·exp and d²·exp, with tepid's exponential.
Few classes are read rows side by side, many classes side by side, as tepid's own kernels do.
"""

from concurrent.futures import Executor
from typing import Any

import numpy as np
from numba import njit

from tepid.kernels.compiled.elementary import LANES, exp32, f32

LOGITS_PER_BLOCK = 1 << 20
ROWS = 64
# Up to here rows side by side are faster.
FEW_CLASSES = 64
ZERO, LOWEST = f32(0.0), f32(-np.inf)


@njit(nogil=True, fastmath=LANES)
def _row(z: Any) -> Any:
    top = LOWEST
    for j in range(z.shape[0]):
        top = z[j] if z[j] > top else top
    total, first, second = ZERO, ZERO, ZERO
    for j in range(z.shape[0]):
        d = z[j] - top
        e = exp32(d)
        total += e
        first += e * d
        second += e * d * d
    return total, first, second


@njit(nogil=True)
def many_classes(z: Any) -> Any:
    """Sum log-sum-exp, mean and variance of d over rows, one row at a time."""
    log, mean, variance = 0.0, 0.0, 0.0
    for i in range(z.shape[0]):
        total, first, second = _row(z[i])
        m = first / np.float64(total)
        log += np.log(total)
        mean += m
        variance += second / np.float64(total) - m * m
    return log, mean, variance


@njit(nogil=True, fastmath=LANES)
def _read(z: Any, start: int, rows: int, x: Any, top: Any) -> None:
    for b in range(rows):
        for j in range(z.shape[1]):
            x[j, b] = z[start + b, j]
    top[:] = LOWEST
    for j in range(z.shape[1]):
        for b in range(ROWS):
            top[b] = x[j, b] if x[j, b] > top[b] else top[b]


@njit(nogil=True, fastmath=LANES)
def _add(x: Any, top: Any, sums: Any) -> None:
    sums[:] = ZERO
    for j in range(x.shape[0]):
        for b in range(ROWS):
            d = x[j, b] - top[b]
            e = exp32(d)
            sums[0, b] += e
            sums[1, b] += e * d
            sums[2, b] += e * d * d


@njit(nogil=True)
def few_classes(z: Any) -> Any:
    """The same sums, sixty-four rows at a time."""
    x = np.zeros((z.shape[1], ROWS), np.float32)
    top, sums = np.zeros(ROWS, np.float32), np.zeros((3, ROWS), np.float32)
    log, mean, variance = 0.0, 0.0, 0.0
    for start in range(0, z.shape[0], ROWS):
        rows = min(ROWS, z.shape[0] - start)
        _read(z, start, rows, x, top)
        _add(x, top, sums)
        for b in range(rows):
            m = sums[1, b] / np.float64(sums[0, b])
            log += np.log(sums[0, b])
            mean += m
            variance += sums[2, b] / np.float64(sums[0, b]) - m * m
    return log, mean, variance


def softmax_pass(z: Any, pool: Executor, threads: int) -> tuple[float, ...]:
    """One pass over an array, its blocks shared among the threads of a pool that is kept."""
    n, k = z.shape
    kernel = few_classes if k <= FEW_CLASSES else many_classes
    rows = min(max(ROWS, LOGITS_PER_BLOCK // k), -(-n // threads))
    blocks = [z[start : start + rows] for start in range(0, n, rows)]
    return tuple(np.sum(list(pool.map(kernel, blocks)), axis=0))
