r"""Reading a temperature off a curve: where the loss is least, or where confidence has a value.

Between two nodes a curve is the quintic in $u = \log \beta$ that shares its value, slope and
curvature at both. With two nodes per octave that places T within 2e-4 (`INTERPOLATION`); one exact
pass at the place found, and a Newton step from there, brings it within 1e-7.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tepid.arrays import Array, Float64
from tepid.curve import Curve

# The relative error of T read between the nodes of a window with two nodes per octave.
INTERPOLATION = 2e-4

Where = Literal["inside", "below", "above", "beyond-zero", "beyond-infinity", "nowhere"]


@dataclass(frozen=True)
class Reading:
    """A temperature on a curve, or on which side of the window it lies.

    `below` and `above` say where T is in relation to the window's temperatures; `beyond-zero` and
    `beyond-infinity` that no T is low or high enough; `nowhere` that T makes no difference.
    """

    where: Where
    temperature: float


def least_loss(curve: Curve, weighting: int = 0) -> Reading:
    r"""Where $L'(\beta) = 0$.

    The loss is convex, so its slope at $\beta = 0$ and its limit decide alone whether a minimum
    exists: if every pair is its row's maximum the loss falls for ever as T shrinks, and if the
    pairs are no better than chance, $L'(0) \ge 0$, as T grows.
    """
    slope = curve.slope[weighting]
    flat, pull = curve.flat[weighting], curve.pull[weighting]
    if flat == 0:
        return Reading("nowhere", 1.0)
    # The row means are float32: below this a slope at zero cannot be told from none.
    if flat - pull >= -1e-6 * abs(pull):
        return Reading("beyond-infinity", _edge(curve, 0))
    if pull == 0:
        return Reading("beyond-zero", _edge(curve, -1))
    nodes = curve.lattice.nodes
    by_log = nodes * slope, nodes**2 * curve.curvature[weighting] + nodes * slope
    return _crossing(curve, slope, lambda q: _stationary(curve.loss[weighting], *by_log, nodes, q))


def matching_confidence(curve: Curve, accuracy: float) -> Reading:
    """Where the mean confidence equals `accuracy`; it falls strictly as T grows."""
    if curve.spread == 0:
        return Reading("nowhere", 1.0)
    if accuracy * curve.weight >= curve.sharpest:
        return Reading("beyond-zero", _edge(curve, -1))
    if accuracy * curve.weight <= curve.softest:
        return Reading("beyond-infinity", _edge(curve, 0))
    nodes = curve.lattice.nodes
    gap = curve.confidence - accuracy * curve.weight
    slope, bend = nodes * curve.confidence_slope, nodes**2 * curve.confidence_curvature
    return _crossing(curve, gap, lambda q: _root(_quintic(gap, slope, bend + slope, nodes, q)))


def confidence_at(curve: Curve, temperature: float) -> float:
    """The mean confidence at a temperature inside the window, interpolated."""
    nodes = curve.lattice.nodes
    beta = min(max(1.0 / temperature, nodes[0]), nodes[-1])
    q = min(int(np.searchsorted(nodes, beta, side="right")) - 1, max(len(nodes) - 2, 0))
    if len(nodes) == 1:
        return float(curve.confidence[0] / curve.weight)
    slope, bend = nodes * curve.confidence_slope, nodes**2 * curve.confidence_curvature
    quintic = _quintic(curve.confidence, slope, bend + slope, nodes, q)
    t = math.log(beta / nodes[q]) / math.log(nodes[q + 1] / nodes[q])
    return float(np.polyval(quintic, t) / curve.weight)


def loss_step(curve: Curve, weighting: int = 0) -> float:
    r"""The Newton step in $\log T$ from a one-node curve towards the least loss."""
    beta = curve.lattice.nodes[0]
    slope = beta * curve.slope[weighting, 0]
    return float(slope / (beta**2 * curve.curvature[weighting, 0] + slope))


def confidence_step(curve: Curve, accuracy: float) -> float:
    r"""The Newton step in $\log T$ from a one-node curve towards a mean confidence."""
    beta = curve.lattice.nodes[0]
    gap = curve.confidence[0] - accuracy * curve.weight
    return float(gap / (beta * curve.confidence_slope[0]))


def _crossing(curve: Curve, rising: Float64, inside: Callable[[int], float]) -> Reading:
    nodes = curve.lattice.nodes
    if rising[0] > 0:
        return Reading("above", _edge(curve, 0))
    if rising[-1] < 0:
        return Reading("below", _edge(curve, -1))
    q = min(max(int((rising < 0).sum()) - 1, 0), len(nodes) - 2)
    step = math.log(nodes[q + 1] / nodes[q])
    return Reading("inside", float(math.exp(-inside(q) * step) / nodes[q]))


def _edge(curve: Curve, node: int) -> float:
    return float(1.0 / curve.lattice.nodes[node])


def _stationary(f: Float64, df: Float64, ddf: Float64, nodes: Float64, q: int) -> float:
    return _root(np.polyder(_quintic(f, df, ddf, nodes, q)))


def _quintic(f: Float64, df: Float64, ddf: Float64, nodes: Float64, q: int) -> Float64:
    """Coefficients, highest first, of the Hermite quintic on node q to q + 1, in t from 0 to 1."""
    h = math.log(nodes[q + 1] / nodes[q])
    c0, c1, c2 = f[q], h * df[q], h * h * ddf[q] / 2
    # What the upper end still lacks in value, slope and curvature.
    rest = f[q + 1] - (c0 + c1 + c2)
    slope = h * df[q + 1] - (c1 + 2 * c2)
    bend = h * h * ddf[q + 1] - 2 * c2
    c3 = 10 * rest - 4 * slope + bend / 2
    c4 = -15 * rest + 7 * slope - bend
    c5 = 6 * rest - 3 * slope + bend / 2
    return np.array([c5, c4, c3, c2, c1, c0])


def _root(polynomial: Array) -> float:
    """Where a polynomial that rises through zero on [0, 1] crosses it: bracketed Newton."""
    derivative = np.polyder(polynomial)
    low, high, t = 0.0, 1.0, 0.5
    for _ in range(60):
        value = float(np.polyval(polynomial, t))
        low, high = (t, high) if value < 0 else (low, t)
        slope = float(np.polyval(derivative, t))
        guess = t - value / slope if slope > 0 else t
        following = guess if low < guess < high else (low + high) / 2
        if abs(following - t) < 1e-13:
            break
        t = following
    return float(t)
