"""What all summaries share: adding, scaling, comparing, saving.

A summary is a frozen dataclass. The fields it names in `PARAMETERS` say what was summed and must
agree before two summaries add; all others are sums over rows.
"""

import dataclasses
import functools
import os
import zipfile
from typing import Any, TypeVar

import numpy as np

from tepid.errors import InputError
from tepid.replacing import replacing

Summary = TypeVar("Summary")

FORMAT = 1


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


def save(summary: Any, path: str | os.PathLike[str]) -> None:
    """Write a summary as `.npz`: plain arrays, a format number, nothing pickled."""
    fields: Any = {f.name: getattr(summary, f.name) for f in dataclasses.fields(summary)}
    with replacing(path) as file:
        np.savez(file, format=FORMAT, kind=type(summary).__name__, **fields)


def load(kind: type[Summary], path: str | os.PathLike[str]) -> Summary:
    """Read what `save` wrote; refuses another kind of summary and an unknown format by name."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            stored = dict(archive)
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise InputError(f"{path} must be a summary saved by tepid, got another file") from None
    if str(stored.pop("kind", "no kind")) != kind.__name__:
        raise InputError(f"{path} must hold a {kind.__name__} summary, got something else")
    number = int(stored.pop("format", 0))
    if number != FORMAT:
        raise InputError(f"{path} must have summary format {FORMAT}, got format {number}")
    names = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]  # a dataclass
    if stored.keys() != names:
        odd = sorted(stored.keys() ^ names)
        raise InputError(
            f"{path} must hold every field of {kind.__name__}, got a mismatch in {odd}"
        )
    return kind(**{name: a.item() if a.ndim == 0 else a for name, a in stored.items()})
