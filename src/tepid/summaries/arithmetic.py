"""Addition, multiplication by a number and comparison, shared by all summaries.

A summary is a frozen dataclass. The fields in its `PARAMETERS` define what was summed and must
agree before two summaries are added; all other fields are sums over rows.
"""

import dataclasses
import functools
from typing import Any, TypeVar

import numpy as np

from tepid.errors import InputError

Summary = TypeVar("Summary")


def added(a: Summary, b: Summary) -> Summary:
    """The summary of both sets of rows; refuses, naming both, where the parameters differ."""
    if type(a) is not type(b):
        kinds = f"{type(a).__name__} and {type(b).__name__}"
        raise InputError(f"summaries must be of one kind to add, got {kinds}")
    for field in _fields(a, parameters=True):
        one, two = getattr(a, field), getattr(b, field)
        if one is not two and not np.array_equal(one, two):
            kind = type(a).__name__
            raise InputError(f"{kind} summaries must share their {field}, got {one} and {two}")
    return _replaced(a, {f: getattr(a, f) + getattr(b, f) for f in _fields(a, parameters=False)})


def scaled(a: Summary, factor: float) -> Summary:
    """The summary of rows that each count `factor` times."""
    return _replaced(a, {f: factor * getattr(a, f) for f in _fields(a, parameters=False)})


def close(a: Summary, b: Summary, tolerance: float = 1e-9) -> bool:
    """Whether the parameters agree and each sum does, relative to its array's largest entry."""
    if not all(np.array_equal(getattr(a, f), getattr(b, f)) for f in _fields(a, parameters=True)):
        return False
    return all(
        _close(np.asarray(getattr(a, f)), np.asarray(getattr(b, f)), tolerance)
        for f in _fields(a, parameters=False)
    )


def _close(a: Any, b: Any, tolerance: float) -> bool:
    largest = max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0))
    return bool((np.abs(a - b) <= tolerance * largest).all())


def _fields(a: Any, *, parameters: bool) -> tuple[str, ...]:
    kind: Any = type(a)
    return tuple(name for name in _names(kind) if (name in kind.PARAMETERS) is parameters)


@functools.cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _replaced(a: Summary, values: dict[str, Any]) -> Summary:
    return dataclasses.replace(a, **values)  # type: ignore[type-var]  # a dataclass
