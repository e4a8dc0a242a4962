"""Sums over served rows in one vector, and the temperature that is estimated from them."""

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from tepid import shapes, validation
from tepid.errors import InputError
from tepid.kernels import reference
from tepid.kernels.curves import curve_sums
from tepid.kernels.served import served_sums
from tepid.kernels.tails import tail_sums
from tepid.methods.results import to_temperature, uts_warnings
from tepid.methods.search import Question, read_off, readings_of
from tepid.summaries import curve
from tepid.summaries.curve import Curve
from tepid.summaries.lattice import Lattice
from tepid.summaries.optimum import least_loss, loss_step
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature
from tepid.validation import Float64

# Octaves to either side of the reference's T in which another temperature is searched.
REACH = 2
# Float32 holds 1/T, and the sums around it, within this range.
_COLDEST, _HOTTEST = 1e-30, 1e30
_NO_LABELS = np.empty(0, np.int64)
_QUESTION = Question(read=least_loss, step=loss_step, per_octave=1)


class Layout:
    """Which sums are kept, and where they are in the vector.

    There is one node, the reference's temperature. With thresholds (1, k) there are nodes up to
    `REACH` octaves around it, so that a temperature can be estimated; thresholds (0, k) omit them.
    """

    def __init__(self, temperature: float, thresholds: Float64, bins: int) -> None:
        if not _COLDEST <= temperature <= _HOTTEST:
            within = f"be within {_COLDEST:g} and {_HOTTEST:g} for a monitor"
            raise InputError(f"temperature must {within}, got {temperature}")
        self.bins = bins
        self.estimates = bool(len(thresholds))
        self.node = REACH if self.estimates else 0
        point = Lattice.point(temperature)
        if self.estimates:
            # Doubling is exact, so that the reference's temperature is one of the nodes.
            point = Lattice((point.starts[0] / 2**REACH,), (2 * REACH + 1,))
        k = thresholds.shape[1]
        self.empty = Curve.zero(k, lattice=point, thresholds=thresholds, bins=bins)
        self._shapes = (*curve.kernel_shapes(self.empty), (4, k))
        self._ends = list(accumulate(math.prod(shape) for shape in self._shapes))
        self._arguments = curve.kernel_arguments(self.empty)

    @property
    def size(self) -> int:
        """The length of the vector."""
        return self._ends[-1]

    def views(self, vector: Float64) -> list[Float64]:
        """Return the arrays that the kernels of `Curve` and, last, of `Tails` add to."""
        starts = (0, *self._ends[:-1])
        parts = zip(starts, self._ends, self._shapes, strict=True)
        return [vector[start:end].reshape(shape) for start, end, shape in parts]

    def zero(self) -> "Sums":
        """Return the sums of no rows."""
        return Sums(self, np.zeros(self.size), 0.0)

    def of(self, logits: Any) -> "Sums":
        """Return the sums of a batch (n, k), or of binary logits (n,) or (n, 1).

        `validation.as_array` must have passed the batch.
        """
        n = int(logits.shape[0])
        vector = np.zeros(self.size)
        if not n:
            return Sums(self, vector, 0.0)
        if validation.is_foreign(logits):
            self._add_foreign(shapes.matrix(logits), vector)
            return Sums(self, vector, float(n))
        bad = self._add(validation.as_kernel_input(logits), vector)
        if bad >= 0:
            raise validation.unusable(logits, bad)
        return Sums(self, vector, float(n))

    def _add(self, z: Any, vector: Float64) -> int:
        """Add a batch to the vector, and return the first unusable row, or -1."""
        theta, unit, scales, lengths = self._arguments
        if not self.estimates:
            return int(served_sums(z, unit, scales[0], self.bins, vector))
        *curves, tails = self.views(vector)
        u = np.ones(len(z))
        bad = int(curve_sums(z, u, theta, _NO_LABELS, unit, scales, lengths, *curves))
        if bad < 0:
            tail_sums(z, u, tails)
        return bad

    def _add_foreign(self, z: Any, vector: Float64) -> None:
        *curves, tails = self.views(vector)
        theta, *nodes = self._arguments
        u = np.ones(int(z.shape[0]))
        reference.curve_sums(z, u, theta, _NO_LABELS, *nodes, *curves)
        tails += reference.tail_sums(z, u)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over a set of rows; they add, and multiplying by a number reweights the rows."""

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
        """The total weight of the rows: their number, as long as nothing was forgotten."""
        return float(self.vector[1])

    @property
    def confidence(self) -> float:
        """The sum of confidences at the reference's temperature."""
        doubt = self.layout.views(self.vector)[3]
        return self.weight - float(doubt[self.layout.node, 0])

    @property
    def raw_confidence(self) -> float:
        """The sum of the network's own confidences, at T = 1."""
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


def estimate_value(sums: Sums) -> float | None:
    """Return the temperature by UTS, or None if there is none within `REACH` of the reference."""
    found = estimate_temperature(sums)
    return found.value if found.status == "ok" else None


def estimate_temperature(sums: Sums) -> Temperature:
    """Return the temperature of rows by UTS with the thresholds of the reference."""
    found = sums.curve
    answer = read_off(found, readings_of(_QUESTION, found))
    notes = uts_warnings(found, sums.tails, debiased=False)
    return to_temperature(answer, "uts-online", notes=notes)
