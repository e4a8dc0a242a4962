"""Tables of text: numbers separated by commas, semicolons or tabs, with or without a header.

A column called `label` or `labels` is no logit; it holds the labels. Nor is one called `weight` or
`group`, one without a name, which is how an index is written, or a first one called `id` or `index`
that begins with a whole number. A first row of 0, 1, 2, … is a header, as of columns that have no
names.
"""

import csv
import io
import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tepid.errors import InputError, RowError
from tepid.sources import places, remote, streams
from tepid.sources.columns import ASIDE, GROUPS, LABELS, WEIGHTS

# The names of a column that holds what is wanted of a table.
_MEANT = {"labels": LABELS, "sample_weight": WEIGHTS, "groups": GROUPS}
_NUMBERING = ("id", "ids", "index", "row", "row_id", "unnamed: 0")


@dataclass(frozen=True)
class Form:
    """How a table is written and which of its columns are wanted, None for all."""

    name: str
    delimiter: str
    header: bool
    names: list[str]
    columns: list[int] | None

    @property
    def width(self) -> int:
        """How many cells a row has."""
        return len(self.names)


def reader(
    place: str, fragment: str, member: str, without: Collection[str] = ()
) -> tuple[Callable[[int], Iterator[Any]], int]:
    """A function that reads the wanted columns block by block, afresh, and their number."""
    form = formed(place, fragment, member, without)

    def read(rows: int) -> Iterator[Any]:
        for start, text in portions(place, form, rows):
            yield numbers(form, text, start)

    return read, form.width if form.columns is None else len(form.columns)


def portions(place: str, form: Form, rows: int) -> Iterator[tuple[int, list[str]]]:
    """The lines below the header, so many at a time, each portion with its first row's number."""
    lines = itertools.islice(streams.lines(place, form.name), int(form.header), None)
    start = 0
    while text := list(itertools.islice(lines, rows)):
        yield start, text
        start += len(text)


def estimated_rows(place: str) -> int | None:
    """About how many rows a table has, by the length of its first ones; None where none can say."""
    if remote.is_url(place) or places.suffix(place) != ".csv":
        return None
    file = Path(place)
    with file.open("rb") as stream:
        start = stream.read(1 << 16)
    lines = start.count(b"\n")
    whole = start[: start.rfind(b"\n") + 1]
    return round(file.stat().st_size * lines / len(whole)) if lines else None


def text_column(place: str, fragment: str, member: str) -> list[str]:
    """A column of a table as it is written: that of this name, or the one that it must mean."""
    form = formed(place, fragment, member)
    column, *others = form.columns or range(form.width)
    if others:
        known = ", ".join(form.names) if form.header else "none with a name"
        raise InputError(f"{form.name} must have a column {member!r}, got {known}")
    return [
        cell
        for start, text in portions(place, form, 1 << 16)
        for cell in texts(form, text, column, start)
    ]


def texts(form: Form, text: list[str], column: int, start: int) -> list[str]:
    """The cells of one column as they are written."""
    check_width(form, text, start)
    return [_cells(line, form.delimiter)[column].strip() for line in text]


def formed(
    place: str, fragment: str, member: str, without: Collection[str] = (), name: str = ""
) -> Form:
    """How a table is written, by its first line, and which columns are wanted."""
    name = name or places.base(place)
    first, second = [*itertools.islice(streams.lines(place, name), 2), "", ""][:2]
    delimiter = next((d for d in ",;\t" if d in first), ",")
    names = [cell.strip() for cell in _cells(first, delimiter)]
    counted = len(names) > 2 and names == [str(i) for i in range(len(names))]
    header = counted or not all(_is_number(cell) for cell in names)
    below = next(iter(_cells(second, delimiter)), "").strip()
    numbered = [n for n in names[:1] if n.lower() in _NUMBERING and below.isdecimal()]
    columns = _columns(name, fragment, member, names if header else [], numbered)
    if header and columns is not None:
        columns = [i for i in columns if names[i] not in without]
    return Form(name, delimiter, header, names, columns)


def _columns(
    file: str, fragment: str, member: str, names: list[str], numbered: list[str]
) -> list[int] | None:
    if fragment:
        if fragment not in names:
            known = ", ".join(names) or "none with a name"
            raise InputError(f"{file} must have a column {fragment!r}, got {known}")
        return [names.index(fragment)]
    meant = [i for i, name in enumerate(names) if name.lower() in _MEANT.get(member, ())]
    named = [i for i, name in enumerate(names) if name]
    free = [i for i in named if names[i].lower() not in ASIDE and names[i] not in numbered]
    if names and not free and member == "logits":
        raise InputError(f"{file} must have columns of logits, got {', '.join(names)}")
    return meant or free or named or None


def check_width(form: Form, text: list[str], start: int) -> None:
    """Refuse a row that has more or fewer cells than the first line."""
    for row, line in enumerate(text):
        cells = len(_cells(line, form.delimiter)) if '"' in line else line.count(form.delimiter) + 1
        if cells != form.width:
            must = f"have {form.width} cells in every row"
            raise RowError(form.name, must, f"{cells} cells", start + row)


def numbers(form: Form, text: list[str], start: int) -> Any:
    """The wanted columns of some lines as float64, (n, columns)."""
    check_width(form, text, start)
    try:
        return np.loadtxt(
            io.StringIO("".join(text)), np.float64, comments=None, delimiter=form.delimiter,
            usecols=form.columns, ndmin=2, quotechar='"',
        )  # fmt: skip
    except ValueError as error:
        raise _bad_cell(form, text, start, error) from None


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line.strip("\r\n")], delimiter=delimiter), [])


def _bad_cell(form: Form, text: list[str], start: int, error: ValueError) -> InputError:
    for row, line in enumerate(text):
        cells = _cells(line, form.delimiter)
        for i in form.columns if form.columns is not None else range(form.width):
            if not _is_number(cells[i]):
                column = f" in column {form.names[i]!r}" if form.header else ""
                got = f"{cells[i].strip()!r}{column}"
                return RowError(form.name, "hold numbers", got, start + row)
    return InputError(f"{form.name} must be a table of numbers, got {error}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python's own notation, which is no table's
