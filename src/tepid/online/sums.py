"""Sums over served rows in one vector, and the temperature that is estimated from them."""

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from tepid import kernels, validation
from tepid.errors import InputError
from tepid.methods.exact import uts_warnings
from tepid.methods.search import Question, read_off, to_temperature
from tepid.posterior.calibration import fit_sums, sum_labeled
from tepid.posterior.sums import predicted_classes
from tepid.summaries import curve
from tepid.summaries.curve import Curve, Lattice
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature
from tepid.validation import Float64

# Octaves to either side of the reference's T, and beyond T = 1, in which another is searched.
REACH = 4
# Float32 holds 1/T, and the sums around it, within this range.
_COLDEST, _HOTTEST = 1e-30, 1e30
# Where the vector holds the sum of the weights and that of their squares, as a curve has them.
_WEIGHT, _SQUARES = 1, 5
# A confidence that no row has: without a threshold nothing is counted as accepted.
_NEVER = 2.0
_QUESTION = Question(per_octave=1)


class Layout:
    """Which sums are kept, and where they are in the vector.

    There is one node, the reference's temperature. With thresholds (1, k) there are nodes up to
    `REACH` octaves around it and T = 1, and each row's predicted class counts as its label, so that
    a temperature can be estimated; thresholds (0, k) omit them. `threshold` is the confidence from
    which rows are accepted; they are counted exactly, up to the float32 of a confidence.
    """

    def __init__(
        self, temperature: float, thresholds: Float64, bins: int, threshold: float | None = None
    ) -> None:
        if not _COLDEST <= temperature <= _HOTTEST:
            within = f"be within {_COLDEST:g} and {_HOTTEST:g} for a monitor"
            raise InputError(f"temperature must {within}, got {temperature}")
        self.bins = bins
        self.estimates = bool(len(thresholds))
        self.node = 0
        lattice = Lattice.point(temperature)
        if self.estimates:
            to_one = math.log2(temperature)
            self.node = REACH + max(0, math.ceil(-to_one))
            above = REACH + max(0, math.ceil(to_one))
            # Doubling is exact, so that the reference's temperature is one of the nodes.
            start = lattice.starts[0] / 2.0**self.node
            lattice = Lattice((start,), (self.node + above + 1,))
        k = thresholds.shape[1]
        self.empty = Curve.zero(
            k, lattice=lattice, thresholds=thresholds, labeled=self.estimates, bins=bins
        )
        self._shapes = (*curve.kernel_shapes(self.empty), (4, k), (2,))
        self._ends = list(accumulate(math.prod(shape) for shape in self._shapes))
        self._arguments = curve.kernel_arguments(self.empty)
        self._accepts = threshold is not None
        self._threshold = np.float32(_NEVER if threshold is None else threshold)

    @property
    def size(self) -> int:
        """The length of the vector."""
        return self._ends[-1]

    def views(self, vector: Float64) -> list[Float64]:
        """Return the arrays of the kernels of `Curve`, of `Tails`, and of accepted rows."""
        starts = (0, *self._ends[:-1])
        parts = zip(starts, self._ends, self._shapes, strict=True)
        return [vector[start:end].reshape(shape) for start, end, shape in parts]

    def zero(self) -> "Sums":
        """Return the sums of no rows."""
        return Sums(self, np.zeros(self.size))

    def of(self, logits: Any) -> "Sums":
        """Return the sums of a batch (n, k), or of binary logits (n,) or (n, 1).

        `validation.as_array` must have passed the batch.
        """
        sums = self.zero()
        if not logits.shape[0]:
            return sums
        bad = self._add(validation.as_kernel_input(logits), sums.vector)
        if bad >= 0:
            raise validation.unusable(logits, bad)
        return sums

    def _add(self, z: Any, vector: Float64) -> int:
        """Add a batch to the vector, and return the first unusable row, or -1."""
        theta, unit, scales, lengths = self._arguments
        if not self.estimates:
            return kernels.served_sums(z, unit, scales[0], self._threshold, self.bins, vector)
        *curves, tails, accepted = self.views(vector)
        u = np.ones(int(z.shape[0]))
        predicted = predicted_classes(z)
        bad = kernels.curve_sums(z, u, theta, predicted, unit, scales, lengths, *curves)
        if bad < 0:
            kernels.tail_sums(z, u, tails)
            if self._accepts:
                served = np.float32(scales[0] * 2.0**self.node)
                kernels.accepted_sums(z, unit, served, self._threshold, accepted)
        return bad


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over a set of rows; they add, and multiplying by a number reweights the rows."""

    layout: Layout
    vector: Float64

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(self.layout, self.vector + other.vector)

    def __mul__(self, factor: float) -> "Sums":
        vector = factor * self.vector
        vector[_SQUARES] *= factor
        return Sums(self.layout, vector)

    __rmul__ = __mul__

    @property
    def weight(self) -> float:
        """The total weight of the rows: their number, as long as nothing was forgotten."""
        return float(self.vector[_WEIGHT])

    @property
    def squares(self) -> float:
        """The sum of the squared weights of the rows."""
        return float(self.vector[_SQUARES])

    @property
    def confidence(self) -> float:
        """The sum of confidences at the reference's temperature."""
        doubt = self.layout.views(self.vector)[3]
        return self.weight - float(doubt[self.layout.node, 0])

    @property
    def accepted(self) -> float:
        """The weight of the rows whose confidence is at least the threshold."""
        return float(self.vector[-2])

    @property
    def accepted_confidence(self) -> float:
        """The sum of their confidences at the reference's temperature."""
        return float(self.vector[-1])

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
        return curve.from_kernel_sums(self.layout.empty, *self.layout.views(self.vector)[:5])

    def estimate(self) -> Temperature:
        """Return the temperature of the rows by UTS with the thresholds of the reference.

        Its status is not "ok" if there is none within `REACH` of the reference's.
        """
        found = self.curve
        answer = read_off(_QUESTION, found)
        notes = uts_warnings(found, self.tails)
        return to_temperature(answer, "uts-online", notes=notes)

    def calibrate(self, accuracy: Any, labeled: Any) -> Temperature:
        """Return the temperature of the rows by `tepid.calibrate` with this evidence."""
        labels = None
        if labeled is not None:
            labels = sum_labeled(labeled, self.layout.empty.lattice)
        return fit_sums(self.tails, self.curve, labels, accuracy)

    def estimated_value(self) -> float | None:
        """Return the value of `estimate`, or None if its status is not "ok"."""
        found = self.estimate()
        return found.value if found.status == "ok" else None
