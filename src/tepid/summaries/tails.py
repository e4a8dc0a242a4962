"""Tails: per class, how high its softmax gets on the rows where it is not predicted."""

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tepid import kernels, store, validation
from tepid.summaries.summary import add, equal, scale
from tepid.validation import Float64

# Ties between S and its threshold must not hang on the order of a sum.
TOLERANCE = 2.0**-20


@dataclass(frozen=True, eq=False)
class Tails:
    r"""Sums of $S_k$ and $S_k^2$ over $U_k = \{i : \hat y_i \ne k\}$, paper eq. 8.

    Plain sums, so summaries of parts add to the summary of the whole, an empty part is the zero,
    and a number times a summary counts its rows that often. A softmax value below `exp(-87)` of
    its row's largest is zero.

    >>> Tails.of([[2.0, 0.0], [0.0, 3.0]]) + Tails.of([[1.0, 0.0]]) == Tails.of(
    ...     [[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]]
    ... )
    True
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ("classes",)

    classes: int
    predicted: Float64  # weight of the rows predicted k
    total: Float64  # of S_k over U_k
    squares: Float64  # of S_k² over U_k
    confidence: Float64  # of S_k over the rows predicted k

    @classmethod
    def of(cls, logits: Any, *, sample_weight: Any = None) -> "Tails":
        """The summary of one batch of logits (n, k)."""
        logits = validation.as_array(logits)
        u = validation.weight_column(sample_weight, len(logits))
        z = validation.as_kernel_input(logits)
        out = np.zeros((4, z.shape[1]))
        bad = kernels.tail_sums(z, u, out)
        if bad >= 0:
            raise validation.unusable(logits, bad)
        return cls(z.shape[1], *out)

    @classmethod
    def zero(cls, classes: int) -> "Tails":
        """The summary of no rows."""
        return cls(classes, *np.zeros((4, classes)))

    @property
    def weight(self) -> float:
        """The total weight of the rows."""
        return float(self.predicted.sum())

    def thresholds(self, deviations: float | Float64 = 1.0) -> Float64:
        r"""$\theta_k = \mu_k + \sigma_k \cdot$ deviations; 0 for a class that all rows predict.

        Deviations (w, 1) give thresholds (w, k).
        """
        outside = self.weight - self.predicted
        # A class that every row predicts has an empty U_k; scaled sums leave a residue of rounding.
        known = outside > 1e-12 * self.weight
        n = np.where(known, outside, 1.0)
        mean = self.total / n
        variance = np.maximum(self.squares / n - mean**2, 0.0)
        return np.where(known, mean + deviations * np.sqrt(variance), 0.0)

    def check(self) -> None:
        """Refuse sums that no rows can have, as a damaged file may hold them."""
        shape = (self.classes,)
        store.check_count("classes", self.classes, 2)
        store.check_numbers("predicted", self.predicted, shape, 0.0)
        rounding = 1e-6 * self.weight
        store.check_numbers("total", self.total, shape, 0.0, self.weight + rounding)
        store.check_numbers("squares", self.squares, shape, 0.0, self.total + rounding)
        store.check_numbers("confidence", self.confidence, shape, 0.0, self.predicted + rounding)

    __add__ = add
    __mul__ = __rmul__ = scale
    __eq__ = equal

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to `.npz`."""
        store.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Tails":
        """Return what `save` wrote; raises `InputError` if the file is damaged."""
        return store.load(path, {cls: cls.check})
