"""Steps over a tile of rows, in two layouts with the same arithmetic.

Narrow, for few classes: 96 rows side by side, one per vector lane. A tile holds
`x[j, b] = unit * (z[b, j] - max_j z[b, j])`, class by class. `unit` is a power of two, so scaling
is exact, and a lane's arithmetic never depends on the rows beside it.

Wide, for many classes: one row at a time, its classes side by side in vector lanes. Results are
written into lane `b` of the same tile.
"""

from typing import Any

import numpy as np

from tepid.kernels import limits
from tepid.kernels.compiled.elementary import exp32, f32, maximum, step

ROWS = 96
ZERO, ONE, LARGEST = f32(0.0), f32(1.0), f32(np.finfo(np.float32).max)
ABSENT, FARTHEST = f32(limits.ABSENT), f32(limits.FARTHEST)
MASKED = f32(-np.inf)
# Squaring doubles the relative error of an exponential: compute a new exponential after six.
CHAIN = 7
# A row is finished when all that is not its maximum has shrunk to this.
GONE = f32(1e-18)
# Where the maximum first stands is looked for in runs of this many classes.
_RUN = 64


@step
def narrow_read(z: Any, start: int, rows: int, x: Any, top: Any, best: Any) -> int:
    """Fill a tile with logits, each row's maximum and where it first stands; a bad row or -1."""
    k = z.shape[1]
    for b in range(rows):
        for j in range(k):
            x[j, b] = z[start + b, j]
    for b in range(ROWS):
        top[b] = x[0, b]
        best[b] = ZERO
    for j in range(1, k):
        index = f32(j)
        for b in range(ROWS):
            v = x[j, b]
            best[b] = index if v > top[b] else best[b]
            top[b] = maximum(top[b], v)
    for b in range(rows):
        if not (MASKED < top[b] <= LARGEST):
            return b
    return -1


@step
def narrow_center(x: Any, k: int, top: Any, unit: Any, shape: Any) -> None:
    """Turn logits into x; `shape` gets the ties, the live classes and the sum of x over them."""
    for b in range(ROWS):
        shape[0, b], shape[1, b], shape[2, b] = ZERO, f32(k), ZERO
    for j in range(k):
        for b in range(ROWS):
            v = x[j, b]
            d = max(v * unit - top[b] * unit, FARTHEST)
            d = d if v > MASKED else ABSENT
            shape[0, b] += ONE if d == ZERO else ZERO
            shape[2, b] += d
            x[j, b] = d
    for b in range(ROWS):
        if shape[2, b] <= ABSENT:  # perhaps a masked class, which is hardly ever there
            shape[1, b], shape[2, b] = ZERO, ZERO
            for j in range(k):
                if x[j, b] > ABSENT:
                    shape[1, b] += ONE
                    shape[2, b] += x[j, b]


@step
def narrow_exponentials(x: Any, k: int, top: Any, e: Any, total: Any) -> None:
    """Set e = exp(logit - maximum) and `total` to its sum over the classes."""
    for b in range(ROWS):
        total[b] = ZERO
    for j in range(k):
        for b in range(ROWS):
            v = exp32(x[j, b] - top[b])
            e[j, b] = v
            total[b] += v


@step
def narrow_normalize(x: Any, k: int, scale: Any, e: Any, total: Any) -> None:
    """Set e = exp(x * scale) and `total` to its sum over the classes."""
    for b in range(ROWS):
        total[b] = ZERO
    for j in range(k):
        for b in range(ROWS):
            v = exp32(x[j, b] * scale)
            e[j, b] = v
            total[b] += v


@step
def narrow_members(x: Any, e: Any, total: Any, thresholds: Any, pairs: Any) -> None:
    """Count, per row and threshold set, the classes with S >= threshold > 0; sum their x."""
    for w in range(thresholds.shape[0]):
        for b in range(ROWS):
            pairs[w, 0, b], pairs[w, 1, b] = ZERO, ZERO
        for j in range(thresholds.shape[1]):
            threshold = thresholds[w, j]
            for b in range(ROWS):
                v = e[j, b]
                inside = v >= threshold * total[b]
                pairs[w, 0, b] += ONE if inside else ZERO
                pairs[w, 1, b] += x[j, b] if inside else ZERO


@step
def _narrow_fresh(x: Any, k: int, scale: Any, e: Any, r: Any) -> None:
    for b in range(ROWS):
        r[0, b], r[1, b], r[2, b] = ZERO, ZERO, ZERO
    for j in range(k):
        for b in range(ROWS):
            d = x[j, b]
            v = exp32(d * scale)
            e[j, b] = v
            t = v * d
            r[0, b] += v
            r[1, b] += t
            r[2, b] += t * d


@step
def _narrow_two_squarings(x: Any, k: int, e: Any, r: Any, s: Any) -> None:
    # Two classes and two nodes at a time: the running sums are moved a quarter as often.
    for b in range(ROWS):
        r[0, b], r[1, b], r[2, b] = ZERO, ZERO, ZERO
        s[0, b], s[1, b], s[2, b] = ZERO, ZERO, ZERO
    for j in range(0, k, 2):
        for b in range(ROWS):
            d, d2 = x[j, b], x[j + 1, b]
            v, v2 = e[j, b], e[j + 1, b]
            v, v2 = v * v, v2 * v2
            t, t2 = v * d, v2 * d2
            r[0, b] += v + v2
            r[1, b] += t + t2
            r[2, b] += t * d + t2 * d2
            v, v2 = v * v, v2 * v2
            t, t2 = v * d, v2 * d2
            s[0, b] += v + v2
            s[1, b] += t + t2
            s[2, b] += t * d + t2 * d2
            e[j, b], e[j + 1, b] = v, v2


@step
def narrow_moments(x: Any, scales: Any, lengths: Any, e: Any, out: Any) -> None:
    """Sum exp, x exp and x² exp over the classes other than the best, at every node of each chain.

    Node m of chain r has the scale `scales[r] * 2**m` and stands at `out[m * chains + r]`; the
    last node of a chain may be followed by one that nobody reads.
    """
    chains = scales.shape[0]
    k = x.shape[0]
    for r in range(chains):
        m = 0
        while m < lengths[r]:
            if m % CHAIN == 0:
                _narrow_fresh(x, k, f32(scales[r] * 2.0**m), e, out[m * chains + r])
                m += 1
            else:
                _narrow_two_squarings(x, k, e, out[m * chains + r], out[(m + 1) * chains + r])
                m += 2


@step
def peak(z: Any) -> Any:
    """The maximum of a row and where it first stands; -1 for a row with NaN, +inf, or only -inf."""
    k = z.shape[0]
    top = z[0]
    for j in range(k):
        top = maximum(top, z[j])
    if not (MASKED < top <= LARGEST):
        return top, -1
    first = 0
    while first + _RUN <= k:
        hits = ZERO
        for j in range(first, first + _RUN):
            hits += ONE if z[j] == top else ZERO
        if hits > ZERO:
            break
        first += _RUN
    while z[first] != top:
        first += 1
    return top, first


@step
def wide_read(z: Any, top: Any, unit: Any, x: Any, b: int, shape: Any) -> None:
    """Fill x with the row's distances to its maximum; `shape[:, b]` as in `narrow_center`."""
    ties, live, total = ZERO, ZERO, ZERO
    base = top * unit
    for j in range(z.shape[0]):
        v = z[j]
        here = v > MASKED
        d = max(v * unit - base, FARTHEST)
        x[j] = d if here else ABSENT
        live += ONE if here else ZERO
        ties += ONE if v == top else ZERO
        total += d if here else ZERO
    shape[0, b], shape[1, b], shape[2, b] = ties, live, total


@step
def wide_normalize(x: Any, scale: Any, e: Any) -> Any:
    """Set e = exp(x * scale) and return its sum."""
    total = ZERO
    for j in range(x.shape[0]):
        v = exp32(x[j] * scale)
        e[j] = v
        total += v
    return total


@step
def _count_members(x: Any, e: Any, total: Any, thresholds: Any) -> Any:
    count, pull = ZERO, ZERO
    for j in range(thresholds.shape[0]):
        v = e[j]
        inside = v >= thresholds[j] * total
        count += ONE if inside else ZERO
        pull += x[j] if inside else ZERO
    return count, pull


@step
def wide_members(x: Any, e: Any, total: Any, thresholds: Any, b: int, pairs: Any) -> None:
    """As `narrow_members`, for one row."""
    for w in range(thresholds.shape[0]):
        pairs[w, 0, b], pairs[w, 1, b] = _count_members(x, e, total, thresholds[w])


@step
def _wide_fresh(x: Any, squares: Any, scale: Any, e: Any) -> Any:
    r0, r1, r2 = ZERO, ZERO, ZERO
    for j in range(x.shape[0]):
        v = exp32(x[j] * scale)
        e[j] = v
        r0 += v
        r1 += v * x[j]
        r2 += v * squares[j]
    return r0, r1, r2


@step
def _wide_two_squarings(x: Any, squares: Any, e: Any) -> Any:
    r0, r1, r2, s0, s1, s2 = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
    for j in range(x.shape[0]):
        d, d2, v = x[j], squares[j], e[j]
        v = v * v
        r0 += v
        r1 += v * d
        r2 += v * d2
        v = v * v
        s0 += v
        s1 += v * d
        s2 += v * d2
        e[j] = v
    return r0, r1, r2, s0, s1, s2


@step
def wide_moments(x: Any, squares: Any, scales: Any, lengths: Any, e: Any, b: int, out: Any) -> None:
    """As `narrow_moments`, for one row; `squares` is scratch."""
    for j in range(x.shape[0]):
        squares[j] = x[j] * x[j]
    chains = scales.shape[0]
    for r in range(chains):
        m = 0
        left = ONE
        while m < lengths[r] and left > GONE:
            q = m * chains + r
            if m % CHAIN == 0:
                out[q, 0, b], out[q, 1, b], out[q, 2, b] = _wide_fresh(
                    x, squares, f32(scales[r] * 2.0**m), e
                )
                left = out[q, 0, b]
                m += 1
            else:
                (
                    out[q, 0, b],
                    out[q, 1, b],
                    out[q, 2, b],
                    out[q + chains, 0, b],
                    out[q + chains, 1, b],
                    out[q + chains, 2, b],
                ) = _wide_two_squarings(x, squares, e)
                left = out[q + chains, 0, b]
                m += 2
        while m < lengths[r]:
            q = m * chains + r
            out[q, 0, b], out[q, 1, b], out[q, 2, b] = ZERO, ZERO, ZERO
            m += 1
