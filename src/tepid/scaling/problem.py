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
    """Features, 0 where masked, and a last column of ones, with labels and weights summing to one.

    With the column of ones the intercepts are part of every product and cost nothing.
    """

    inputs: Float64
    masked: Array | None
    y: Int64
    u: Float64

    @property
    def x(self) -> Float64:
        """The features (n, k)."""
        return self.inputs[:, :-1]

    def blocks(self) -> Iterator[slice]:
        """Runs of rows, small against memory."""
        n, k = self.x.shape
        step = max(_SCORES // k, _ROWS)
        return (slice(start, min(start + step, n)) for start in range(0, n, step))

    def part(self, chosen: Array) -> "Problem":
        """Some of the rows, their weights again summing to one."""
        u = self.u[chosen]
        masked = None if self.masked is None else self.masked[chosen]
        return Problem(self.inputs[chosen], masked, self.y[chosen], u / u.sum())


class Point(NamedTuple):
    """The map: diag(w) + m and the intercepts b; m is None where only a diagonal is fitted."""

    w: Float64
    m: Float64 | None
    b: Float64

    @property
    def weight(self) -> Float64:
        """The diagonal, or the whole matrix."""
        return self.w if self.m is None else np.diag(self.w) + self.m

    @property
    def table(self) -> Float64 | None:
        """The whole matrix with the intercepts as its last column."""
        return None if self.m is None else np.column_stack([self.weight, self.b])


def one_slope(slope: float, classes: int, *, full: bool) -> Point:
    """The map that multiplies every feature by the slope: temperature scaling."""
    m = np.zeros((classes, classes)) if full else None
    return Point(np.full(classes, slope), m, np.zeros(classes))


def loss(problem: Problem, point: Point) -> float:
    """The weighted mean NLL."""
    table = point.table
    parts = (
        residuals(scores(problem, point, table, rows), problem.y[rows], problem.u[rows])
        for rows in problem.blocks()
    )
    return float(sum(parts))


def slopes(problem: Problem, point: Point) -> tuple[float, Point]:
    """The NLL, and its gradient in the form of a point."""
    k, table = len(point.w), point.table
    total, by = 0.0, np.zeros((2, k) if table is None else (k, k + 1))
    for rows in problem.blocks():
        s = scores(problem, point, table, rows)
        total += residuals(s, problem.y[rows], problem.u[rows])
        if table is None:
            by[0] += np.einsum("ij,ij->j", s, problem.x[rows])
            by[1] += np.ones(len(s)) @ s
        else:
            by += s.T @ problem.inputs[rows]
    if table is None:
        return total, Point(by[0], None, by[1])
    return total, Point(np.diag(by).copy(), by[:, :-1], by[:, -1])


def scores(problem: Problem, point: Point, table: Float64 | None, rows: slice) -> Float64:
    """The map of some rows, `-inf` where masked; `table` is the point's own."""
    s: Float64
    if table is None:
        s = problem.x[rows] * point.w
        s += point.b
    else:
        s = problem.inputs[rows] @ table.T
    if problem.masked is not None:
        s[problem.masked[rows]] = -np.inf
    return s
