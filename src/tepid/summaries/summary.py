"""What all summaries share: arithmetic and comparison; and the softmax of a batch."""

import dataclasses
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from tepid import kernels, validation
from tepid.errors import InputError
from tepid.validation import Array, Float64


class Summary(Protocol):
    """A frozen dataclass of sums over rows.

    The fields in `PARAMETERS` define what was summed and must agree before two summaries are added.
    All other fields are sums over rows, or None in both. A summary names the functions below as its
    operators: `__add__ = add`, `__mul__ = __rmul__ = scale`, `__eq__ = equal`.
    """

    PARAMETERS: ClassVar[tuple[str, ...]]


S = TypeVar("S", bound=Summary)


def add(a: S, b: S) -> S:
    """The summary of both sets of rows; refuses, naming both, where the parameters differ."""
    if type(a) is not type(b):
        kinds = f"{type(a).__name__} and {type(b).__name__}"
        raise InputError(f"summaries must be of one kind to add, got {kinds}")
    for name in a.PARAMETERS:
        one, two = getattr(a, name), getattr(b, name)
        if one is not two and not np.array_equal(one, two):
            kind = type(a).__name__
            raise InputError(f"{kind} summaries must share their {name}, got {one} and {two}")
    others = _sums(b)
    return _replace(
        a, {name: None if one is None else one + others[name] for name, one in _sums(a).items()}
    )


def scale(a: S, factor: float) -> S:
    """The summary of rows that each count `factor` times."""
    return _replace(a, {name: factor * one for name, one in _sums(a).items()})


def equal(a: Summary, b: object) -> bool:
    """Whether the parameters agree and each sum does, to 1e-9 of its array's largest entry."""
    if type(a) is not type(b):
        return False
    others = _sums(b)
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in a.PARAMETERS) and all(
        _close(np.asarray(one), others[name]) for name, one in _sums(a).items()
    )


def _sums(a: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(a).items() if name not in a.PARAMETERS}


def _replace(a: S, sums: dict[str, Any]) -> S:
    return dataclasses.replace(a, **sums)  # type: ignore[type-var]  # a dataclass


def _close(a: Array, b: Array) -> bool:
    largest = max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0))
    return bool((np.abs(a - b) <= 1e-9 * largest).all())


def softmax(logits: Any, temperature: float = 1.0) -> Float64:
    """The softmax of logits / T as (n, k) in float64; raises and names the row if one is invalid.

    >>> softmax([[0.0, 4.0]], 2.0)
    array([[0.119, 0.881]])
    """
    z = validation.as_array(logits)
    block = validation.as_kernel_input(z)
    p = np.empty(block.shape)
    bad = kernels.softmax(block, 1.0 / temperature, p)
    if bad >= 0:
        raise validation.unusable(z, bad)
    return p
