"""How strong a regularisation should be: cross-validation along a path, from strong to weak."""

from typing import NamedTuple

import numpy as np

from tepid.arrays import Float64, Int64
from tepid.scaling.descent import Strength, descend, moments
from tepid.scaling.problem import Point, Problem, loss

FOLDS = 5
# From nothing to all but free. Off the diagonal there are K times as many weights.
INTERCEPTS = (1e2, 1e1, 1.0, 1e-1, 1e-2, 1e-3, 1e-4)
OFF_DIAGONAL = (1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1.0, 1e-1, 1e-2, 1e-3)
# A fold is left when the loss on its rows has grown by this share of the least so far.
_WORSE = 1e-3
_STOP = (1e-6, 100)


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
    totals, temperature = np.zeros(len(path)), 0.0
    for fold in range(int(folds.max()) + 1):
        out = folds == fold
        share, left = float(problem.u[out].sum()), problem.part(out)
        totals += share * _followed(problem.part(~out), left, path, first)
        temperature += share * loss(left, first._replace(m=None))
    best = int(totals.argmin())
    return Choice(path[best], float(totals[best]), temperature)


def _followed(kept: Problem, left: Problem, path: list[Strength], point: Point) -> Float64:
    """The NLL of the rows left out at each strength, each fit starting where the last one ended.

    Infinite from where things grew worse: the path is followed no further.
    """
    losses, known = np.full(len(path), np.inf), moments(kept, point)
    for i, strength in enumerate(path):
        point, _ = descend(kept, strength, point, known, _STOP)
        losses[i] = loss(left, point)
        if losses[i] > losses.min() * (1 + _WORSE):
            break
    return losses


def folds_of(z: Float64) -> Int64:
    """Which fold each row belongs to, by its content: equal rows share one, in whatever order.

    So a row of weight two counts as the row twice, and no row is judged by its own copy.
    """
    odd = np.random.default_rng(0).integers(0, 2**63, z.shape[1], np.uint64) * np.uint64(2)
    mixed = np.ascontiguousarray(z).view(np.uint64) @ (odd + np.uint64(1))
    _, rank = np.unique(mixed, return_inverse=True)
    return np.asarray(rank.reshape(-1) % FOLDS, np.int64)
