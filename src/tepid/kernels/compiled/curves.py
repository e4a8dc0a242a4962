"""Sums of a `Curve`.

A kernel adds into arrays that the caller owns and returns the first invalid row, or -1.
"""

from typing import Any

import numpy as np

from tepid.kernels.compiled import tiles
from tepid.kernels.compiled.elementary import f32, kernel, log1p32, step
from tepid.kernels.compiled.scores import bin_of
from tepid.kernels.compiled.tiles import ABSENT, GONE, ONE, ROWS, ZERO


@step
def _shares(r0: Any, share: Any, log: Any) -> None:
    for b in range(ROWS):
        r = r0[b]
        r = r if r >= GONE else ZERO
        share[b] = ONE / (ONE + r)
        log[b] = log1p32(r)


@step
def _means(r0: Any, r1: Any, share: Any) -> None:
    for b in range(ROWS):
        r1[b] = r1[b] * share[b] if r0[b] >= GONE else ZERO


@step
def _variances(r0: Any, r2: Any, mean: Any, share: Any) -> None:
    for b in range(ROWS):
        r2[b] = max(r2[b] * share[b] - mean[b] * mean[b], ZERO) if r0[b] >= GONE else ZERO


@step
def _add_confidence(r0: Any, mean: Any, variance: Any, share: Any, u: Any, out: Any) -> None:
    doubt, slope, bend, square = 0.0, 0.0, 0.0, 0.0
    for b in range(ROWS):
        p = np.float64(share[b])
        m = np.float64(mean[b])
        d = p * (r0[b] if r0[b] >= GONE else ZERO)
        doubt += u[b] * d
        slope -= u[b] * p * m
        bend += u[b] * p * (m * m - variance[b])
        square += u[b] * d * d
    out[0] += doubt
    out[1] += slope
    out[2] += bend
    out[3] += square


@step
def _add_pairs(log: Any, mean: Any, variance: Any, count: Any, pull: Any, out: Any) -> None:
    loss, slope, bend, square, cross = 0.0, 0.0, 0.0, 0.0, 0.0
    for b in range(ROWS):
        a = count[b]
        g = a * mean[b]
        loss += a * log[b]
        slope += g
        bend += a * variance[b]
        square += g * g
        cross += g * pull[b]
    out[0] += loss
    out[1] += slope
    out[2] += bend
    out[3] += square
    out[4] += cross


@step
def _add_bins(share: Any, u: Any, correct: Any, rows: int, out: Any) -> None:
    bins = out.shape[1]
    for b in range(rows):
        p = np.float64(share[b])
        i = bin_of(p, bins)
        out[0, i] += u[b]
        out[1, i] += u[b] * p
        out[2, i] += u[b] * correct[b]


@step
def _weighted(u: Any, mean: Any, count: Any, pull: Any, a: Any, c: Any, out: Any) -> None:
    pairs, pulls, squares, flat = 0.0, 0.0, 0.0, 0.0
    for b in range(ROWS):
        a[b] = u[b] * count[b]
        c[b] = u[b] * pull[b]
        pairs += u[b] * count[b]
        pulls += u[b] * pull[b]
        squares += (u[b] * pull[b]) * (u[b] * pull[b])
        flat += u[b] * count[b] * mean[b]
    out[0] += pairs
    out[1] += pulls
    out[2] += squares
    out[3] += flat


@step
def _add_totals(
    u: Any, shape: Any, mean: Any, single: Any, pairs: Any, rows: int, totals: Any, per: Any
) -> None:
    """Add what does not depend on the node, and turn float32 pairs into weighted float64 ones."""
    weight, soft, sharp, spread, square = 0.0, 0.0, 0.0, 0.0, 0.0
    for b in range(ROWS):
        mean[b] = shape[2, b] / np.float64(shape[1, b])
        weight += u[b]
        square += u[b] * u[b]
        soft += u[b] / shape[1, b]
        sharp += u[b] / shape[0, b]
        spread += u[b] * mean[b]
    totals[0] += rows
    totals[1] += weight
    totals[2] += soft
    totals[3] += sharp
    totals[4] += spread
    totals[5] += square
    for w in range(single.shape[0]):
        _weighted(u, mean, single[w, 0], single[w, 1], pairs[w, 0], pairs[w, 1], per[w])


@step
def _narrow_tile(
    z: Any, start: int, rows: int, unit: Any, thresholds: Any, labels: Any, scales: Any,
    lengths: Any, x: Any, e: Any, best: Any, shape: Any, single: Any, moments: Any,
) -> int:  # fmt: skip
    top = np.empty(ROWS, np.float32)
    bad = tiles.narrow_read(z, start, rows, x, top, best)
    if bad >= 0:
        return bad
    tiles.narrow_center(x, z.shape[1], top, unit, shape)
    if thresholds.shape[0]:
        total = np.empty(ROWS, np.float32)
        tiles.narrow_normalize(x, z.shape[1], ONE / unit, e, total)
        tiles.narrow_members(x, e, total, thresholds, single)
    if labels.shape[0]:
        for b in range(rows):
            single[-1, 0, b] = ONE
            single[-1, 1, b] = x[labels[start + b], b]
    for b in range(rows):
        x[int(best[b]), b] = ABSENT
    tiles.narrow_moments(x, scales, lengths, e, moments)
    return -1


@step
def _wide_tile(
    z: Any, start: int, rows: int, unit: Any, thresholds: Any, labels: Any, scales: Any,
    lengths: Any, x: Any, e: Any, best: Any, shape: Any, single: Any, moments: Any,
) -> int:  # fmt: skip
    for b in range(rows):
        row = z[start + b]
        top, first = tiles.peak(row)
        if first < 0:
            return b
        best[b] = f32(first)
        tiles.wide_read(row, top, unit, x[0], b, shape)
        if thresholds.shape[0]:
            total = tiles.wide_normalize(x[0], ONE / unit, e[0])
            tiles.wide_members(x[0], e[0], total, thresholds, b, single)
        if labels.shape[0]:
            single[-1, 0, b] = ONE
            single[-1, 1, b] = x[0, labels[start + b]]
        x[0, first] = ABSENT
        tiles.wide_moments(x[0], x[1], scales, lengths, e[0], b, moments)
    return -1


@step
def _add_tile(
    rows: int, start: int, weight: Any, labels: Any, best: Any, shape: Any, single: Any,
    moments: Any, u: Any, correct: Any, mean_x: Any, pairs: Any, share: Any, log: Any,
    totals: Any, per: Any, curves: Any, confidence: Any, histogram: Any,
) -> None:  # fmt: skip
    for b in range(ROWS):
        u[b] = weight[start + b] if b < rows else 0.0
    if labels.shape[0]:
        for b in range(rows):
            correct[b] = 1.0 if best[b] == labels[start + b] else 0.0
    _add_totals(u, shape, mean_x, single, pairs, rows, totals, per)
    for q in range(histogram.shape[0]):
        r0, mean, variance = moments[q, 0], moments[q, 1], moments[q, 2]
        _shares(r0, share, log)
        _means(r0, mean, share)
        _variances(r0, variance, mean, share)
        _add_confidence(r0, mean, variance, share, u, confidence[q])
        for w in range(per.shape[0]):
            _add_pairs(log, mean, variance, pairs[w, 0], pairs[w, 1], curves[q, w])
        if histogram.shape[2]:
            _add_bins(share, u, correct, rows, histogram[q])


@kernel
def narrow_curve_sums(
    z: Any, weight: Any, thresholds: Any, labels: Any, unit: Any, scales: Any, lengths: Any,
    totals: Any, per: Any, curves: Any, confidence: Any, histogram: Any,
) -> int:  # fmt: skip
    """`kernels.curve_sums` for few classes."""
    n, k = z.shape
    width = k + k % 2
    x = np.full((width, ROWS), ABSENT)
    e = np.zeros((width, ROWS), np.float32)
    nodes, kinds = histogram.shape[0], per.shape[0]
    best = np.zeros(ROWS, np.float32)
    shape = np.ones((3, ROWS), np.float32)
    single = np.zeros((kinds, 2, ROWS), np.float32)
    pairs = np.zeros((kinds, 2, ROWS))
    share, log = np.zeros(ROWS, np.float32), np.zeros(ROWS, np.float32)
    moments = np.zeros((nodes + 2 * scales.shape[0], 3, ROWS), np.float32)
    u, correct, mean_x = np.zeros(ROWS), np.zeros(ROWS), np.zeros(ROWS)
    for start in range(0, n, ROWS):
        rows = min(ROWS, n - start)
        bad = _narrow_tile(
            z, start, rows, unit, thresholds, labels, scales, lengths, x, e, best, shape, single,
            moments,
        )  # fmt: skip
        if bad >= 0:
            return start + bad
        _add_tile(
            rows, start, weight, labels, best, shape, single, moments, u, correct, mean_x, pairs,
            share, log, totals, per, curves, confidence, histogram,
        )  # fmt: skip
    return -1


@kernel
def wide_curve_sums(
    z: Any, weight: Any, thresholds: Any, labels: Any, unit: Any, scales: Any, lengths: Any,
    totals: Any, per: Any, curves: Any, confidence: Any, histogram: Any,
) -> int:  # fmt: skip
    """`kernels.curve_sums` for many classes."""
    n, k = z.shape
    width = (k + 15) // 16 * 16
    x = np.full((2, width), ABSENT)
    e = np.zeros((1, width), np.float32)
    nodes, kinds = histogram.shape[0], per.shape[0]
    best = np.zeros(ROWS, np.float32)
    shape = np.ones((3, ROWS), np.float32)
    single = np.zeros((kinds, 2, ROWS), np.float32)
    pairs = np.zeros((kinds, 2, ROWS))
    share, log = np.zeros(ROWS, np.float32), np.zeros(ROWS, np.float32)
    moments = np.zeros((nodes + 2 * scales.shape[0], 3, ROWS), np.float32)
    u, correct, mean_x = np.zeros(ROWS), np.zeros(ROWS), np.zeros(ROWS)
    for start in range(0, n, ROWS):
        rows = min(ROWS, n - start)
        bad = _wide_tile(
            z, start, rows, unit, thresholds, labels, scales, lengths, x, e, best, shape, single,
            moments,
        )  # fmt: skip
        if bad >= 0:
            return start + bad
        _add_tile(
            rows, start, weight, labels, best, shape, single, moments, u, correct, mean_x, pairs,
            share, log, totals, per, curves, confidence, histogram,
        )  # fmt: skip
    return -1
