"""Sums by cluster, for intervals where rows belong together, such as the pixels of an image.

The rows of a cluster may be dependent, different clusters are not. Clusters are distributed over a
fixed number of buckets by a hash. The buckets are independent of each other too, so the spread of
their sums gives the variance of the whole sum, and their number does not grow with the data.
"""

import zlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tepid import shapes
from tepid.summaries.summary import add, equal, scale, softmax
from tepid.validation import Array, Float64, Int64, as_array

BUCKETS = 1024
# Odd multipliers. By the first, consecutive numbers fall into different buckets.
_ODD, _MIX = 0x9E3779B1, 0xBF58476D1CE4E5B9
_NORMAL = 1.959964


def buckets_of_names(clusters: Array) -> Int64:
    """The bucket of each row from the name of its cluster; the same in every process."""
    names, where = np.unique(clusters, return_inverse=True)
    hashes = [zlib.crc32(str(name).encode()) % BUCKETS for name in names]
    return np.asarray(np.array(hashes, np.int64)[where.reshape(-1)])


def buckets_of_numbers(numbers: Int64, place: str) -> Int64:
    """The bucket of each row from the number of its cluster in a file or array."""
    # Numbers that differ by a multiple of BUCKETS, such as the first pixels of images of 32 × 32 or
    # every 1024th row, must not share a bucket: what is above the low bits shifts them.
    above = (numbers // BUCKETS).astype(np.uint64) * np.uint64(_MIX)
    above ^= above >> np.uint64(29)
    shift = (above * np.uint64(_MIX) >> np.uint64(40)).astype(np.int64)
    return np.asarray((numbers * _ODD + shift + zlib.crc32(place.encode())) % BUCKETS)


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """The weight of the rows in each bucket, and the weighted sum of their values."""

    PARAMETERS: ClassVar[tuple[str, ...]] = ()

    weight: Float64
    total: Float64

    @classmethod
    def of(cls, values: Float64, weight: Float64, buckets: Int64) -> "ClusterSums":
        """The sums of some rows."""
        return cls(
            np.bincount(buckets, weight, BUCKETS).astype(np.float64, copy=False),
            np.bincount(buckets, weight * values, BUCKETS).astype(np.float64, copy=False),
        )

    @property
    def count(self) -> int:
        """The number of buckets that have rows."""
        return int(np.count_nonzero(self.weight))

    @property
    def variance(self) -> float | None:
        """The variance of the sum over all rows, for an interval; None from a single cluster.

        With few clusters it is itself uncertain. The factor of Student's t makes up for that, so
        that an interval of 1.96 standard errors has the coverage that it states.
        """
        if self.count < 2:
            return None
        mean = self.total.sum() / self.weight.sum()
        spread = float(((self.total - mean * self.weight) ** 2).sum())
        return spread * self.count / (self.count - 1) * _student_factor(self.count - 1)

    __add__ = add
    __mul__ = __rmul__ = scale
    __eq__ = equal


def _student_factor(freedom: int) -> float:
    """The square of the ratio of the 97.5 % quantiles of Student's t and of the normal.

    By the expansion of Cornish and Fisher, Abramowitz and Stegun 26.7.5.
    """
    z, n = _NORMAL, freedom
    terms = (
        z,
        (z**3 + z) / (4 * n),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3),
    )
    return float((sum(terms) / z) ** 2)


def label_scores(logits: Any, labels: Int64, temperature: float) -> Float64:
    """The derivative of each row's log likelihood by log T."""
    p = softmax(logits, temperature)
    z = shapes.matrix(np.asarray(as_array(logits), np.float64))
    # A masked class has no probability, and a label is never masked.
    distance = np.where(np.isneginf(z), 0.0, z - z.max(axis=1, keepdims=True))
    own = distance[np.arange(len(z)), labels]
    return np.asarray(((p * distance).sum(axis=1) - own) / temperature)
