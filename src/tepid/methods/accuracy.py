"""The forms of a known accuracy, and its standard error."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tepid.errors import InputError
from tepid.methods.passes import Key
from tepid.validation import number, replace_fields, whole

# The standard error of an accuracy that is given without one.
STATED = 0.02
# A number in text, perhaps in percent.
_NUMBER = r"\s*([0-9.]+(?:e-?[0-9]+)?)\s*(%?)\s*"


@dataclass(frozen=True)
class Counted:
    """An accuracy that was counted: `correct` predictions of `checked`.

    >>> estimate(Counted(186, 200))
    Estimate(value=0.926, error=0.0184)
    """

    correct: int
    checked: int

    def __post_init__(self) -> None:
        correct, checked = whole(self.correct, "correct"), whole(self.checked, "checked")
        if checked < 1 or not 0 <= correct <= checked:
            raise InputError(f"correct must be in 0 to {checked} of at least one, got {correct}")
        replace_fields(self, correct=correct, checked=checked)


@dataclass(frozen=True)
class Range:
    """An accuracy that is about certain to lie in a range: two standard errors on both sides."""

    low: float
    high: float

    def __post_init__(self) -> None:
        replace_fields(self, low=_share(self.low), high=_share(self.high))
        if self.low > self.high:
            raise InputError(f"accuracy must be a range from low to high, got {self}")


@dataclass(frozen=True)
class Estimate:
    """An accuracy and its standard error."""

    value: float
    error: float


Accuracy: TypeAlias = float | tuple[float, float] | Counted | Range


def estimate(accuracy: Any) -> Estimate:
    """The number and standard error of an accuracy in any form."""
    if isinstance(accuracy, str):
        return estimate(parse_accuracy(accuracy))
    if isinstance(accuracy, Estimate):
        return accuracy
    if isinstance(accuracy, Counted):
        # The posterior of a share under a uniform prior.
        mean = (accuracy.correct + 1) / (accuracy.checked + 2)
        return Estimate(mean, math.sqrt(mean * (1 - mean) / (accuracy.checked + 3)))
    if isinstance(accuracy, Range):
        return Estimate((accuracy.low + accuracy.high) / 2, (accuracy.high - accuracy.low) / 4)
    if isinstance(accuracy, (tuple, list)):
        if len(accuracy) != 2:
            raise InputError(
                f"accuracy must be (value, standard error), got {len(accuracy)} numbers"
            )
        return Estimate(_share(accuracy[0]), _error(accuracy[1]))
    return Estimate(_share(accuracy), STATED)


def estimate_groups(
    accuracy: Mapping[str, Any],
    weights: Mapping[str, float],
    form: Callable[[Any], Estimate] = estimate,
) -> dict[Key, Estimate]:
    """The accuracy of each group, and under None that of all rows, from the groups' weights."""
    given: dict[Key, Estimate] = {str(name): form(value) for name, value in accuracy.items()}
    if not weights or given.keys() != weights.keys():
        wrong = sorted(str(name) for name in given.keys() ^ weights.keys())
        raise InputError(f"accuracy must have one entry for each group, got a mismatch at {wrong}")
    total = math.fsum(weights.values())
    shares = {name: weight / total for name, weight in weights.items()}
    value = math.fsum(share * given[name].value for name, share in shares.items())
    error = math.hypot(*(share * given[name].error for name, share in shares.items()))
    return given | {None: Estimate(value, error)}


def parse_accuracy(text: str) -> Accuracy:
    """An accuracy as people type it: 0.93, 93%, 0.93±0.01 (or +-), 186/200, 0.91..0.95.

    >>> parse_accuracy("186/200")
    Counted(correct=186, checked=200)
    """
    plain = text.replace("+-", "±").replace("+/-", "±")
    if counted := re.fullmatch(r"\s*([0-9]{1,15})\s*/\s*([0-9]{1,15})\s*", plain):
        return Counted(int(counted[1]), int(counted[2]))
    if ends := re.fullmatch(rf"{_NUMBER}\.\.{_NUMBER}", plain.replace("...", "..")):
        return Range(*_numbers(text, ends.groups()))
    if stated := re.fullmatch(rf"{_NUMBER}±{_NUMBER}", plain):
        value, error = _numbers(text, stated.groups())
        return _share(value), _error(error)
    if alone := re.fullmatch(_NUMBER, plain):
        return _share(_numbers(text, alone.groups())[0])
    raise _unreadable(text)


def _numbers(text: str, found: tuple[Any, ...]) -> list[float]:
    """Numbers with their signs of percent; one sign at the end counts for all that need it.

    In 93±1% it counts for both, in 0.93±1% for the error alone.
    """
    signs = found[1::2]
    try:
        numbers = [float(part) for part in found[::2]]
    except ValueError:
        raise _unreadable(text) from None
    if any(signs) and not signs[-1]:
        raise _unreadable(text)
    if not signs[-1]:
        return numbers
    if not signs[0] and numbers[0] <= 1:
        if "±" not in text.replace("+-", "±").replace("+/-", "±"):
            raise _unreadable(text)
        return [numbers[0], numbers[1] / 100]
    return [number / 100 for number in numbers]


def _unreadable(text: str) -> InputError:
    return InputError(
        f"accuracy must be like 0.93, 93%, 0.93±0.01, 186/200 or 0.91..0.95, got {text}"
    )


def _share(value: Any) -> float:
    share = math.nan if isinstance(value, bool) else number(value, "accuracy")
    if not 0 <= share <= 1:
        forms = "; a count is tepid.Counted(correct, checked)" if share > 1 else ""
        raise InputError(f"accuracy must be in [0, 1], got {value!r}{forms}")
    return share


def _error(value: Any) -> float:
    error = number(value, "standard error of accuracy")
    if not 0 <= error < 1:
        raise InputError(f"standard error of accuracy must be in [0, 1), got {value!r}")
    return error
