r"""The minimum of NLL plus ODIR over diagonal and off-diagonal weights and intercepts.

The matrix is kept as $W = \mathrm{diag}(w) + M$ with the ridge on all of M: since w is free, M has
no diagonal at the optimum, and what is left is the off-diagonal penalty. The intercepts are one
more column of M, whose feature is the constant $\sqrt{\lambda / (\mu (K-1))}$, which turns
$\mu\|b\|^2/K$ into the same ridge. So one number, $\lambda/(K(K-1))$, is the penalty of every
entry, and M can be rotated into axes along which the loss is close to round.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from tepid.arrays import Float64
from tepid.kernels.residuals import residuals
from tepid.scaling import extras
from tepid.scaling.problem import Point, Problem, scores, slopes

# Curvatures below these shares of the largest count as these: a direction that the data hardly
# see must not be stretched without bound.
_FLATTEST_CLASS, _FLATTEST_FEATURE = 1e-3, 1e-6
_TINY = 1e-12
# A mean loss below this, with nothing to hold it, has no minimum: the rows are told apart.
_SEPARATED = 4e-4
# After how many steps the axes are found anew.
_FIRST = (10, 20)


class Strength(NamedTuple):
    """The regularisation of what is off the diagonal, and of the intercepts."""

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


def descend(
    problem: Problem, strength: Strength, at: Point, tolerance: float, most: int
) -> tuple[Point, bool]:
    """The minimum by SciPy's L-BFGS-B, and whether it was reached in the steps allowed.

    It is reached when the loss changes by less than the tolerance, or when it is all but zero with
    nothing to hold it: then there is no minimum, only a direction in which it falls for ever. The
    axes are found anew after the first steps, which lead far from where they were right.
    """
    ended = False
    for steps in (*_FIRST, most):
        if not ended:
            at, ended = _descended(problem, strength, at, _moments(problem, at), (tolerance, steps))
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
    for rows in problem.blocks():
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


def _descended(
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

    found = extras.minimize()(
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
