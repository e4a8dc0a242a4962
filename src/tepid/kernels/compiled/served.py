"""Sums of a monitor: a curve of one node, and tails, for rows of weight one.

The same sums as `curves` and `tails`, in one pass over the logits instead of two: a monitor runs
beside every prediction, on small batches.
"""

from typing import Any

import numpy as np

from tepid.kernels.compiled import tiles
from tepid.kernels.compiled.elementary import exp32, f32, kernel, step
from tepid.kernels.compiled.scores import bin_of
from tepid.kernels.compiled.tiles import FARTHEST, GONE, MASKED, ONE, ROWS, ZERO

# Rows of many classes that are added at once: the sums of a class are moved less often.
_TOGETHER = 8
# What is kept of a row: Σ exp at T = 1, and Σ exp, Σ x exp, Σ x² exp at the node, over the classes
# below the maximum; how many classes are at it, and the first of them; Σ x; and then 1 / Σ exp.
_S, _R0, _R1, _R2, _TIES, _BEST, _SPREAD, _INVERSE = range(8)


@step
def _wide_row(z: Any, top: Any, unit: Any, scale: Any, e: Any) -> Any:
    s, r0, r1, r2, ties, spread = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
    base, plain = top * unit, ONE / unit
    for j in range(z.shape[0]):
        x = max(z[j] * unit - base, FARTHEST)
        # Without the maximum itself, so that the doubt of a sure row keeps its digits.
        below = z[j] < top
        y = x if below else FARTHEST
        first, v = exp32(y * plain), exp32(y * scale)
        e[j] = first
        s += first
        r0 += v
        r1 += v * x
        r2 += v * x * x
        ties += ZERO if below else ONE
        spread += x
    return s, r0, r1, r2, ties, spread


@step
def _read_wide(z: Any, start: int, rows: int, unit: Any, scale: Any, e: Any, kept: Any) -> int:
    for b in range(rows):
        row = z[start + b]
        top, best = tiles.peak(row)
        if best < 0:
            return b
        s, r0, r1, r2, ties, spread = _wide_row(row, top, unit, scale, e[b])
        kept[_S, b], kept[_R0, b], kept[_R1, b], kept[_R2, b] = s, r0, r1, r2
        kept[_TIES, b], kept[_BEST, b], kept[_SPREAD, b] = ties, f32(best), spread
        if ties > ONE:  # those beside the first are classes like any other
            for j in range(row.shape[0]):
                e[b, j] = ONE if row[j] == top and j != best else e[b, j]
    return -1


@step
def _add_wide(e: Any, kept: Any, first: Any, second: Any) -> None:
    for j in range(first.shape[0]):
        one, two = 0.0, 0.0
        for b in range(_TOGETHER):
            s = np.float64(e[b, j] * kept[_INVERSE, b])
            one += s
            two += s * s
        first[j] += one
        second[j] += two


@step
def _narrow_class(x: Any, top: Any, unit: Any, scale: Any, e: Any, kept: Any) -> None:
    plain = ONE / unit
    for b in range(ROWS):
        d = max(x[b] * unit - top[b] * unit, FARTHEST)
        below = x[b] < top[b]
        y = d if below else FARTHEST
        first, v = exp32(y * plain), exp32(y * scale)
        e[b] = first
        kept[_S, b] += first
        kept[_R0, b] += v
        kept[_R1, b] += v * d
        kept[_R2, b] += v * d * d
        kept[_TIES, b] += ZERO if below else ONE
        kept[_SPREAD, b] += d


@step
def _read_narrow(
    z: Any, start: int, rows: int, unit: Any, scale: Any, x: Any, top: Any, e: Any, kept: Any
) -> int:
    bad = tiles.narrow_read(z, start, rows, x, top, kept[_BEST])
    if bad >= 0:
        return bad
    for name in (_S, _R0, _R1, _R2, _TIES, _SPREAD):
        for b in range(ROWS):
            kept[name, b] = ZERO
    for j in range(z.shape[1]):
        _narrow_class(x[j], top, unit, scale, e[j], kept)
    for b in range(rows):
        if kept[_TIES, b] > ONE:
            for j in range(z.shape[1]):
                e[j, b] = ONE if x[j, b] == top[b] and j != kept[_BEST, b] else e[j, b]
    return -1


@step
def _add_narrow(e: Any, kept: Any, first: Any, second: Any) -> None:
    for j in range(first.shape[0]):
        one, two = 0.0, 0.0
        for b in range(ROWS):
            s = np.float64(e[j, b] * kept[_INVERSE, b])
            one += s
            two += s * s
        first[j] += one
        second[j] += two


@step
def _live(z: Any, unit: Any, best: int) -> Any:
    """How many classes of a row are not masked, and Σ x over them."""
    live, spread = ZERO, ZERO
    for j in range(z.shape[0]):
        here = z[j] > MASKED
        live += ONE if here else ZERO
        spread += max(z[j] * unit - z[best] * unit, FARTHEST) if here else ZERO
    return live, spread


@step
def _add_rows(
    z: Any, start: int, rows: int, unit: Any, kept: Any, threshold: Any, totals: Any,
    confidence: Any, histogram: Any, tails: Any, accepted: Any,
) -> None:  # fmt: skip
    bins = histogram.shape[1]
    for b in range(rows):
        best, ties = int(kept[_BEST, b]), kept[_TIES, b]
        live, spread = f32(z.shape[1]), kept[_SPREAD, b]
        if spread <= FARTHEST:  # perhaps a masked class, which is hardly ever there
            live, spread = _live(z[start + b], unit, best)
        totals[0] += 1.0
        totals[1] += 1.0
        totals[2] += 1.0 / np.float64(live)
        totals[3] += 1.0 / np.float64(ties)
        totals[4] += np.float64(spread) / live
        totals[5] += 1.0
        kept[_INVERSE, b] = ONE / (kept[_S, b] + ties)
        tails[0, best] += 1.0
        tails[3, best] += kept[_INVERSE, b]
        r = kept[_R0, b] + (ties - ONE)
        r = r if r >= GONE else ZERO
        share = ONE / (ONE + r)
        mean = kept[_R1, b] * share if r >= GONE else ZERO
        variance = max(kept[_R2, b] * share - mean * mean, ZERO) if r >= GONE else ZERO
        p, m = np.float64(share), np.float64(mean)
        confidence[0] += p * r
        confidence[1] -= p * m
        confidence[2] += p * (m * m - variance)
        confidence[3] += (p * r) * (p * r)
        i = bin_of(p, bins)
        histogram[0, i] += 1.0
        histogram[1, i] += p
        if share >= threshold:
            accepted[0] += 1.0
            accepted[1] += p


@step
def _share(z: Any, top: Any, unit: Any, scale: Any) -> Any:
    """The confidence of a row at the node."""
    r, ties, base = ZERO, ZERO, top * unit
    for j in range(z.shape[0]):
        below = z[j] < top
        y = max(z[j] * unit - base, FARTHEST) if below else FARTHEST
        r += exp32(y * scale)
        ties += ZERO if below else ONE
    r += ties - ONE
    return ONE / (ONE + (r if r >= GONE else ZERO))


@kernel
def accepted_sums(z: Any, unit: Any, scale: Any, threshold: Any, accepted: Any) -> None:
    """Add the number of rows whose confidence is at least the threshold, and their confidence.

    Every row must be usable.
    """
    for i in range(z.shape[0]):
        share = _share(z[i], tiles.peak(z[i])[0], unit, scale)
        if share >= threshold:
            accepted[0] += 1.0
            accepted[1] += np.float64(share)


@step
def _parts(vector: Any, bins: int, k: int) -> Any:
    """The totals, confidence, histogram, tails and accepted rows of a monitor's vector."""
    tails = 10 + 3 * bins
    return (
        vector[:6],
        vector[6:10],
        vector[10:tails].reshape(3, bins),
        vector[tails : tails + 4 * k].reshape(4, k),
        vector[tails + 4 * k :],
    )


@kernel
def narrow_served_sums(
    z: Any, unit: Any, scale: Any, threshold: Any, bins: int, vector: Any
) -> int:
    """`kernels.served_sums` for few classes."""
    n, k = z.shape
    totals, confidence, histogram, tails, accepted = _parts(vector, bins, k)
    e, x = np.zeros((k, ROWS), np.float32), np.zeros((k, ROWS), np.float32)
    top, kept = np.zeros(ROWS, np.float32), np.zeros((8, ROWS), np.float32)
    for start in range(0, n, ROWS):
        rows = min(ROWS, n - start)
        bad = _read_narrow(z, start, rows, unit, scale, x, top, e, kept)
        if bad >= 0:
            return start + bad
        for b in range(rows, ROWS):
            kept[_INVERSE, b] = ZERO
        _add_rows(
            z, start, rows, unit, kept, threshold, totals, confidence, histogram, tails, accepted
        )
        _add_narrow(e, kept, tails[1], tails[2])
    return -1


@kernel
def wide_served_sums(z: Any, unit: Any, scale: Any, threshold: Any, bins: int, vector: Any) -> int:
    """`kernels.served_sums` for many classes."""
    n, k = z.shape
    totals, confidence, histogram, tails, accepted = _parts(vector, bins, k)
    e, kept = np.zeros((_TOGETHER, k), np.float32), np.zeros((8, _TOGETHER), np.float32)
    for start in range(0, n, _TOGETHER):
        rows = min(_TOGETHER, n - start)
        bad = _read_wide(z, start, rows, unit, scale, e, kept)
        if bad >= 0:
            return start + bad
        for b in range(rows, _TOGETHER):
            kept[_INVERSE, b] = ZERO
        _add_rows(
            z, start, rows, unit, kept, threshold, totals, confidence, histogram, tails, accepted
        )
        _add_wide(e, kept, tails[1], tails[2])
    return -1
