"""Reliability: confidence against correctness, by bin, for rows with labels."""

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tepid import arrays, summary
from tepid.arrays import Float64, Int64
from tepid.kernels import scores
from tepid.rows import Rows


@dataclass(frozen=True, eq=False)
class Reliability:
    r"""Per bin of top-label confidence, the sums of weight, confidence and correctness.

    Bins are of equal width and closed on the right, $(\frac{b-1}{B}, \frac{b}{B}]$, as in Guo et
    al. (2017). NLL and Brier score are sums too and ride along. Merges like every summary.

    >>> Reliability.of([[0.8, 0.2], [0.8, 0.2]], [0, 1], bins=5).correct
    array([0., 0., 0., 1., 0.])
    """

    PARAMETERS: ClassVar = ("bins",)

    bins: int
    rows: float
    weight: float
    nll: float
    brier: float
    count: Float64
    confidence: Float64
    correct: Float64

    @classmethod
    def of(
        cls, probabilities: Any, labels: Any, *, bins: int = 15, sample_weight: Any = None
    ) -> "Reliability":
        """The summary of one block of probabilities (n, k); (n,) is P(class 1).

        The label's probability may be 0: then the NLL is infinite.
        """
        arrays.check_bins(bins)
        return cls.of_rows(Rows.of(labels, probabilities, sample_weight), bins=bins)

    @classmethod
    def of_rows(cls, rows: Rows, *, bins: int = 15) -> "Reliability":
        """The summary of rows that were checked before."""
        arrays.check_bins(bins)
        where = scores.bins_of(rows.confidence, bins)
        u = rows.weight
        return cls(
            bins,
            rows=float(len(u)),
            weight=float(u.sum()),
            nll=_weighted(u, rows.nll),
            brier=float((u * rows.brier).sum()),
            count=_by_bin(where, u, bins),
            confidence=_by_bin(where, u * rows.confidence, bins),
            correct=_by_bin(where, u * rows.right, bins),
        )

    @classmethod
    def of_logits(
        cls,
        logits: Any,
        labels: Any,
        *,
        temperature: float = 1.0,
        bins: int = 15,
        sample_weight: Any = None,
    ) -> "Reliability":
        """The summary of softmax(logits / temperature), exact where a probability underflows."""
        arrays.check_bins(bins)
        arrays.check_temperature(temperature)
        z = arrays.block(arrays.as_array(logits))
        u = arrays.weight_column(sample_weight, len(z))
        y = arrays.label_column(labels, len(z), z.shape[1], weight=u)
        totals, by_bin = np.zeros(4), np.zeros((3, bins))
        bad = scores.score_sums(z, u, y, 1.0 / temperature, totals, by_bin)
        if bad >= 0:
            raise arrays.unusable(arrays.as_array(logits), bad)
        rows, weight, nll, brier = totals.tolist()
        return cls(bins, rows, weight, nll, brier, *by_bin)

    @classmethod
    def zero(cls, bins: int = 15) -> "Reliability":
        """The summary of no rows."""
        return cls(arrays.check_bins(bins), 0.0, 0.0, 0.0, 0.0, *np.zeros((3, bins)))

    def __add__(self, other: "Reliability") -> "Reliability":
        return summary.added(self, other)

    def __mul__(self, factor: float) -> "Reliability":
        return summary.scaled(self, factor)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reliability) and summary.close(self, other)

    __hash__ = None  # type: ignore[assignment]  # equality to a tolerance has no hash

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to `.npz`."""
        summary.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Reliability":
        """Read what `save` wrote."""
        return summary.load(cls, path)


def _weighted(u: Float64, values: Float64) -> float:
    # A row of weight zero adds nothing, even where its NLL is infinite.
    return float((u[u > 0] * values[u > 0]).sum())


def _by_bin(where: Int64, values: Float64, bins: int) -> Float64:
    return np.bincount(where, values, bins).astype(np.float64)
