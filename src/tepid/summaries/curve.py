"""Curve: the loss and the confidence of rows along a lattice of temperatures."""

import dataclasses
import math
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from tepid import errors, kernels, store, validation
from tepid.summaries.summary import add, equal, scale
from tepid.summaries.tails import TOLERANCE
from tepid.validation import Array, Float64, Int64

_NO_LABELS = np.empty(0, np.int64)
# Below every positive float32 softmax: a class with threshold 0 draws in whoever is not masked.
_POSITIVE = 1e-44


@dataclass(frozen=True)
class Lattice:
    r"""Nodes $\beta = 1/T$ in chains of doublings: `starts[r] * 2**m` for m < `lengths[r]`.

    Doubling $\beta$ squares an exponential, so a chain costs one exponential per logit. All windows
    with the same number of nodes per octave are parts of one fixed lattice, $2^{q/R}$.
    """

    starts: tuple[float, ...]
    lengths: tuple[int, ...]

    @classmethod
    def window(cls, low: int = -5, high: int = 5, per_octave: int = 2) -> "Lattice":
        """The nodes from 2**low to 2**high, the default ten octaves around T = 1."""
        if high <= low or per_octave < 1:
            raise errors.InputError(f"a window must span at least one octave, got {low} to {high}")
        starts = tuple(_single(2.0 ** (low + r / per_octave)) for r in range(per_octave))
        return cls(starts, (high - low + 1,) + (high - low,) * (per_octave - 1))

    @classmethod
    def point(cls, temperature: float) -> "Lattice":
        """One node."""
        return cls((_single(1.0 / temperature),), (1,))

    @property
    def nodes(self) -> Float64:
        """Every node, rising."""
        return _nodes(self)

    @property
    def per_octave(self) -> int:
        """How many nodes lie between one and its double."""
        return len(self.starts)

    @property
    def unit(self) -> float:
        """The power of two at or just below the first node."""
        return 2.0 ** math.floor(math.log2(self.starts[0]))


@lru_cache(maxsize=64)
def _nodes(lattice: Lattice) -> Float64:
    octaves = 2.0 ** np.arange(max(lattice.lengths))[:, None]
    nodes = np.array((octaves * lattice.starts).reshape(-1)[: sum(lattice.lengths)])
    nodes.flags.writeable = False  # every lattice of this shape shares it
    return nodes


def _single(beta: float) -> float:
    # The kernels scale in float32; a node is where they really evaluate.
    return float(np.float32(beta))


@dataclass(frozen=True, eq=False)
class Curve:
    r"""Sums over rows at every node of a lattice, for several weightings of the same rows.

    A weighting is a set of (row, class) pairs: for each row of `thresholds` the pairs with
    $S_{ik} \ge \theta_k$, paper eq. 6, then, if labeled, the pairs $(i, y_i)$. With $a_i$ the
    weight of row i's pairs, $C$ the sum of $d_{ik} = z_{ik} - \max_k z_{ik}$ over pairs and
    $\beta = 1/T$,

    $L(\beta) = \sum_i a_i \log \sum_j e^{\beta d_{ij}} - \beta C$, convex in $\beta$.

    Row moments are float32 and do not depend on other rows; sums are float64. The value at a node
    carries a relative error below 1e-5, and below 1e-6 within six octaves of the first. For the
    confidence that holds for $1 - \max_k p$, so the mean confidence has that error absolutely.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = (
        "classes",
        "labeled",
        "thresholds",
        "starts",
        "lengths",
        "bins",
    )

    classes: int
    labeled: bool
    thresholds: Float64
    starts: Float64
    lengths: Int64
    bins: int
    rows: float
    weight: float
    weight_square: float  # the sum of squared weights, for how many rows they are worth
    softest: float  # the sum of confidences as T grows without bound: 1 / classes not masked
    sharpest: float  # the same as T shrinks to zero: 1 / number of tied maxima
    spread: float  # the sum over rows of the mean of d
    pairs: Float64  # per weighting: the sum of a
    pull: Float64  # C
    flat: Float64  # the sum of a * mean of d, so that L'(0) = flat - pull
    loss: Float64  # per weighting and node: L
    slope: Float64  # L'
    curvature: Float64  # L''
    square: Float64  # the sum over rows of the squared part in L'
    confidence: Float64  # per node: the sum of max_k p
    confidence_slope: Float64  # its first derivative by beta
    confidence_curvature: Float64  # its second
    confidence_square: Float64  # the sum of (max_k p)²
    histogram: Float64  # per node, (weight, confidence, correct) by bin of confidence

    @classmethod
    def of(
        cls,
        logits: Any,
        *,
        lattice: Lattice | None = None,
        thresholds: Any = None,
        labels: Any = None,
        sample_weight: Any = None,
        bins: int = 15,
    ) -> "Curve":
        """The summary of one batch of logits (n, k); by default over ten octaves around T = 1.

        `thresholds` is one array (k,) or several (w, k), as `Tails.thresholds` gives them.
        """
        logits = validation.as_array(logits)
        z = validation.as_kernel_input(logits)
        n, k = z.shape
        u = validation.weight_column(sample_weight, n)
        y = _NO_LABELS if labels is None else validation.label_column(labels, n, k, weight=u)
        empty = cls.zero(
            k, lattice=lattice, thresholds=thresholds, labeled=labels is not None, bins=bins
        )
        theta, *nodes = kernel_arguments(empty)
        filled = tuple(np.zeros(shape) for shape in kernel_shapes(empty))
        bad = kernels.curve_sums(z, u, theta, y, *nodes, *filled)
        if bad >= 0:
            raise validation.unusable(logits, bad)
        _refuse_masked(z, y, u)
        return from_kernel_sums(empty, *filled)

    @classmethod
    def zero(
        cls,
        classes: int,
        *,
        lattice: Lattice | None = None,
        thresholds: Any = None,
        labeled: bool = False,
        bins: int = 15,
    ) -> "Curve":
        """The summary of no rows."""
        bins = validation.check_bins(bins, least=0)
        lattice = lattice or Lattice.window()
        theta = np.zeros((0, classes)) if thresholds is None else np.atleast_2d(thresholds)
        if theta.shape[1] != classes:
            raise errors.InputError(
                f"thresholds must have one entry per class, got {theta.shape[1]} for {classes}"
            )
        kinds, nodes = len(theta) + labeled, len(lattice.nodes)
        per_weighting, per_node = np.zeros(kinds), np.zeros(nodes)
        on_curve = np.zeros((kinds, nodes))
        return cls(
            classes=classes, labeled=labeled, thresholds=np.asarray(theta, np.float64),
            starts=np.array(lattice.starts), lengths=np.array(lattice.lengths), bins=bins,
            rows=0.0, weight=0.0, weight_square=0.0, softest=0.0, sharpest=0.0, spread=0.0,
            pairs=per_weighting, pull=per_weighting, flat=per_weighting,
            loss=on_curve, slope=on_curve, curvature=on_curve, square=on_curve,
            confidence=per_node, confidence_slope=per_node, confidence_curvature=per_node,
            confidence_square=per_node, histogram=np.zeros((nodes, 3, bins)),
        )  # fmt: skip

    @property
    def lattice(self) -> Lattice:
        """Where the curve is known."""
        return Lattice(tuple(self.starts.tolist()), tuple(self.lengths.tolist()))

    def nearest_node(self, temperature: float) -> int:
        """The number of the node nearest to a temperature."""
        return int(np.abs(np.log(self.lattice.nodes * temperature)).argmin())

    def check(self) -> None:
        """Refuse sums that no rows can have, as a damaged file may hold them."""
        store.check_count("classes", self.classes, 2)
        store.check_count("bins", self.bins)
        theta = self.thresholds
        store.check_numbers("thresholds", theta, (*theta.shape[:1], self.classes), -1e30, 1e30)
        _check_lattice(self.starts, self.lengths)
        kinds, nodes = len(theta) + self.labeled, sum(self.lengths.tolist())
        for name in ("rows", "weight", "weight_square", "softest", "sharpest"):
            store.check_numbers(name, getattr(self, name), (), 0.0)
        store.check_numbers("spread", self.spread, (), high=0.0)
        store.check_numbers("pairs", self.pairs, (kinds,), 0.0)
        store.check_numbers("pull", self.pull, (kinds,), high=0.0)
        store.check_numbers("flat", self.flat, (kinds,), high=0.0)
        for name in ("loss", "slope", "curvature"):
            store.check_numbers(name, getattr(self, name), (kinds, nodes))
        store.check_numbers("square", self.square, (kinds, nodes), 0.0)
        most = self.weight * (1 + 1e-6)
        for name in ("confidence", "confidence_square"):
            store.check_numbers(name, getattr(self, name), (nodes,), 0.0, most)
        store.check_numbers("confidence_slope", self.confidence_slope, (nodes,))
        store.check_numbers("confidence_curvature", self.confidence_curvature, (nodes,))
        store.check_numbers("histogram", self.histogram, (nodes, 3, self.bins), 0.0, most)
        if bool(self.weight) != bool(self.weight_square) or (self.weight and not self.rows):
            raise errors.InputError("rows, weight and weight_square must be zero together")

    __add__ = add
    __mul__ = __rmul__ = scale
    __eq__ = equal

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to `.npz`."""
        store.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Curve":
        """Return what `save` wrote; raises `InputError` if the file is damaged."""
        return store.load(path, {cls: cls.check})


def _check_lattice(starts: Float64, lengths: Int64) -> None:
    """Refuse chains that do not interleave to rising nodes."""
    store.check_numbers("starts", starts, (starts.size,), 1e-45, 1e38)
    store.check_numbers("lengths", lengths, starts.shape, 1, 300)
    rising = (np.diff(starts) > 0).all() and len(starts) and starts[-1] < 2 * starts[0]
    if not rising or (np.diff(lengths) > 0).any() or lengths[0] - lengths[-1] > 1:
        raise errors.InputError("starts and lengths must make a lattice, got others")


def _refuse_masked(z: Any, labels: Int64, u: Float64) -> None:
    if not len(labels):
        return
    # Of a tensor elsewhere, one number per row comes back.
    chosen = validation.to_host(z[np.arange(len(labels)), labels])
    masked = np.isneginf(chosen) & (u > 0)
    if masked.any():
        row = int(masked.argmax())
        got = f"class {labels[row]}, whose logit is -inf,"
        raise errors.RowError("labels", "name a class that is not masked", got, row)


def kernel_arguments(curve: Curve) -> tuple[Any, ...]:
    """What a kernel is told of a curve: thresholds, unit, scales and lengths of its chains."""
    unit = curve.lattice.unit
    theta = np.maximum(curve.thresholds * (1 - TOLERANCE), _POSITIVE).astype(np.float32)
    return theta, np.float32(unit), (curve.starts / unit).astype(np.float32), curve.lengths


def kernel_shapes(curve: Curve) -> tuple[tuple[int, ...], ...]:
    """The shapes of the arrays that a kernel adds to."""
    kinds, nodes = curve.slope.shape
    return (6,), (kinds, 4), (nodes, kinds, 5), (nodes, 4), (nodes, 3, curve.bins)


def from_kernel_sums(
    empty: Curve, totals: Array, per: Array, along: Array, doubt: Array, histogram: Array
) -> Curve:
    """The curve of what a kernel has added."""
    # The kernels measure distances in x = unit * d and confidence as doubt, 1 - max p, which keeps
    # the digits of a confident network.
    unit = empty.lattice.unit
    rows, weight, softest, sharpest, spread, weight_square = totals.tolist()
    pairs, pull, pull2, flat = (per / (1.0, unit, unit**2, unit)).T
    powers = (1.0, unit, unit**2, unit**2, unit**2)
    log, slope, curvature, square, cross = (along / powers).transpose(2, 1, 0)
    c0, c1, c2, c3 = (doubt / (1.0, unit, unit**2, 1.0)).T
    column = pull[:, None]
    return dataclasses.replace(
        empty,
        rows=rows,
        weight=weight,
        weight_square=weight_square,
        softest=softest,
        sharpest=sharpest,
        spread=spread / unit,
        pairs=pairs,
        pull=pull,
        flat=flat,
        loss=log - empty.lattice.nodes * column,
        slope=slope - column,
        curvature=curvature,
        square=np.maximum(square - 2 * cross + pull2[:, None], 0.0),
        confidence=weight - c0,
        confidence_slope=c1,
        confidence_curvature=c2,
        confidence_square=weight - 2 * c0 + c3,
        histogram=histogram,
    )
