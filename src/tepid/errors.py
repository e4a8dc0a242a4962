"""Errors and warnings: one sentence each, naming the argument and the row."""

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

# A longer sentence loses its middle, which is mostly a value that the input holds.
_LONGEST = 600


def one_line(text: str) -> str:
    """Text on one line: control characters as Python writes them, and cut if it is long.

    Names of files, columns, groups and classes may hold line breaks.
    """
    text = _cut(text)
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
    return _cut(text)


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 200]} … {text[-190:]}"


class InputError(ValueError):
    """Input that cannot be used; the message is one sentence, on one line, for its giver."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class RowError(InputError):
    """One row is to blame; `moved` says the same of its place in the whole."""

    def __init__(self, name: str, must: str, got: str, row: int) -> None:
        self.name, self.must, self.got, self.row = name, must, got, row
        super().__init__(f"{name} must {must}, got {got} at row {row}")

    def __reduce__(self) -> tuple[type["RowError"], tuple[str, str, str, int]]:
        # Otherwise a worker process could not hand the error to its parent.
        return RowError, (self.name, self.must, self.got, self.row)

    def moved(self, start: int, name: str | None = None) -> "RowError":
        """The same complaint about row `start + row` of the data called `name`."""
        return RowError(name or self.name, self.must, self.got, start + self.row)


class CalibrationWarning(UserWarning):
    """The temperature is unreliable, or so is the way in which it was fitted."""


class ProbabilityWarning(UserWarning):
    """The values look like probabilities and were taken for logits."""


class PerformanceWarning(UserWarning):
    """The work takes longer than it must."""


class LogWarning(UserWarning):
    """An evaluation log has lines that are left out, bounded or processed."""


def require(module: str, extra: str, what: str) -> Any:
    """An optional module, or one sentence that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise InputError(f"{what} needs {package}: pip install 'tepid[{extra}]'") from None


@contextlib.contextmanager
def reading(name: str) -> Iterator[None]:
    """The one place that turns what readers raise for a damaged file into one sentence."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{name} must exist, got no such file") from None
    except Exception as error:  # noqa: BLE001  # readers raise whatever damaged bytes lead to
        said = " ".join((str(error) or type(error).__name__).split())
        raise InputError(f"{name} cannot be read: {said[:300]}") from None
