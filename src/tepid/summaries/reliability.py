"""Reliability: confidence against correctness, by bin, for rows with labels."""

import dataclasses
import os
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tepid import kernels, store, validation
from tepid.errors import InputError
from tepid.summaries.summary import add, equal, scale
from tepid.validation import Float64, Int64

_NORMAL = 1.959963984540054  # the normal quantile of 0.975


@dataclass(frozen=True, eq=False)
class Rows:
    """Labels and probabilities (n, k) with, per row, how sure, whether right, and what it costs.

    `confidence` is the largest probability and `right` is 1 where its class, the first on ties, is
    the label. NLL and Brier score are the row's own; the NLL of an impossible label is infinite.
    """

    labels: Int64
    probabilities: Float64
    weight: Float64
    confidence: Float64
    right: Float64
    nll: Float64
    brier: Float64

    @classmethod
    def of(cls, labels: Any, probabilities: Any, sample_weight: Any = None) -> "Rows":
        """The rows of probabilities (n, k); (n,) is P(class 1)."""
        p = validation.probability_matrix(probabilities)
        u = validation.weight_column(sample_weight, len(p))
        y = validation.label_column(labels, len(p), p.shape[1], weight=u)
        p = np.ascontiguousarray(p, np.float64)
        chosen = p[np.arange(len(p)), y]
        with np.errstate(divide="ignore"):
            nll = -np.log(chosen)
        return cls(
            labels=y,
            probabilities=p,
            weight=u,
            confidence=p.max(axis=1),
            right=(p.argmax(axis=1) == y).astype(np.float64),
            nll=nll,
            brier=np.einsum("ij,ij->i", p, p) - 2 * chosen + 1,
        )

    def weighing(self, weight: Float64) -> "Rows":
        """The same rows with other weights."""
        return dataclasses.replace(self, weight=weight)


@dataclass(frozen=True, eq=False)
class Reliability:
    r"""Per bin of top-label confidence, the sums of weight, confidence and correctness.

    Bins are of equal width and closed on the right, $(\frac{b-1}{B}, \frac{b}{B}]$, as in Guo et
    al. (2017). NLL and Brier score are sums too and ride along. Merges like every summary.

    >>> Reliability.of([[0.8, 0.2], [0.8, 0.2]], [0, 1], bins=5).correct
    array([0., 0., 0., 1., 0.])
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ("bins",)

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
        """The summary of one batch of probabilities (n, k); (n,) is P(class 1).

        The label's probability may be 0: then the NLL is infinite.
        """
        bins = validation.check_bins(bins)
        return cls.of_rows(Rows.of(labels, probabilities, sample_weight), bins=bins)

    @classmethod
    def of_rows(cls, rows: Rows, *, bins: int = 15) -> "Reliability":
        """The summary of rows that were checked before."""
        bins = validation.check_bins(bins)
        where = kernels.bins_of(rows.confidence, bins)
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
        bins = validation.check_bins(bins)
        temperature = validation.check_temperature(temperature)
        z = validation.as_kernel_input(validation.as_array(logits))
        u = validation.weight_column(sample_weight, len(z))
        y = validation.label_column(labels, len(z), z.shape[1], weight=u)
        totals, by_bin = np.zeros(4), np.zeros((3, bins))
        bad = kernels.score_sums(z, u, y, 1.0 / temperature, totals, by_bin)
        if bad >= 0:
            raise validation.unusable(validation.as_array(logits), bad)
        rows, weight, nll, brier = totals.tolist()
        return cls(bins, rows, weight, nll, brier, *by_bin)

    @classmethod
    def zero(cls, bins: int = 15) -> "Reliability":
        """The summary of no rows."""
        bins = validation.check_bins(bins)
        return cls(bins, 0.0, 0.0, 0.0, 0.0, *np.zeros((3, bins)))

    def check(self) -> None:
        """Refuse sums that no rows can have, as a damaged file may hold them."""
        store.check_count("bins", self.bins, 1)
        for name in ("rows", "weight", "brier"):
            store.check_numbers(name, getattr(self, name), (), 0.0)
        if not self.nll >= 0:  # infinite where a label has probability 0
            raise InputError(f"nll must not be negative, got {self.nll}")
        shape = (self.bins,)
        store.check_numbers("count", self.count, shape, 0.0)
        most = self.count + 1e-6 * self.weight
        store.check_numbers("confidence", self.confidence, shape, 0.0, most)
        store.check_numbers("correct", self.correct, shape, 0.0, most)

    __add__ = add
    __mul__ = __rmul__ = scale
    __eq__ = equal

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to `.npz`."""
        store.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Reliability":
        """Return what `save` wrote; raises `InputError` if the file is damaged."""
        return store.load(path, {cls: cls.check})


def wilson_interval(correct: Float64, count: Float64) -> tuple[Float64, Float64]:
    r"""The 95 % interval of a proportion, Wilson (1927); NaN where `count` is 0.

    $\frac{1}{1 + z^2/n} \left(\hat p + \frac{z^2}{2n} \pm z \sqrt{\frac{\hat p (1 - \hat p)}{n} +
    \frac{z^2}{4 n^2}}\right)$: it stays in [0, 1] and has a width where all or none are correct.

    >>> wilson_interval(np.array([8.0]), np.array([10.0]))
    (array([0.490]), array([0.943]))
    """
    n = np.where(count > 0, count, np.nan)
    p, z2 = correct / n, _NORMAL**2
    center = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = _NORMAL * np.sqrt(np.maximum(p * (1 - p), 0.0) / n + z2 / (4 * n**2)) / (1 + z2 / n)
    # Rounding may leave an end outside [0, 1], or p outside the interval.
    return np.maximum(np.minimum(center - half, p), 0.0), np.minimum(
        np.maximum(center + half, p), 1.0
    )


def _weighted(u: Float64, values: Float64) -> float:
    # A row of weight zero adds nothing, even where its NLL is infinite.
    return float((u[u > 0] * values[u > 0]).sum())


def _by_bin(where: Int64, values: Float64, bins: int) -> Float64:
    return np.bincount(where, values, bins).astype(np.float64)
