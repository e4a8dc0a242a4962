"""How uncertain a model is, row by row, as a histogram that adds."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tepid import arrays, summary
from tepid.arrays import Float64
from tepid.kernels import scores
from tepid.sources import Batch

_BINS, _LEAST = 4096, 1e-9


@dataclass(frozen=True)
class Entropies:
    """A histogram of the entropies of softmax(z / T), on a fixed logarithmic grid.

    A quantile read off it, and a share up to that, are wrong by at most the share of rows in one
    bin, whose ends lie half a percent apart.
    """

    PARAMETERS: ClassVar = ("classes",)

    classes: int
    weight: float
    correct: float  # the weight of the rows that are right
    counts: Float64  # the weight of the rows in each bin

    @classmethod
    def of(cls, batch: Batch, temperature: float) -> "Entropies":
        """The summary of one batch, with its labels if it has any."""
        p = probabilities(batch.logits, temperature)
        k = p.shape[1]
        entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)
        place = np.log(np.maximum(entropy, _LEAST) / _LEAST) / math.log(math.log(k) / _LEAST)
        where = np.minimum((place * _BINS).astype(np.int64), _BINS - 1)
        u = arrays.weight_column(batch.weight, len(p))
        right = 0.0
        if batch.labels is not None:
            labels = arrays.label_column(batch.labels, len(p), k, weight=u)
            right = float(u @ (p.argmax(axis=1) == labels))
        counts = np.bincount(where, u, _BINS).astype(np.float64)
        return cls(k, float(u.sum()), right, counts)

    def __add__(self, other: "Entropies") -> "Entropies":
        return summary.added(self, other)

    def quantile(self, share: float) -> float:
        """The place on the grid, in bins, below which this share of the rows lies."""
        below = np.concatenate([[0.0], np.cumsum(self.counts)]) / self.weight
        return float(np.interp(share, below, np.arange(_BINS + 1)))

    def share_below(self, place: float) -> float:
        """The share of the rows below a place on the grid."""
        below = np.concatenate([[0.0], np.cumsum(self.counts)]) / self.weight
        return float(np.interp(place, np.arange(_BINS + 1), below))


def probabilities(logits: Any, temperature: float) -> Float64:
    """The softmax of logits / T in float64, or a refusal that names the row."""
    z = arrays.block(arrays.as_array(logits))
    p = np.empty(z.shape)
    bad = scores.softmax(z, 1.0 / temperature, p)
    if bad >= 0:
        raise arrays.unusable(arrays.as_array(logits), bad)
    return p
