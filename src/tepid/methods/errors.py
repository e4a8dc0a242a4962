"""How far sampling alone moves a temperature: standard errors of log T from the sums at it."""

import math

import numpy as np

from tepid.curve import Curve

# A standard error of log T above this says nothing of T.
_WIDEST = 100.0


def loss_error(point: Curve | None, node: int = 0) -> float | None:
    """The sandwich standard error where, at a node, the loss of the first weighting is least."""
    if point is None or not point.curvature[0, node]:
        return None
    steepness = point.curvature[0, node] * point.lattice.nodes[node]
    return _sensible(math.sqrt(point.square[0, node]) / steepness)


def matching_error(point: Curve | None, known: float = 0.0, node: int = 0) -> float | None:
    """The standard error where the mean confidence is an accuracy with the standard error known."""
    if point is None or point.rows < 2:
        return None
    mean = point.confidence[node] / point.weight
    variance = max(point.confidence_square[node] / point.weight - mean**2, 0.0)
    slope = point.lattice.nodes[node] * point.confidence_slope[node] / point.weight
    if not slope:
        return None
    sampling = variance * point.weight_square / point.weight**2
    return _sensible(math.sqrt(sampling + known**2) / slope)


def effective_rows(curve: Curve) -> float:
    """The number of rows of equal weight that would tell as much (Kish)."""
    return curve.weight**2 / curve.weight_square


def nearest(curve: Curve, temperature: float) -> int:
    """The node of a curve that lies nearest to a temperature."""
    return int(np.abs(np.log(curve.lattice.nodes * temperature)).argmin())


def around(temperature: float, error: float) -> tuple[float, float]:
    """The 95 % interval of a temperature."""
    return temperature * math.exp(-1.96 * error), temperature * math.exp(1.96 * error)


def _sensible(error: float) -> float | None:
    return None if error > _WIDEST else float(error)
