"""Sums of `Tails`, `Curve` and `Monitor` in array code and float64, one block of rows at a time.

It serves NumPy arrays where nothing is compiled, and arrays that NumPy cannot read, such as tensors
on a GPU, which are summed where they live; only sums come back. It uses the names that NumPy, torch
and the array API share.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tepid.kernels.limits import ABSENT, FARTHEST, FEW_CLASSES, UNDERFLOW
from tepid.validation import Array, Float64, Int64, namespace, to_host

# A block of float64 with its squares and exponentials stays in the second-level cache of a
# processor, and so does what is kept per row and node. Another device takes few large blocks.
_BLOCK, _ROWS, _FOREIGN_BLOCK = 1 << 15, 1 << 11, 1 << 22


class _Block(NamedTuple):
    """Rows in float64: (classes, rows) if there are few classes, which makes long vectors of rows.

    Otherwise (rows, classes). `axis` is that of the classes.
    """

    xp: Any
    start: int
    d: Any  # z - max z; -inf for a masked class
    best: Any  # the first class at the maximum
    axis: int

    def along(self, row_values: Any) -> Any:
        """Values per row, shaped to meet the block."""
        return row_values[None, :] if self.axis == 0 else row_values[:, None]

    def per_class(self, values: Any) -> Any:
        """Values per class, shaped to meet the block."""
        return values[:, None] if self.axis == 0 else values[None, :]

    def add(self, values: Any) -> Any:
        """The sum over the classes."""
        if self.xp is np:
            return np.add.reduce(values, axis=self.axis)
        return self.xp.sum(values, axis=self.axis)

    def dot(self, a: Any, b: Any) -> Any:
        """The sum of products over the classes."""
        if self.xp is np:
            return np.einsum("kb,kb->b" if self.axis == 0 else "bk,bk->b", a, b)
        return self.add(a * b)

    def chosen(self, classes: Any) -> Any:
        """Where each row's class stands."""
        every = self.xp.arange(self.d.shape[self.axis], **_device(self.d))
        return self.per_class(every) == self.along(classes)

    def softmax(self) -> tuple[Any, Any]:
        """exp(d), which underflows where that of the compiled kernels does, and its sum."""
        e = self.xp.exp(self.d)
        e = self.xp.where(self.d > UNDERFLOW, e, 0.0)
        return e, self.add(e)


def _blocks(z: Any) -> Iterator[_Block | int]:
    """The blocks of a batch, and then the first row that cannot be used, or -1."""
    xp = namespace(z)
    n, k = int(z.shape[0]), int(z.shape[1])
    size = max(1, min(_BLOCK // k, _ROWS) if xp is np else _FOREIGN_BLOCK // k)
    for start in range(0, n, size):
        rows = z[start : start + size]
        best = xp.argmax(rows, axis=1)
        axis = 0 if k <= FEW_CLASSES else 1
        d = _as_double(xp, rows.T if axis == 0 else rows)
        top = xp.amax(d, axis=axis) if hasattr(xp, "amax") else xp.max(d, axis=axis)
        # NaN and +inf make the maximum so, and a row of nothing but -inf has that maximum.
        bad = ~xp.isfinite(top)
        if bool(xp.any(bad)):
            yield start + int(xp.argmax(1.0 * bad))
            return
        yield _Block(xp, start, d - (top[None, :] if axis == 0 else top[:, None]), best, axis)
    yield -1


def _as_double(xp: Any, z: Any) -> Any:
    if xp is np:
        return z.astype(np.float64, order="C")
    return z.double() if hasattr(z, "double") else xp.asarray(z, dtype=xp.float64)


def tail_sums(z: Any, weight: Float64, out: Float64) -> int:
    """As `kernels.tail_sums`."""
    for block in _blocks(z):
        if isinstance(block, int):
            return block
        u = weight[block.start : block.start + len(block.best)]
        e, total = block.softmax()
        _add_tails(block, e, total, u, out)
    return -1


def _add_tails(block: _Block, e: Any, total: Any, u: Float64, out: Float64) -> None:
    xp = block.xp
    share = 1.0 / total
    hit = block.chosen(block.best)
    s = xp.where(hit, 0.0, e) * block.along(share)
    hit, s = (hit, s) if block.axis == 0 else (hit.T, s.T)
    weights = _like(xp, s, u)
    predicted = xp.ones_like(s) * hit
    out[0] += to_host(_product(predicted, weights[None]))[:, 0]
    out[1] += to_host(_product(s, weights[None]))[:, 0]
    out[2] += to_host(_product(s * s, weights[None]))[:, 0]
    out[3] += to_host(_product(predicted, (weights * share)[None]))[:, 0]


def curve_sums(
    z: Any, weight: Float64, thresholds: Array, labels: Int64, unit: Any, scales: Array,
    lengths: Array, totals: Float64, per: Float64, curves: Float64, confidence: Float64,
    histogram: Float64,
) -> int:  # fmt: skip
    """As `kernels.curve_sums`."""
    for block in _blocks(z):
        if isinstance(block, int):
            return block
        here = slice(block.start, block.start + len(block.best))
        u, y = _like(block.xp, block.d, weight[here]), labels[here]
        x, mean = _distances(block, float(unit), u, totals)
        count, pull = _pairs(block, x, thresholds, y)
        a, c = u * count, u * pull
        per += _columns(block.xp, (a, c, c * c, a * mean))
        moments = _moments(block, x, [float(scale) for scale in scales], lengths.tolist())
        nodes = _Nodes.of(block.xp, *moments)
        confidence += nodes.confidence(u)
        if len(per):
            curves += nodes.pairs(a, c)
        if histogram.shape[2]:
            right = to_host(block.best) == y if len(labels) else np.zeros(len(block.best))
            _add_bins(to_host(nodes.share), weight[here], right, histogram)
    return -1


def _distances(block: _Block, unit: float, u: Any, totals: Float64) -> tuple[Any, Any]:
    """X = unit * d, `ABSENT` for a masked class, and its mean over the others; adds the totals."""
    xp, d = block.xp, block.d
    x = d * unit
    x = xp.where(x > FARTHEST, x, FARTHEST)
    live = d > -float("inf")
    ties = block.add(1.0 * (d == 0))
    if bool(xp.all(live)):
        classes, mean = 0.0 * ties + d.shape[block.axis], block.add(x) / d.shape[block.axis]
    else:
        classes = block.add(1.0 * live)
        mean = block.add(xp.where(live, x, 0.0)) / classes
        x = xp.where(live, x, ABSENT)
    columns = (1.0 + 0.0 * u, u, u / classes, u / ties, u * mean, u * u)
    totals += _columns(xp, columns)
    return x, mean


def _pairs(block: _Block, x: Any, thresholds: Array, labels: Int64) -> tuple[Any, Any]:
    """Per weighting and row, the number of pairs and the sum of x over them."""
    xp = block.xp
    counts, pulls = [], []
    if len(thresholds):
        e, total = block.softmax()
        for theta in _like(xp, e, np.asarray(thresholds, np.float64)):
            inside = e >= block.per_class(theta) * block.along(total)
            counts.append(block.add(1.0 * inside))
            pulls.append(block.add(xp.where(inside, x, 0.0)))
    if len(labels):
        own = block.chosen(_like(xp, x, labels))
        counts.append(block.add(1.0 * own))
        pulls.append(block.add(xp.where(own, x, 0.0)))
    if not counts:
        none = _like(xp, x, np.empty((0, len(block.best))))
        return none, none
    return xp.stack(counts), xp.stack(pulls)


def _moments(
    block: _Block, x: Any, scales: list[float], lengths: list[int]
) -> tuple[Any, Any, Any]:
    """Σ exp, Σ x exp and Σ x² exp over the classes other than the best, each (nodes, rows).

    Node m of chain r has the scale `scales[r] * 2**m`, so its exponentials are the squares of those
    of the node before it.
    """
    x = block.xp.where(block.chosen(block.best), ABSENT, x)
    squares = x * x
    r0, r1, r2 = (
        block.xp.empty((sum(lengths), len(block.best)), dtype=x.dtype, **_device(x))
        for _ in range(3)
    )
    for r, (scale, length) in enumerate(zip(scales, lengths, strict=True)):
        e = block.xp.exp(x * scale)
        for m in range(length):
            if m:
                e *= e
            q = m * len(scales) + r
            r0[q], r1[q], r2[q] = block.add(e), block.dot(e, x), block.dot(e, squares)
    return r0, r1, r2


class _Nodes(NamedTuple):
    """Per node and row: the confidence, 1 minus it, and the mean and variance of x."""

    xp: Any
    odds: Any
    share: Any
    doubt: Any
    mean: Any
    square: Any  # of the mean
    variance: Any

    @classmethod
    def of(cls, xp: Any, r0: Any, r1: Any, r2: Any) -> "_Nodes":
        # Without the maximum itself in r0, the doubt of a sure row keeps its digits.
        share = 1.0 / (1.0 + r0)
        mean = r1 * share
        square = mean * mean
        variance = r2 * share
        variance -= square
        variance = xp.where(variance > 0, variance, 0.0)
        return cls(xp, r0, share, r0 * share, mean, square, variance)

    def confidence(self, u: Any) -> Float64:
        """Doubt, slope, curvature and squared doubt per node."""
        u = u[None]
        values = (
            _product(self.doubt, u),
            -_product(self.share * self.mean, u),
            _product(self.share * (self.square - self.variance), u),
            _product(self.doubt * self.doubt, u),
        )
        return np.asarray(to_host(self.xp.stack(values))[:, :, 0].T)

    def pairs(self, a: Any, c: Any) -> Float64:
        """The sums of each weighting per node, (nodes, weightings, 5)."""
        values = (
            _product(self.xp.log1p(self.odds), a),
            _product(self.mean, a),
            _product(self.variance, a),
            _product(self.square, a * a),
            _product(self.mean, a * c),
        )
        return np.moveaxis(to_host(self.xp.stack(values)), 0, 2)


def _add_bins(share: Float64, u: Float64, right: Array, histogram: Float64) -> None:
    nodes, _, bins = histogram.shape
    where = bins_of(share, bins) + bins * np.arange(nodes)[:, None]
    where = where.reshape(-1)
    weight = np.broadcast_to(u, share.shape)
    for place, values in enumerate((weight, weight * share, weight * right)):
        counts = np.bincount(where, values.reshape(-1), nodes * bins)
        histogram[:, place] += counts.reshape(nodes, bins)


def bins_of(p: Float64, bins: int) -> Int64:
    """As `kernels.bins_of`, for an array of any shape."""
    b = np.clip(np.ceil(p * bins) - 1, 0, bins - 1)
    # A product may round to the other side of an edge.
    b -= (b > 0) & (p <= b / bins)
    b += (b < bins - 1) & (p > (b + 1) / bins)
    return np.asarray(b, np.int64)


def accepted_sums(z: Any, unit: Any, scale: Any, threshold: Any, accepted: Float64) -> None:
    """As `kernels.accepted_sums`."""
    for block in _blocks(z):
        if isinstance(block, int):
            return
        share = 1.0 / block.add(block.xp.exp(block.d * (float(unit) * float(scale))))
        accepted += _accepted(block.xp, share, threshold)


def _accepted(xp: Any, share: Any, threshold: Any) -> Any:
    chosen = 1.0 * (share >= float(threshold))
    return _columns(xp, (chosen, chosen * share))


def served_sums(z: Any, unit: Any, scale: Any, threshold: Any, bins: int, vector: Float64) -> int:
    """As `kernels.served_sums`."""
    k = int(z.shape[1])
    totals, confidence = vector[:6], vector[6:10]
    histogram = vector[10 : 10 + 3 * bins].reshape(1, 3, bins)
    tails = vector[10 + 3 * bins : 10 + 3 * bins + 4 * k].reshape(4, k)
    for block in _blocks(z):
        if isinstance(block, int):
            return block
        ones = np.ones(len(block.best))
        u = _like(block.xp, block.d, ones)
        x, _ = _distances(block, float(unit), u, totals)
        _add_tails(block, *block.softmax(), ones, tails)
        nodes = _Nodes.of(block.xp, *_moments(block, x, [float(scale)], [1]))
        confidence += nodes.confidence(u)[0]
        _add_bins(to_host(nodes.share), ones, 0.0 * ones, histogram)
        vector[-2:] += _accepted(block.xp, nodes.share[0], threshold)
    return -1


def _product(values: Any, weights: Any) -> Any:
    """The matrix product (m, rows) by (w, rows)."""
    # BLAS would start threads of its own beside those of the engine.
    return (
        np.einsum("mb,wb->mw", values, weights)
        if isinstance(values, np.ndarray)
        else (values @ weights.T)
    )


def _columns(xp: Any, rows: tuple[Any, ...]) -> Any:
    """The sums of several vectors, or of matrices (w, rows) as (w, sums), in one transfer."""
    return to_host(xp.sum(xp.stack(rows), axis=-1)).T


def _like(xp: Any, z: Any, values: Array) -> Any:
    return values if xp is np else xp.asarray(values, **_device(z))


def _device(z: Any) -> dict[str, Any]:
    return {"device": z.device} if hasattr(z, "device") and not isinstance(z, np.ndarray) else {}
