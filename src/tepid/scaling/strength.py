"""How strong a regularisation should be: cross-validation along a path, from strong to weak."""

from typing import NamedTuple

import numpy as np

from tepid.arrays import Float64, Int64
from tepid.scaling.descent import Strength, descend
from tepid.scaling.problem import Point, Problem, loss

# Fewer folds where one fit takes seconds.
_FOLDS, _FEWER_FOLDS, _MANY_CLASSES = 5, 3, 500
# From nothing to all but free. Off the diagonal there are K times as many weights.
INTERCEPTS = (1e2, 1e1, 1.0, 1e-1, 1e-2, 1e-3, 1e-4)
OFF_DIAGONAL = (1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1.0, 1e-1, 1e-2, 1e-3)
# A path is left when the loss on rows left out has grown by this share of the least so far.
_WORSE = 1e-3
_TOLERANCE, _STEPS = 1e-6, 100


class Choice(NamedTuple):
    """The strength chosen, its mean NLL on rows left out, and that of the temperature."""

    strength: Strength
    left_out: float
    temperature: float


def chosen(problem: Problem, folds: Int64, first: Point) -> Choice:
    """The strength with the least NLL on rows left out.

    That of the intercepts is chosen for a diagonal, and that of the rest with it. `first` is the
    temperature, where every descent begins.
    """
    path = [Strength(intercepts, intercepts) for intercepts in INTERCEPTS]
    choice = _best(problem, folds, path, first._replace(m=None))
    if first.m is None:
        return choice
    path = [Strength(off, choice.strength.intercepts) for off in OFF_DIAGONAL]
    return _best(problem, folds, path, first)


def _best(problem: Problem, folds: Int64, path: list[Strength], first: Point) -> Choice:
    """The best of a path, which is followed until things grow worse.

    Each fold's fit starts where its last one ended.
    """
    points = [first] * (int(folds.max()) + 1)
    losses: list[float] = []
    for strength in path:
        points = [
            _refitted(problem.part(folds != fold), strength, point)
            for fold, point in enumerate(points)
        ]
        losses.append(_left_out(problem, folds, points))
        if losses[-1] > min(losses) * (1 + _WORSE):
            break
    best = int(np.argmin(losses))
    return Choice(path[best], losses[best], loss(problem, first._replace(m=None)))


def _refitted(kept: Problem, strength: Strength, point: Point) -> Point:
    return descend(kept, strength, point, _TOLERANCE, _STEPS)[0]


def _left_out(problem: Problem, folds: Int64, points: list[Point]) -> float:
    """The mean NLL of all rows, each by the fit that did not see it."""
    shares = [float(problem.u[folds == fold].sum()) for fold in range(len(points))]
    parts = (loss(problem.part(folds == fold), point) for fold, point in enumerate(points))
    return sum(share * part for share, part in zip(shares, parts, strict=True))


def folds_of(z: Float64) -> Int64:
    """Which fold each row belongs to, by its content: equal rows share one, in whatever order.

    So a row of weight two counts as the row twice, and no row is judged by its own copy.
    """
    odd = np.random.default_rng(0).integers(0, 2**63, z.shape[1], np.uint64) * np.uint64(2)
    # In float32, so that the same logits in either precision fall into the same folds.
    single = np.ascontiguousarray(z, np.float32).view(np.uint32).astype(np.uint64)
    mixed = single @ (odd + np.uint64(1))
    _, rank = np.unique(mixed, return_inverse=True)
    folds = _FOLDS if z.shape[1] < _MANY_CLASSES else _FEWER_FOLDS
    return np.asarray(rank.reshape(-1) % folds, np.int64)
