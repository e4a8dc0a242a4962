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
    """What is wrong with a line; `at` adds the file and the number of the line."""

    def __init__(self, must: str, got: str) -> None:
        self.must, self.got = must, got
        super().__init__(f"a line must {must}, got {got}")

    def at(self, name: str, line: int) -> InputError:
        """The same with its place."""
        return InputError(f"{name} must {self.must}, got {self.got} at line {line}")


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
                yield number, _record(line, name, number)


def _record(line: str, name: str, number: int) -> dict[str, Any]:
    try:
        if not line.isascii():
            line.encode()
        found = json.loads(line)
    except RecursionError:
        raise LineError("hold plain JSON", "too deep a nesting").at(name, number) from None
    except UnicodeEncodeError:
        raise LineError("be UTF-8 text", "other bytes").at(name, number) from None
    except ValueError as error:
        raise LineError(
            "hold one JSON object in each line", f"{shown(line)} ({str(error)[:80]})"
        ).at(name, number) from None
    if not isinstance(found, dict):
        raise LineError("hold one JSON object in each line", shown(found)).at(name, number)
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
