"""Sums over served rows, in one vector: adding and forgetting are one operation each."""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from tepid import arrays, curve
from tepid.arrays import Float64
from tepid.curve import Curve
from tepid.kernels import reference
from tepid.kernels.curves import curve_sums
from tepid.kernels.served import served_sums
from tepid.kernels.tails import tail_sums
from tepid.lattice import Lattice
from tepid.tails import Tails

# Octaves to either side of the reference's T in which another one is looked for.
REACH = 2
_NO_LABELS = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Layout:
    """Which sums are kept, and where they stand in the vector.

    One node, the reference's temperature, or with thresholds (1, k) the nodes up to `REACH` octaves
    around it, so that a temperature can be read off; thresholds (0, k) ask for none.
    """

    temperature: float
    thresholds: Float64
    bins: int

    @cached_property
    def empty(self) -> Curve:
        """The curve of no rows."""
        point = Lattice.point(self.temperature)
        if len(self.thresholds):
            # Doubling is exact, so that the reference's temperature is one of the nodes.
            point = Lattice((point.starts[0] / 2**REACH,), (2 * REACH + 1,))
        k = self.thresholds.shape[1]
        return Curve.zero(k, lattice=point, thresholds=self.thresholds, bins=self.bins)

    @cached_property
    def node(self) -> int:
        """The place of the reference's temperature among the nodes."""
        return REACH if len(self.thresholds) else 0

    @cached_property
    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        return (*curve.kernel_shapes(self.empty), (4, self.empty.classes))

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(math.prod(shape) for shape in self._shapes))

    @cached_property
    def _arguments(self) -> tuple[Any, ...]:
        return curve.kernel_arguments(self.empty)

    @property
    def size(self) -> int:
        """The length of the vector."""
        return self._ends[-1]

    def views(self, vector: Float64) -> list[Float64]:
        """The arrays that the kernels of `Curve` and, last, of `Tails` add to."""
        starts = (0, *self._ends[:-1])
        parts = zip(starts, self._ends, self._shapes, strict=True)
        return [vector[start:end].reshape(shape) for start, end, shape in parts]

    def zero(self) -> "Sums":
        """The sums of no rows."""
        return Sums(self, np.zeros(self.size), 0.0)

    def of(self, logits: Any) -> "Sums":
        """The sums of a block of logits (n, k), which `arrays.as_array` has passed."""
        n = int(logits.shape[0])
        vector = np.zeros(self.size)
        if not n:
            return Sums(self, vector, 0.0)
        if arrays.is_foreign(logits):
            self._add_foreign(logits, vector)
            return Sums(self, vector, float(n))
        bad = self._add(arrays.block(logits), vector)
        if bad >= 0:
            raise arrays.unusable(logits, bad)
        return Sums(self, vector, float(n))

    def _add(self, z: Any, vector: Float64) -> int:
        """Add a block to the vector, and return the first row that cannot be used, or -1."""
        theta, unit, scales, lengths = self._arguments
        if not len(self.thresholds):
            return int(served_sums(z, unit, scales[0], self.bins, vector))
        *curves, tails = self.views(vector)
        u = np.ones(len(z))
        bad = int(curve_sums(z, u, theta, _NO_LABELS, unit, scales, lengths, *curves))
        if bad < 0:
            tail_sums(z, u, tails)
        return bad

    def _add_foreign(self, logits: Any, vector: Float64) -> None:
        *curves, tails = self.views(vector)
        theta, *nodes = self._arguments
        u = np.ones(len(logits))
        reference.curve_sums(logits, u, theta, _NO_LABELS, *nodes, *curves)
        tails += reference.tail_sums(logits, u)


@dataclass(frozen=True, eq=False)
class Sums:
    """What is known of a set of rows; sets add, and a number times a set makes its rows lighter."""

    layout: Layout
    vector: Float64
    squares: float  # the sum of the squared weights of the rows

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(self.layout, self.vector + other.vector, self.squares + other.squares)

    def __mul__(self, factor: float) -> "Sums":
        return Sums(self.layout, factor * self.vector, factor * factor * self.squares)

    __rmul__ = __mul__

    @property
    def weight(self) -> float:
        """The total weight of the rows, their number as long as nothing was forgotten."""
        return float(self.vector[1])

    @property
    def confidence(self) -> float:
        """The sum of confidences at the reference's temperature."""
        doubt = self.layout.views(self.vector)[3]
        return self.weight - float(doubt[self.layout.node, 0])

    @property
    def raw_confidence(self) -> float:
        """The sum of the network's own confidences, those at T = 1."""
        return float(self.tails.confidence.sum())

    @property
    def histogram(self) -> Float64:
        """The weight of rows by bin of their confidence at the reference's temperature."""
        return np.array(self.layout.views(self.vector)[4][self.layout.node, 0])

    @property
    def tails(self) -> Tails:
        """The tails of the rows, which give their thresholds."""
        return Tails(self.layout.empty.classes, *self.layout.views(self.vector)[5])

    @property
    def curve(self) -> Curve:
        """The curve of the rows."""
        return curve.in_logits(self.layout.empty, *self.layout.views(self.vector)[:5])
