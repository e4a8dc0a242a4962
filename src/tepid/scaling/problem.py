"""What an affine map is fitted to, and what it costs: the NLL and its slopes, block by block."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tepid.arrays import Array, Float64, Int64
from tepid.kernels.residuals import residuals

# A block's scores stay in a processor's cache, and its rows are enough for a fast product.
_SCORES, _ROWS = 1 << 15, 256


@dataclass(frozen=True)
class Problem:
    """Features (n, k), 0 where masked, with labels and weights that sum to one."""

    x: Float64
    masked: Array | None
    y: Int64
    u: Float64

    def blocks(self) -> Iterator[slice]:
        """Runs of rows, small against memory."""
        n, k = self.x.shape
        step = max(_SCORES // k, _ROWS)
        return (slice(start, min(start + step, n)) for start in range(0, n, step))

    def part(self, chosen: Array) -> "Problem":
        """Some of the rows, their weights again summing to one."""
        u = self.u[chosen]
        masked = None if self.masked is None else self.masked[chosen]
        return Problem(self.x[chosen], masked, self.y[chosen], u / u.sum())


class Point(NamedTuple):
    """The map: diag(w) + m and the intercepts b; m is None where only a diagonal is fitted."""

    w: Float64
    m: Float64 | None
    b: Float64

    @property
    def weight(self) -> Float64:
        """The diagonal, or the whole matrix."""
        return self.w if self.m is None else np.diag(self.w) + self.m


def one_slope(slope: float, classes: int, *, full: bool) -> Point:
    """The map that multiplies every feature by the slope: temperature scaling."""
    m = np.zeros((classes, classes)) if full else None
    return Point(np.full(classes, slope), m, np.zeros(classes))


def loss(problem: Problem, point: Point) -> float:
    """The weighted mean NLL."""
    weight = point.weight
    parts = (
        residuals(scores(problem, weight, point.b, rows), problem.y[rows], problem.u[rows])
        for rows in problem.blocks()
    )
    return float(sum(parts))


def slopes(problem: Problem, point: Point) -> tuple[float, Point]:
    """The NLL, and its gradient in the form of a point."""
    weight = point.weight
    total, by_weight, by_b = 0.0, np.zeros_like(weight), np.zeros_like(point.b)
    for rows in problem.blocks():
        x, s = problem.x[rows], scores(problem, weight, point.b, rows)
        total += residuals(s, problem.y[rows], problem.u[rows])
        by_b += s.sum(axis=0)
        by_weight += np.einsum("ij,ij->j", s, x) if point.m is None else s.T @ x
    if point.m is None:
        return total, Point(by_weight, None, by_b)
    return total, Point(np.diag(by_weight).copy(), by_weight, by_b)


def scores(problem: Problem, weight: Float64, bias: Float64, rows: slice) -> Float64:
    """The map of some rows' features, `-inf` where masked."""
    x = problem.x[rows]
    s: Float64 = x * weight if weight.ndim == 1 else x @ weight.T
    s += bias
    if problem.masked is not None:
        s[problem.masked[rows]] = -np.inf
    return s
