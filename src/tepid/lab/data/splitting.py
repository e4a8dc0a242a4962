"""Stratified splits: every class has the same share in both parts."""

from typing import Any

import numpy as np

from tepid.errors import InputError


def stratified(labels: Any, part: float, seed: int, groups: Any = None) -> tuple[Any, Any]:
    """The rows of the rest and of a part of so large a share, each in order.

    The part has `round(part · n)` rows, and of each class as many as its share asks for, by
    largest remainder: of 10015 rows 0.4 are 4006, of which 0.2 are 801 and the rest 3205.

    With `groups`, rows of one group stay together, and the sizes are as near as groups allow. A
    group belongs to the class of its first row.

    >>> rest, part = stratified([0, 0, 0, 0, 0, 1, 1, 1, 1, 1], 0.4, seed=0)
    >>> len(rest), np.bincount(np.array([0] * 5 + [1] * 5)[part])
    (6, array([2, 2]))
    """
    if not 0 < part < 1:
        raise InputError(f"part must be between 0 and 1, got {part}")
    labels = np.asarray(labels)
    rng = np.random.default_rng(seed)
    if groups is None:
        taken = _taken(labels, _quotas(labels, part), rng)
    else:
        taken = _taken_whole(labels, np.asarray(groups), part, rng)
    mask = np.zeros(len(labels), dtype=bool)
    mask[taken] = True
    return np.flatnonzero(~mask), np.flatnonzero(mask)


def _quotas(labels: Any, part: float) -> Any:
    """How many rows of each class belong to the part."""
    wanted = part * np.bincount(labels)
    quotas = np.floor(wanted).astype(int)
    missing = round(part * len(labels)) - quotas.sum()
    quotas[np.argsort(quotas - wanted, kind="stable")[:missing]] += 1
    return quotas


def _taken(labels: Any, quotas: Any, rng: np.random.Generator) -> Any:
    rows = [rng.permutation(np.flatnonzero(labels == k))[:n] for k, n in enumerate(quotas)]
    return np.concatenate(rows)


def _taken_whole(labels: Any, groups: Any, part: float, rng: np.random.Generator) -> Any:
    """Whole groups, of each class until its share is passed by less than half of the last one."""
    _, first, member = np.unique(groups, return_index=True, return_inverse=True)
    sizes, kinds = np.bincount(member), labels[first]
    chosen = np.zeros(len(first), dtype=bool)
    for kind in np.unique(kinds):
        own = rng.permutation(np.flatnonzero(kinds == kind))
        ends = np.cumsum(sizes[own])
        chosen[own[ends - sizes[own] / 2 <= part * ends[-1]]] = True
    return np.flatnonzero(chosen[member])
