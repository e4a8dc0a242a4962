"""Tables of text: numbers separated by commas, semicolons or tabs, with or without a header.

A column called `label` or `labels` is no logit; it holds the labels. Nor is a column without a
name, which is how an index is written. A first row of 0, 1, 2, … is a header, as of columns that
have no names.
"""

import csv
import io
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tepid.errors import InputError, RowError


@dataclass(frozen=True)
class _Form:
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
    file: Path, fragment: str, member: str, without: str = ""
) -> tuple[Callable[[int], Iterator[Any]], int]:
    """A function that reads the wanted columns block by block, afresh, and their number."""
    form = _form(file, fragment, member, without)

    def read(rows: int) -> Iterator[Any]:
        lines = _lines(file)
        if form.header:
            next(lines, None)
        start = 0
        while text := list(itertools.islice(lines, rows)):
            yield _numbers(form, text, start)
            start += len(text)

    return read, form.width if form.columns is None else len(form.columns)


def estimated_rows(file: Path) -> int | None:
    """About how many rows a table has, by the length of its first ones; None if there are none."""
    with file.open("rb") as stream:
        start = stream.read(1 << 16)
    lines = start.count(b"\n")
    whole = start[: start.rfind(b"\n") + 1]
    return round(file.stat().st_size * lines / len(whole)) if lines else None


def _lines(file: Path) -> Iterator[str]:
    try:
        with file.open(encoding="utf-8-sig") as lines:
            yield from (line for line in lines if line.strip())
    except UnicodeDecodeError:
        raise InputError(f"{file.name} must be a table of text, got other bytes") from None


def text_column(file: Path, name: str) -> list[str]:
    """A column of a table as it is written."""
    form = _form(file, name, "")
    place = (form.columns or [0])[0]
    cells = []
    for row, line in enumerate(itertools.islice(_lines(file), int(form.header), None)):
        parts = _cells(line, form.delimiter)
        if len(parts) != form.width:
            must = f"have {form.width} cells in every row"
            raise RowError(form.name, must, f"{len(parts)} cells", row)
        cells.append(parts[place].strip())
    return cells


def _form(file: Path, fragment: str, member: str, without: str = "") -> _Form:
    first = next(_lines(file), "")
    delimiter = next((d for d in ",;\t" if d in first), ",")
    names = [cell.strip() for cell in _cells(first, delimiter)]
    counted = len(names) > 2 and names == [str(i) for i in range(len(names))]
    header = counted or not all(_is_number(cell) for cell in names)
    columns = _columns(file, fragment, member, names if header else [])
    if without in names and columns is not None:
        columns = [i for i in columns if i != names.index(without)]
    return _Form(file.name, delimiter, header, names, columns)


def _columns(file: Path, fragment: str, member: str, names: list[str]) -> list[int] | None:
    if fragment:
        if fragment not in names:
            known = ", ".join(names) or "none with a name"
            raise InputError(f"{file.name} must have a column {fragment!r}, got {known}")
        return [names.index(fragment)]
    labels = [i for i, name in enumerate(names) if name.lower() in ("label", "labels")]
    named = [i for i, name in enumerate(names) if name]
    if member == "labels":
        return labels or named or None
    return [i for i in named if i not in labels] or None


def _numbers(form: _Form, text: list[str], start: int) -> Any:
    for row, line in enumerate(text):
        cells = len(_cells(line, form.delimiter)) if '"' in line else line.count(form.delimiter) + 1
        if cells != form.width:
            must = f"have {form.width} cells in every row"
            raise RowError(form.name, must, f"{cells} cells", start + row)
    try:
        return np.loadtxt(
            io.StringIO("".join(text)), np.float64, comments=None, delimiter=form.delimiter,
            usecols=form.columns, ndmin=2, quotechar='"',
        )  # fmt: skip
    except ValueError as error:
        raise _bad_cell(form, text, start, error) from None


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line.strip("\r\n")], delimiter=delimiter), [])


def _bad_cell(form: _Form, text: list[str], start: int, error: ValueError) -> InputError:
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
