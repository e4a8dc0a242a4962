"""The tables behind the pictures: what is drawn, as numbers."""

import math
from dataclasses import dataclass

import numpy as np

from tepid.arrays import Float64
from tepid.curve import Curve
from tepid.errors import InputError
from tepid.reliability import Reliability

_Z = 1.959963984540054  # the normal quantile of 0.975


@dataclass(frozen=True)
class Bin:
    """The rows whose confidence lies in (low, high], and how many of them were right.

    `interval` holds the accuracy that so many rows are compatible with, at 95 %; it and `accuracy`
    are NaN where there were no labels.
    """

    low: float
    high: float
    rows: float
    share: float
    confidence: float
    accuracy: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Covered:
    """The rows with a confidence above `threshold`: how many they are and how often wrong.

    `claimed` is the share of errors that their confidence claims, `risk` the share there was.
    """

    threshold: float
    coverage: float
    risk: float
    claimed: float


def bins(data: Reliability | Curve, *, temperature: float | None = None) -> tuple[Bin, ...]:
    r"""Every bin that has rows, rising, as a reliability diagram draws it.

    The interval is Wilson's, $\left(\hat p + \frac{z^2}{2n} \pm z \sqrt{\frac{\hat p (1 - \hat
    p)}{n} + \frac{z^2}{4n^2}}\right) / \left(1 + \frac{z^2}{n}\right)$, which stays inside [0, 1]
    and has a width where every row was right. A row of weight w counts as w rows. A curve is
    binned at its nodes alone: `temperature`, by default 1, must be one of them.

    >>> two_sure_one_right = Reliability.of([[0.8, 0.2], [0.8, 0.2]], [0, 1], bins=5)
    >>> [(b.low, b.high, b.confidence, b.accuracy, b.interval) for b in bins(two_sure_one_right)]
    [(0.6, 0.8, 0.8, 0.5, (0.0945, 0.9055))]
    """
    count, confidence, correct = _sums(data, temperature)
    total, width = float(count.sum()), len(count)
    return tuple(
        Bin(
            low=b / width,
            high=(b + 1) / width,
            rows=n,
            share=n / total,
            confidence=float(confidence[b]) / n,
            accuracy=float(correct[b]) / n,
            interval=_wilson(float(correct[b]) / n, n),
        )
        for b, n in enumerate(count.tolist())
        if n > 0
    )


def covered(data: Reliability) -> tuple[Covered, ...]:
    """What is left when only confident rows are answered, one bin more at a time.

    The most confident bin comes first; the last entry answers every row, so that its risk is the
    error rate. Bins without rows add nothing and are left out.

    >>> covered(Reliability.of([[0.9, 0.1], [0.6, 0.4]], [0, 1], bins=2, sample_weight=[3, 1]))
    (Covered(threshold=0.5, coverage=1.0, risk=0.25, claimed=0.175),)
    """
    table = bins(data)[::-1]
    rows = np.cumsum([b.rows for b in table])
    wrong = np.cumsum([b.rows * (1 - b.accuracy) for b in table])
    doubt = np.cumsum([b.rows * (1 - b.confidence) for b in table])
    return tuple(
        Covered(b.low, float(n / rows[-1]), float(w / n), float(d / n))
        for b, n, w, d in zip(table, rows, wrong, doubt, strict=True)
    )


def _sums(data: Reliability | Curve, temperature: float | None) -> tuple[Float64, ...]:
    """Per bin the weight, the confidence and the correct."""
    if isinstance(data, Reliability):
        if temperature is not None:
            must = "be left out for a Reliability, which has its own"
            raise InputError(f"temperature must {must}, got {temperature}")
        return data.count, data.confidence, data.correct
    if not data.bins:
        raise InputError("curve must have bins to be drawn, got 0")
    count, confidence, correct = data.histogram[_node(data, temperature or 1.0)]
    return count, confidence, correct if data.labelled else np.full(data.bins, math.nan)


def _node(curve: Curve, temperature: float) -> int:
    temperatures = 1 / curve.lattice.nodes
    node = int(np.abs(np.log(temperatures / temperature)).argmin())
    if not math.isclose(temperatures[node], temperature, rel_tol=1e-3):
        must = f"be a node of the curve, of which {temperatures[node]:.5g} is the nearest"
        raise InputError(f"temperature must {must}, got {temperature}")
    return node


def _wilson(share: float, n: float) -> tuple[float, float]:
    spread = _Z * math.sqrt(max(share * (1 - share), 0.0) / n + (_Z / (2 * n)) ** 2)
    low, high = ((share + _Z**2 / (2 * n) + side * spread) / (1 + _Z**2 / n) for side in (-1, 1))
    # Where all rows were right or wrong, rounding may leave an end outside, or short of the share.
    return max(min(low, share), 0.0), max(min(high, 1.0), share)
