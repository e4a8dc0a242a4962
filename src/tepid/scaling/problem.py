"""What an affine map is fitted to, and what it costs: the NLL and its slopes, block by block."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tepid.arrays import Array, Float64, Int64
from tepid.kernels.residuals import residuals
from tepid.shapes import rows_per_block


@dataclass(frozen=True)
class Problem:
    """Features (n, k), 0 where masked, with labels and weights that sum to one."""

    x: Float64
    masked: Array | None
    y: Int64
    u: Float64

    def blocks(self) -> Iterator[slice]:
        """Runs of rows that are small against memory."""
        n, k = self.x.shape
        step = rows_per_block(4 * k)
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


def one_slope(slope: float, classes: int, *, full: bool) -> Point:
    """The map that multiplies every feature by the slope: temperature scaling."""
    m = np.zeros((classes, classes)) if full else None
    return Point(np.full(classes, slope), m, np.zeros(classes))


def loss(problem: Problem, point: Point) -> float:
    """The weighted mean NLL."""
    parts = (
        residuals(scores(problem, point, rows), problem.y[rows], problem.u[rows])
        for rows in problem.blocks()
    )
    return float(sum(parts))


def slopes(problem: Problem, point: Point) -> tuple[float, Point]:
    """The NLL, and its gradient in the form of a point."""
    k = problem.x.shape[1]
    total, by = 0.0, Point(np.zeros(k), None if point.m is None else np.zeros((k, k)), np.zeros(k))
    for rows in problem.blocks():
        x, s = problem.x[rows], scores(problem, point, rows)
        total += residuals(s, problem.y[rows], problem.u[rows])
        by.b[:] += s.sum(axis=0)
        by.w[:] += np.einsum("ij,ij->j", s, x)
        if by.m is not None:
            by.m[:] += s.T @ x
    return total, by


def scores(problem: Problem, point: Point, rows: slice) -> Float64:
    """The map of some rows' features, `-inf` where masked."""
    x = problem.x[rows]
    s: Float64 = x * point.w
    s += point.b
    if point.m is not None:
        s += x @ point.m.T
    if problem.masked is not None:
        s[problem.masked[rows]] = -np.inf
    return s
