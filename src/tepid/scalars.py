"""Single numbers that a caller gives: their kind, before anybody asks for their size."""

import operator
from typing import Any

from tepid.errors import InputError


def whole(value: Any, name: str) -> int:
    """A whole number, or a refusal; neither 1.0 nor "1" nor True is one.

    >>> whole(3, "bins")
    3
    """
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise InputError(f"{name} must be a whole number, got {value!r}")


def number(value: Any, name: str) -> float:
    """A real number, infinite and NaN included, or a refusal.

    >>> number(3, "budget")
    3.0
    """
    if not isinstance(value, (str, bytes)):
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
    raise InputError(f"{name} must be a number, got {value!r}")
