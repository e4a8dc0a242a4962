r"""The fit of an affine map: minimize NLL plus ODIR, and choose ODIR's strength.

A map is one array: (k, k + 1), the matrix and the intercepts as its last column, or (k, 2), the
diagonal and the intercepts. ODIR is a penalty of each entry's square: $\lambda / (K(K-1))$ off the
diagonal, none on it, and $\mu / K$ on the intercepts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tepid.kernels import residuals
from tepid.scaling.calibrator import minimize
from tepid.validation import Array, Float64, Int64

# A batch's scores fit in the processor's cache, and its rows suffice for a fast product.
_SCORES, _ROWS = 1 << 15, 256
# A curvature below this share of its column's largest counts as this: a direction that the data
# hardly see must not be stretched without bound.
_FLATTEST, _TINY = 1e-3, 1e-12
# An unregularized mean loss below this has no minimum: the classes are separable.
_SEPARATED = 4e-4
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

    def batches(self) -> Iterator["Problem"]:
        """The rows in batches whose scores fit in the cache; weights are as in the whole."""
        n, k = len(self.y), self.inputs.shape[1]
        step = max(_SCORES // k, _ROWS)
        return (self.rows(slice(start, start + step)) for start in range(0, n, step))

    def rows(self, chosen: slice | Array) -> "Problem":
        """Some of the rows."""
        masked = None if self.masked is None else self.masked[chosen]
        return Problem(self.inputs[chosen], masked, self.y[chosen], self.u[chosen])

    def part(self, chosen: Array) -> "Problem":
        """Some of the rows, their weights again summing to one."""
        part = self.rows(chosen)
        return Problem(part.inputs, part.masked, part.y, part.u / part.u.sum())


class Strength(NamedTuple):
    """The regularization of what is off the diagonal, and of the intercepts."""

    off_diagonal: float
    intercepts: float

    def penalty(self, table: Float64) -> Float64:
        """The factor of each entry's square."""
        k = len(table)
        penalty = np.zeros(table.shape)
        if is_full(table):
            penalty[:] = self.off_diagonal / (k * (k - 1))
            np.fill_diagonal(penalty, 0.0)
        penalty[:, -1] = self.intercepts / k
        return penalty


class Choice(NamedTuple):
    """The chosen strength, its mean held-out NLL, and the NLL of the temperature alone."""

    strength: Strength
    held_out: float
    temperature: float


def one_slope(slope: float, classes: int, *, full: bool) -> Float64:
    """The map that multiplies every feature by the slope: temperature scaling."""
    matrix = slope * np.eye(classes) if full else np.full((classes, 1), slope)
    return np.column_stack([matrix, np.zeros(classes)])


def is_full(table: Float64) -> bool:
    """Whether a map has a matrix and not only a diagonal; there are at least two classes."""
    return bool(table.shape[1] > 2)


def loss(problem: Problem, table: Float64) -> float:
    """The weighted mean NLL."""
    return float(sum(residuals(scores(b, table), b.y, b.u) for b in problem.batches()))


def slopes(problem: Problem, table: Float64) -> tuple[float, Float64]:
    """The NLL and its gradient."""
    total, by = 0.0, np.zeros(table.shape)
    for batch in problem.batches():
        s = scores(batch, table)
        total += residuals(s, batch.y, batch.u)
        by += _products(s, batch.inputs, full=is_full(table))
    return total, by


def scores(problem: Problem, table: Float64) -> Float64:
    """The map of all rows, `-inf` where masked."""
    s: Float64
    if is_full(table):
        s = problem.inputs @ table.T
    else:
        s = problem.inputs[:, :-1] * table[:, 0]
        s += table[:, 1]
    if problem.masked is not None:
        s[problem.masked] = -np.inf
    return s


def _products(s: Float64, inputs: Float64, *, full: bool) -> Float64:
    """The sum over rows of s times the inputs, for every entry of a map."""
    if full:
        return np.asarray(s.T @ inputs)
    return np.column_stack([np.einsum("ij,ij->j", s, inputs[:, :-1]), s.sum(axis=0)])


def _curvature(problem: Problem, table: Float64) -> Float64:
    """The second derivative of the NLL by each entry alone."""
    total = np.zeros(table.shape)
    for batch in problem.batches():
        p = scores(batch, table)
        residuals(p, batch.y, np.ones(len(p)))
        p[np.arange(len(p)), batch.y] += 1
        p *= batch.u[:, None] * (1 - p)
        total += _products(p, batch.inputs**2, full=is_full(table))
    least = np.maximum(_FLATTEST * total.max(axis=0), _TINY)
    return np.asarray(np.maximum(total, least))


def descend(
    problem: Problem, strength: Strength, first: Float64, tolerance: float, most: int
) -> tuple[Float64, bool]:
    """The minimum by SciPy's L-BFGS-B, and whether it was reached within `most` steps.

    It is reached when the loss changes by less than the tolerance, or when an unregularized loss
    is nearly zero: then there is no minimum. Every entry is scaled by its curvature at `first`.
    """
    penalty = strength.penalty(first)
    scale = 1 / np.sqrt(_curvature(problem, first) + 2 * penalty)

    def value(v: Float64) -> tuple[float, Float64]:
        table = scale * v.reshape(scale.shape)
        total, by = slopes(problem, table)
        total += float(np.vdot(penalty * table, table))
        return total, (scale * (by + 2 * penalty * table)).ravel()

    def separated(intermediate_result: Any) -> None:
        if not penalty.any() and intermediate_result.fun < _SEPARATED:
            raise StopIteration

    options = {"ftol": tolerance, "gtol": 1e-9, "maxiter": most, "maxfun": 2 * most}
    found = minimize(
        value, (first / scale).ravel(), method="L-BFGS-B", options=options, callback=separated
    )
    return scale * found.x.reshape(scale.shape), bool(found.status != 1)


def choose_strength(problem: Problem, folds: Int64, first: Float64) -> Choice:
    """The strength with the least held-out NLL.

    The strength of the intercepts is chosen with a diagonal matrix, then the strength off the
    diagonal. `first` is the temperature, where every descent begins.
    """
    path = [Strength(intercepts, intercepts) for intercepts in INTERCEPTS]
    diagonal = one_slope(first[0, 0], len(first), full=False)
    choice = _best(problem, folds, path, diagonal)
    if not is_full(first):
        return choice
    path = [Strength(off, choice.strength.intercepts) for off in OFF_DIAGONAL]
    return _best(problem, folds, path, first)


def _best(problem: Problem, folds: Int64, path: list[Strength], first: Float64) -> Choice:
    """The best strength of a path, which ends when the held-out loss grows.

    Each fold's fit starts where its last one ended.
    """
    tables = [first] * (int(folds.max()) + 1)
    losses: list[float] = []
    for strength in path:
        tables = [
            descend(problem.part(folds != fold), strength, table, _TOLERANCE, _STEPS)[0]
            for fold, table in enumerate(tables)
        ]
        # Each row counts under the fit that did not see it.
        losses.append(sum(loss(problem.rows(folds == f), t) for f, t in enumerate(tables)))
        if losses[-1] > min(losses) * (1 + _WORSE):
            break
    best = int(np.argmin(losses))
    return Choice(path[best], losses[best], loss(problem, first))


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
