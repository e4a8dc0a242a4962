"""What all summaries share: arithmetic, comparison and files; and the softmax of a batch."""

import dataclasses
import os
from typing import Any, ClassVar, Self

import numpy as np

from tepid import kernels, store, validation
from tepid.errors import InputError
from tepid.validation import Array, Float64


class Summary:
    """The base of summaries, which are frozen dataclasses.

    The fields in `PARAMETERS` define what was summed and must agree before two summaries are added.
    All other fields are sums over rows, or None in both.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ()

    def __add__(self, other: Self) -> Self:
        """The summary of both sets of rows; refuses, naming both, where the parameters differ."""
        if type(self) is not type(other):
            kinds = f"{type(self).__name__} and {type(other).__name__}"
            raise InputError(f"summaries must be of one kind to add, got {kinds}")
        for name in self.PARAMETERS:
            one, two = getattr(self, name), getattr(other, name)
            if one is not two and not np.array_equal(one, two):
                kind = type(self).__name__
                raise InputError(f"{kind} summaries must share their {name}, got {one} and {two}")
        theirs = other._sums()
        return self._replaced(
            {
                name: None if own is None else own + theirs[name]
                for name, own in self._sums().items()
            }
        )

    def __mul__(self, factor: float) -> Self:
        """The summary of rows that each count `factor` times."""
        return self._replaced({name: factor * own for name, own in self._sums().items()})

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        """Whether the parameters agree and each sum does, to 1e-9 of its array's largest entry."""
        if type(self) is not type(other):
            return False
        theirs = other._sums()
        return all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in self.PARAMETERS
        ) and all(_close(np.asarray(own), theirs[name]) for name, own in self._sums().items())

    __hash__ = None  # type: ignore[assignment]  # equality to a tolerance has no hash

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to `.npz`."""
        store.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return what `save` wrote; raises `InputError` if the file is damaged."""
        return store.load(path, {cls: cls.check})

    def check(self) -> None:
        """Refuse sums that no rows can have, as a damaged file may hold them; by default none."""

    def _sums(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self.PARAMETERS}

    def _replaced(self, sums: dict[str, Any]) -> Self:
        return dataclasses.replace(self, **sums)  # type: ignore[type-var]  # a dataclass


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
