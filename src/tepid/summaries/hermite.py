"""Hermite interpolation between nodes: one polynomial, or all of them as an `Interpolant`.

A polynomial is a tuple of coefficients, the lowest power first.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tepid.validation import Float64

Polynomial = tuple[float, ...]
# Value, slope and curvature by log beta at a node.
OnNodes = Callable[[int], tuple[float, float, float]]


def quintic(function: OnNodes, nodes: Float64, q: int) -> Polynomial:
    """The Hermite quintic on node q to q + 1, in t from 0 to 1."""
    h = math.log(nodes[q + 1] / nodes[q])
    (f0, df0, ddf0), (f1, df1, ddf1) = function(q), function(q + 1)
    c0, c1, c2 = f0, h * df0, h * h * ddf0 / 2
    # What the upper end still lacks in value, slope and curvature.
    rest = f1 - (c0 + c1 + c2)
    slope = h * df1 - (c1 + 2 * c2)
    bend = h * h * ddf1 - 2 * c2
    c3 = 10 * rest - 4 * slope + bend / 2
    c4 = -15 * rest + 7 * slope - bend
    c5 = 6 * rest - 3 * slope + bend / 2
    return (c0, c1, c2, c3, c4, c5)


def derived(polynomial: Polynomial) -> Polynomial:
    """The derivative."""
    return tuple(power * c for power, c in enumerate(polynomial))[1:]


def value(polynomial: Polynomial, t: float) -> float:
    """The polynomial at t."""
    total = 0.0
    for c in reversed(polynomial):
        total = total * t + c
    return total


def root(polynomial: Polynomial) -> float:
    """Where a polynomial that rises through zero on [0, 1] crosses it: bracketed Newton."""
    derivative = derived(polynomial)
    low, high, t = 0.0, 1.0, 0.5
    for _ in range(60):
        height, slope = value(polynomial, t), value(derivative, t)
        low, high = (t, high) if height < 0 else (low, t)
        guess = t - height / slope if slope > 0 else t
        following = guess if low < guess < high else (low + high) / 2
        if abs(following - t) < 1e-13:
            break
        t = following
    return t


@dataclass(frozen=True)
class Interpolant:
    """A function between nodes: on each interval the quintic that `quintic` gives."""

    nodes: Float64  # rising
    coefficients: Float64  # per power and interval, in t from 0 to 1 within the interval

    @classmethod
    def of(cls, nodes: Float64, values: Float64, slopes: Float64, bends: Float64) -> "Interpolant":
        """The interpolant of values with their first and second derivatives at the nodes."""
        h = np.diff(nodes)
        f0, f1 = values[:-1], values[1:]
        c1, c2 = h * slopes[:-1], h * h * bends[:-1] / 2
        rest = f1 - (f0 + c1 + c2)
        slope = h * slopes[1:] - (c1 + 2 * c2)
        bend = h * h * bends[1:] - 2 * c2
        c3 = 10 * rest - 4 * slope + bend / 2
        c4 = -15 * rest + 7 * slope - bend
        c5 = 6 * rest - 3 * slope + bend / 2
        return cls(nodes, np.array([f0, c1, c2, c3, c4, c5]))

    def __call__(self, x: Float64, order: int = 0) -> Float64:
        """The function, or one of its derivatives, at points between the first and last node."""
        q = np.clip(np.searchsorted(self.nodes, x, side="right") - 1, 0, len(self.nodes) - 2)
        h = self.nodes[q + 1] - self.nodes[q]
        t = (x - self.nodes[q]) / h
        total = np.zeros(np.shape(x))
        for power in range(5, order - 1, -1):
            total = total * t + math.perm(power, order) * self.coefficients[power, q]
        return np.asarray(total / h**order)
