"""How far a chunk may lie from the reference before it is called a drift."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tepid.arrays import Float64

# Mean confidences are float32 moments: a difference below this is rounding.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Spread:
    r"""The chunks of a reference: their mean, and how far they scatter around it.

    With chunks of $n_j$ rows and mean confidence $x_j$, $N = \sum n_j$ and
    $\bar x = \sum n_j x_j / N$: `deviation` is that of one row as the chunks show it,
    $s^2 = \sum_j n_j (x_j - \bar x)^2 / (m - 1)$. Rows that resemble their neighbours make it
    larger than the scatter of single rows, as it must be.
    """

    mean: float
    deviation: float
    chunks: int
    rows: float

    @classmethod
    def of(cls, means: Float64, rows: Float64) -> "Spread":
        """The spread of two chunks or more."""
        total = float(rows.sum())
        mean = float(rows @ means) / total
        square = float(rows @ (means - mean) ** 2) / (len(means) - 1)
        return cls(mean, math.sqrt(square), len(means), total)

    def half_width(self, rows: float, false_alarms: float) -> float:
        r"""How far the mean confidence of so many rows strays, but for a share of false alarms.

        $t_{m-1}\, s \sqrt{1/n + 1/N}$, the prediction interval of one more chunk: exact where the
        means of chunks are normal, which means over a hundred rows nearly are. Student's quantile
        widens it where the reference has few chunks. A quantile of the chunks themselves would
        assume less, but cannot promise 1 % with fewer than 199 of them.
        """
        quantile = student(1 - false_alarms / 2, self.chunks - 1)
        width = quantile * self.deviation * math.sqrt(1 / rows + 1 / self.rows)
        return max(width, _ROUNDING)


@lru_cache(maxsize=64)
def student(probability: float, freedom: int) -> float:
    """The quantile of Student's t above its median, by bisection of the exact distribution.

    >>> student(0.975, 10)
    2.228
    """
    low, high = 0.0, math.pi / 2
    while True:
        angle = (low + high) / 2
        if angle in (low, high):
            return math.sqrt(freedom) * math.tan(angle)
        if 0.5 + _between(angle, freedom) / 2 < probability:
            low = angle
        else:
            high = angle


def _between(angle: float, freedom: int) -> float:
    """P(|t| < √freedom tan angle), Abramowitz and Stegun 26.7.3 and 26.7.4."""
    odd = freedom % 2
    steps = np.arange(2 + odd, freedom - 1, 2)
    terms = np.cumprod(np.concatenate([[1.0], (steps - 1) / steps * math.cos(angle) ** 2]))
    if not odd:
        return math.sin(angle) * float(terms.sum())
    series = float(terms.sum()) * math.cos(angle) if freedom > 1 else 0.0
    return 2 / math.pi * (angle + math.sin(angle) * series)
