"""Many classes: one row at a time, its classes side by side in vector lanes.

The same steps as `narrow`, written into lane `b` of the same tile.
"""

from typing import Any

from tepid.kernels.elementary import exp32, f32, maximum, step
from tepid.kernels.narrow import ABSENT, CHAIN, FARTHEST, LARGEST, MASKED, ONE, ZERO

# A row is finished when all that is not its maximum has shrunk to this.
GONE = f32(1e-18)
# Where the maximum first stands is looked for in runs of this many classes.
_RUN = 64


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
def read(z: Any, top: Any, unit: Any, x: Any, b: int, shape: Any) -> None:
    """Fill x with the row's distances to its maximum; `shape[:, b]` as in `narrow.centre`."""
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
def normalise(x: Any, scale: Any, e: Any) -> Any:
    """Set e = exp(x * scale) and return its sum."""
    total = ZERO
    for j in range(x.shape[0]):
        v = exp32(x[j] * scale)
        e[j] = v
        total += v
    return total


@step
def _count(x: Any, e: Any, total: Any, thresholds: Any) -> Any:
    count, pull = ZERO, ZERO
    for j in range(thresholds.shape[0]):
        v = e[j]
        inside = v >= thresholds[j] * total
        count += ONE if inside else ZERO
        pull += x[j] if inside else ZERO
    return count, pull


@step
def members(x: Any, e: Any, total: Any, thresholds: Any, b: int, pairs: Any) -> None:
    """As `narrow.members`, for one row."""
    for w in range(thresholds.shape[0]):
        pairs[w, 0, b], pairs[w, 1, b] = _count(x, e, total, thresholds[w])


@step
def _fresh(x: Any, squares: Any, scale: Any, e: Any) -> Any:
    r0, r1, r2 = ZERO, ZERO, ZERO
    for j in range(x.shape[0]):
        v = exp32(x[j] * scale)
        e[j] = v
        r0 += v
        r1 += v * x[j]
        r2 += v * squares[j]
    return r0, r1, r2


@step
def _two_squarings(x: Any, squares: Any, e: Any) -> Any:
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
def moments(x: Any, squares: Any, scales: Any, lengths: Any, e: Any, b: int, out: Any) -> None:
    """As `narrow.moments`, for one row; `squares` is scratch."""
    for j in range(x.shape[0]):
        squares[j] = x[j] * x[j]
    chains = scales.shape[0]
    for r in range(chains):
        m = 0
        left = ONE
        while m < lengths[r] and left > GONE:
            q = m * chains + r
            if m % CHAIN == 0:
                out[q, 0, b], out[q, 1, b], out[q, 2, b] = _fresh(
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
                ) = _two_squarings(x, squares, e)
                left = out[q + chains, 0, b]
                m += 2
        while m < lengths[r]:
            q = m * chains + r
            out[q, 0, b], out[q, 1, b], out[q, 2, b] = ZERO, ZERO, ZERO
            m += 1
