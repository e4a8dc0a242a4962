r"""The fit of an affine map: minimize NLL plus ODIR, and choose ODIR's strength.

The matrix is kept as $W = \mathrm{diag}(w) + M$ with the ridge on all of M: since w is free, M has
no diagonal at the optimum, and what is left is the off-diagonal penalty. The intercepts are one
more column of M, whose feature is the constant $\sqrt{\lambda / (\mu (K-1))}$, which turns
$\mu\|b\|^2/K$ into the same ridge. So one number, $\lambda/(K(K-1))$, is the penalty of every
entry, and M can be rotated into axes along which the loss is close to round.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tepid.kernels.scores import residuals
from tepid.scaling.calibrator import import_optional
from tepid.validation import Array, Float64, Int64

# A batch's scores fit in the processor's cache, and its rows suffice for a fast product.
_SCORES, _ROWS = 1 << 15, 256
# Curvatures below these shares of the largest count as these: a direction that the data hardly
# see must not be stretched without bound.
_FLATTEST_CLASS, _FLATTEST_FEATURE = 1e-3, 1e-6
_TINY = 1e-12
# An unregularized mean loss below this has no minimum: the classes are separable.
_SEPARATED = 4e-4
# Steps after which the axes are computed again.
_FIRST = (10, 20)
# Fewer folds for many classes, where one fit takes seconds.
_FOLDS, _FEWER_FOLDS, _MANY_CLASSES = 5, 3, 500
# Strengths from strong to weak. There are K times as many weights off the diagonal.
INTERCEPTS = (1e2, 1e1, 1.0, 1e-1, 1e-2, 1e-3, 1e-4)
OFF_DIAGONAL = (1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1.0, 1e-1, 1e-2, 1e-3)
# A path ends when the held-out loss exceeds the least so far by this fraction.
_WORSE = 1e-3
_TOLERANCE, _STEPS = 1e-6, 100


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

    def batches(self) -> Iterator[slice]:
        """Slices of rows whose scores fit in the cache."""
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


class Strength(NamedTuple):
    """The regularization of what is off the diagonal, and of the intercepts."""

    off_diagonal: float
    intercepts: float

    def ridge(self, classes: int) -> float:
        """The penalty of every entry of M."""
        return self.off_diagonal / (classes * (classes - 1))

    def constant(self, classes: int) -> float:
        """The feature that belongs to the intercepts."""
        both = self.off_diagonal > 0 and self.intercepts > 0
        ratio = self.off_diagonal / self.intercepts if both else 1.0
        return math.sqrt(ratio / (classes - 1))


class Choice(NamedTuple):
    """The chosen strength, its mean held-out NLL, and the NLL of the temperature alone."""

    strength: Strength
    held_out: float
    temperature: float


def one_slope(slope: float, classes: int, *, full: bool) -> Point:
    """The map that multiplies every feature by the slope: temperature scaling."""
    m = np.zeros((classes, classes)) if full else None
    return Point(np.full(classes, slope), m, np.zeros(classes))


def loss(problem: Problem, point: Point) -> float:
    """The weighted mean NLL."""
    table = point.table
    parts = (
        residuals(scores(problem, point, table, rows), problem.y[rows], problem.u[rows])
        for rows in problem.batches()
    )
    return float(sum(parts))


def slopes(problem: Problem, point: Point) -> tuple[float, Point]:
    """The NLL, and its gradient in the form of a point."""
    k, table = len(point.w), point.table
    total, by = 0.0, np.zeros((2, k) if table is None else (k, k + 1))
    for rows in problem.batches():
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


def descend(
    problem: Problem, strength: Strength, at: Point, tolerance: float, most: int
) -> tuple[Point, bool]:
    """The minimum by SciPy's L-BFGS-B, and whether it was reached within `most` steps.

    It is reached when the loss changes by less than the tolerance, or when an unregularized loss
    is nearly zero: then there is no minimum. The axes are computed again after the first steps,
    which lead far from where they were right.
    """
    ended = False
    for steps in (*_FIRST, most):
        if not ended:
            at, ended = _minimize(problem, strength, at, _moments(problem, at), (tolerance, steps))
    return at, ended


class _Moments(NamedTuple):
    r"""What the Hessian of the NLL at a point is made of.

    `of_classes` is the mean of $\mathrm{diag}(p) - p p^T$ over the rows, `of_features` that of
    $x x^T$ and `mean` that of x; `of_diagonal` is the curvature by each w alone.
    """

    of_classes: Float64
    of_features: Float64 | None
    mean: Float64
    of_diagonal: Float64


def _moments(problem: Problem, at: Point) -> _Moments:
    """The moments, in one pass."""
    table = at.table
    k = problem.x.shape[1]
    p_mean, x_mean, diagonal = np.zeros((3, k))
    pp, xx = np.zeros((k, k)), None if at.m is None else np.zeros((k, k))
    for rows in problem.batches():
        x, u = problem.x[rows], problem.u[rows, None]
        p = scores(problem, at, table, rows)
        residuals(p, problem.y[rows], np.ones(len(x)))
        p[np.arange(len(x)), problem.y[rows]] += 1
        up, ux = u * p, u * x
        p_mean += up.sum(axis=0)
        x_mean += ux.sum(axis=0)
        pp += up.T @ p
        diagonal += np.einsum("ij,ij,ij->j", up * (1 - p), x, x)
        if xx is not None:
            xx += ux.T @ x
    return _Moments(np.diag(p_mean) - pp, xx, x_mean, np.maximum(diagonal, _TINY))


def _minimize(
    problem: Problem, strength: Strength, at: Point, known: _Moments, stop: tuple[float, int]
) -> tuple[Point, bool]:
    k = len(at.w)
    ridge, constant = strength.ridge(k), strength.constant(k)
    of_classes, of_features, curvature = _axes(known, constant)
    stretch, narrow = 1 / np.sqrt(curvature + 2 * ridge), 1 / np.sqrt(known.of_diagonal)

    def point(v: Float64) -> tuple[Point, Float64]:
        rest = of_classes @ (stretch * v[k:].reshape(stretch.shape)) @ of_features.T
        m = None if at.m is None else rest[:, :-1]
        return Point(narrow * v[:k], m, constant * rest[:, -1]), rest

    def value(v: Float64) -> tuple[float, Float64]:
        here, rest = point(v)
        total, by = slopes(problem, here)
        by_rest = _joined(by.m, constant * by.b) + 2 * ridge * rest
        by_rest = stretch * (of_classes.T @ by_rest @ of_features)
        total += ridge * float(np.vdot(rest, rest))
        return total, np.concatenate([narrow * by.w, by_rest.ravel()])

    rest = of_classes.T @ _joined(at.m, at.b / constant) @ of_features
    first = np.concatenate([at.w / narrow, (rest / stretch).ravel()])
    options = {"ftol": stop[0], "gtol": 1e-9, "maxiter": stop[1], "maxfun": 2 * stop[1]}

    def separated(intermediate_result: Any) -> None:
        if not ridge and intermediate_result.fun < _SEPARATED:
            raise StopIteration

    found = import_optional("scipy.optimize", "minimize")(
        value, first, jac=True, method="L-BFGS-B", options=options, callback=separated
    )
    return point(found.x)[0], bool(found.status != 1)


def _axes(known: _Moments, constant: float) -> tuple[Float64, Float64, Float64]:
    r"""Rotations of the classes and of the features, and the curvatures along both.

    They are the axes of $A \otimes G$, A and G being the moments of classes and of features with
    the constant; the Hessian is close to that product.
    """
    values, of_classes = np.linalg.eigh(known.of_classes)
    a = np.maximum(values, max(_FLATTEST_CLASS * values[-1], _TINY))
    if known.of_features is None:
        return of_classes, np.ones((1, 1)), a[:, None] * constant**2
    k = len(known.mean)
    g = np.empty((k + 1, k + 1))
    g[:k, :k], g[:k, k], g[k, :k] = known.of_features, constant * known.mean, constant * known.mean
    g[k, k] = constant**2
    values, of_features = np.linalg.eigh(g)
    least = _FLATTEST_FEATURE * float(np.trace(known.of_features)) / k
    return of_classes, of_features, np.outer(a, np.maximum(values, max(least, _TINY)))


def _joined(m: Any, b: Float64) -> Float64:
    return b[:, None] if m is None else np.column_stack([m, b])


def choose_strength(problem: Problem, folds: Int64, first: Point) -> Choice:
    """The strength with the least held-out NLL.

    The strength of the intercepts is chosen with a diagonal matrix, then the strength off the
    diagonal. `first` is the temperature, where every descent begins.
    """
    path = [Strength(intercepts, intercepts) for intercepts in INTERCEPTS]
    choice = _best(problem, folds, path, first._replace(m=None))
    if first.m is None:
        return choice
    path = [Strength(off, choice.strength.intercepts) for off in OFF_DIAGONAL]
    return _best(problem, folds, path, first)


def _best(problem: Problem, folds: Int64, path: list[Strength], first: Point) -> Choice:
    """The best strength of a path, which ends when the held-out loss grows.

    Each fold's fit starts where its last one ended.
    """
    points = [first] * (int(folds.max()) + 1)
    losses: list[float] = []
    for strength in path:
        points = [
            _refit(problem.part(folds != fold), strength, point)
            for fold, point in enumerate(points)
        ]
        losses.append(_held_out_loss(problem, folds, points))
        if losses[-1] > min(losses) * (1 + _WORSE):
            break
    best = int(np.argmin(losses))
    return Choice(path[best], losses[best], loss(problem, first._replace(m=None)))


def _refit(kept: Problem, strength: Strength, point: Point) -> Point:
    return descend(kept, strength, point, _TOLERANCE, _STEPS)[0]


def _held_out_loss(problem: Problem, folds: Int64, points: list[Point]) -> float:
    """The mean NLL of all rows, each under the fit that did not see it."""
    shares = [float(problem.u[folds == fold].sum()) for fold in range(len(points))]
    parts = (loss(problem.part(folds == fold), point) for fold, point in enumerate(points))
    return sum(share * part for share, part in zip(shares, parts, strict=True))


def folds_of(z: Float64) -> Int64:
    """The fold of each row, by a hash of its content: equal rows share a fold, in any order.

    So a row of weight two equals the row twice, and no row is tested on its own copy.
    """
    odd = np.random.default_rng(0).integers(0, 2**63, z.shape[1], np.uint64) * np.uint64(2)
    # In float32, so that logits in either precision fall into the same folds.
    single = np.ascontiguousarray(z, np.float32).view(np.uint32).astype(np.uint64)
    mixed = single @ (odd + np.uint64(1))
    _, rank = np.unique(mixed, return_inverse=True)
    folds = _FOLDS if z.shape[1] < _MANY_CLASSES else _FEWER_FOLDS
    return np.asarray(rank.reshape(-1) % folds, np.int64)
