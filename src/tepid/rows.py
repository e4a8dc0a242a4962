"""Rows: what the measures need to know of each row, checked once."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid import arrays
from tepid.arrays import Float64, Int64


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
        p = arrays.probability_matrix(probabilities)
        u = arrays.weight_column(sample_weight, len(p))
        y = arrays.label_column(labels, len(p), p.shape[1], weight=u)
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
