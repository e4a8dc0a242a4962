"""JSON lines: one object in each line, read strictly; every error names the line."""

import contextlib
import json
import math
import reprlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tepid.errors import InputError, reading
from tepid.sources import paths

# Neither deep nor long values fill the screen or the stack.
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


class LineError(InputError):
    """What is wrong with a line; `in_line` adds the file and the number of the line."""

    def __init__(self, must: str, got: str) -> None:
        self.must, self.got = must, got
        super().__init__(f"a line must {must}, got {got}")


@contextlib.contextmanager
def in_line(name: str, number: int) -> Iterator[None]:
    """Name the file and the line in errors about a line."""
    try:
        yield
    except LineError as error:
        must, got = error.must, error.got
        raise InputError(f"{name} must {must}, got {got} at line {number}") from None


class Answer(NamedTuple):
    """The logits of a line, and the positions of those that are only an upper bound."""

    logits: list[float]
    bounded: tuple[int, ...] = ()


def read_records(path: str, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file with the numbers of their lines, one in memory at a time.

    Blank lines are skipped.
    """
    with reading(name), paths.open_text(path) as file:
        file.reconfigure(errors="surrogateescape")  # so that the line of a wrong byte is known
        for number, line in enumerate(paths.text_lines(file, name), start=1):
            if line.strip():
                with in_line(name, number):
                    record = _parse(line)
                yield number, record


def _parse(line: str) -> dict[str, Any]:
    try:
        if not line.isascii():
            line.encode()
        found = json.loads(line)
    except RecursionError:
        raise LineError("hold plain JSON", "too deep a nesting") from None
    except UnicodeEncodeError:
        raise LineError("be UTF-8 text", "other bytes") from None
    except ValueError as error:
        got = f"{shown(line)} ({str(error)[:80]})"
        raise LineError("hold one JSON object in each line", got) from None
    if not isinstance(found, dict):
        raise LineError("hold one JSON object in each line", shown(found))
    return found


def find_field(record: Mapping[str, Any], name: str) -> Any:
    """A field of a line by its name, or by names with dots between for one inside another."""
    if name in record:
        return record[name]
    found: Any = record
    for key in name.split("."):
        if not isinstance(found, Mapping) or key not in found:
            raise LineError(f"have the field {name}", list_fields(record))
        found = found[key]
    return found


def list_fields(record: Mapping[str, Any]) -> str:
    """The names of the fields, for errors."""
    return ", ".join(str(name)[:40] for name in list(record)[:20]) or "no fields"


def finite(value: Any, what: str, *, text: bool = False) -> float:
    """A finite number; `text` allows one that is written as text."""
    written = text and isinstance(value, str) and "_" not in value
    if written or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        with contextlib.suppress(ValueError, OverflowError):
            number = float(value)
            if math.isfinite(number):
                return number
    raise LineError(f"have finite numbers as {what}", shown(value))


def shown(value: Any) -> str:
    """A value for an error, cut."""
    return _SHORT.repr(value)
