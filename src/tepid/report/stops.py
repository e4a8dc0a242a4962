"""Stops: what is known at each temperature where the slider of a report can stand."""

import math
from dataclasses import dataclass

import numpy as np

from tepid.arrays import Float64
from tepid.curve import Curve
from tepid.report.reading import Findings

_NORMAL = 1.959963984540054  # 95 %


@dataclass(frozen=True)
class Stop:
    """One temperature: mean losses and confidence, and sums by bin of confidence.

    `uts` is the loss per pair that the thresholds draw, `nll` that per row of the labels; NaN where
    there are none.
    """

    temperature: float
    confidence: float
    uts: float
    nll: float
    count: Float64
    sure: Float64
    correct: Float64

    @property
    def ece(self) -> float:
        """Expected calibration error over the bins."""
        return float(np.abs(self.sure - self.correct).sum() / self.count.sum())


def stops(findings: Findings) -> tuple[list[Stop], dict[str, int]]:
    """Every stop, rising in T, and where among them each temperature stands."""
    beta = findings.curve.lattice.nodes
    on_lattice = [_stop(findings.curve, q, 1 / float(b)) for q, b in enumerate(beta)]
    fitted = findings.fits.drawn
    between = [
        _stop(curve, 0, fitted[name])
        for name, curve in findings.points.parts.items()
        if not any(_same(fitted[name], stop.temperature) for stop in on_lattice)
    ]
    every: list[Stop] = []
    for stop in sorted(on_lattice + between, key=lambda stop: stop.temperature):
        if not every or not _same(stop.temperature, every[-1].temperature):
            every.append(stop)
    return every, {name: place(every, t) for name, t in fitted.items()}


def place(every: list[Stop], temperature: float) -> int:
    """The stop nearest to a temperature."""
    return min(range(len(every)), key=lambda i: abs(math.log(every[i].temperature / temperature)))


def _same(a: float, b: float) -> bool:
    return abs(a / b - 1) < 1e-6


def _stop(curve: Curve, node: int, temperature: float) -> Stop:
    count, sure, correct = curve.histogram[node]
    losses = [float(loss[node]) for loss in curve.loss]
    nan = float("nan")
    return Stop(
        temperature,
        float(curve.confidence[node] / curve.weight),
        losses[0] / curve.pairs[0] if curve.pairs[0] else nan,
        losses[1] / curve.pairs[1] if curve.labelled else nan,
        count,
        sure,
        correct,
    )


def wilson(correct: Float64, count: Float64) -> tuple[Float64, Float64]:
    r"""The 95 % interval of a proportion by bin, Wilson (1927); NaN for an empty bin.

    $\frac{1}{1 + z^2/n} \left(\hat p + \frac{z^2}{2n} \pm z \sqrt{\frac{\hat p (1 - \hat p)}{n} +
    \frac{z^2}{4 n^2}}\right)$: it stays in [0, 1] and is not empty where all or none are right.

    >>> wilson(np.array([8.0]), np.array([10.0]))
    (array([0.490]), array([0.943]))
    """
    n = np.where(count > 0, count, np.nan)
    p, z2 = correct / n, _NORMAL**2
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = _NORMAL * np.sqrt(p * (1 - p) / n + z2 / (4 * n**2)) / (1 + z2 / n)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)
