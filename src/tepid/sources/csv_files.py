"""CSV files: numbers separated by commas, semicolons or tabs, with or without a header."""

import csv
import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tepid import validation
from tepid.errors import InputError, RowError, reading
from tepid.sources import paths
from tepid.sources.batch import Batch, Part
from tepid.sources.source import Source, from_table
from tepid.sources.spool import Spool
from tepid.tables import (
    ARGUMENTS,
    TEXT,
    Columns,
    Holds,
    check_where,
    choose_column,
    choose_columns,
    is_number,
    name_rows,
    text_conditions,
)
from tepid.validation import Array

# A line without quotes, or the cells of a row that has some.
Row: TypeAlias = str | list[str]


@dataclass(frozen=True)
class Layout:
    """How a CSV file is written: its delimiter, its header and the names of its columns."""

    delimiter: str
    header: bool
    names: tuple[str, ...]

    @property
    def places(self) -> dict[str, int]:
        """The position of each column."""
        return {name: place for place, name in enumerate(self.names)}

    @property
    def kinds(self) -> dict[str, Holds]:
        """Every column may hold numbers; its first line does not say."""
        return dict.fromkeys(self.names, "number")


@dataclass(frozen=True)
class CsvPart(Part):
    """A CSV file. `where` maps columns to the value that a row must have to be read."""

    path: str
    name: str
    layout: Layout
    columns: Columns
    where: Mapping[str, str]
    portable = True

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the rows that are wanted."""
        with reading(self.name):
            row = 0
            for _, read in _read_rows(self.path, self.layout, self.name, size):
                lines = self._matching(read) if self.where else read
                batch = Batch(None, start=row, name=self.name, row=row)
                if lines:
                    with batch.locating():
                        values = self._values(lines)
                    yield batch._replace(**values)
                row += len(lines)

    def select(self, keep: frozenset[str]) -> "CsvPart":
        """The same rows with fewer columns."""
        return dataclasses.replace(self, columns=self.columns.select(keep))

    def _values(self, lines: list[Row]) -> dict[str, Any]:
        named = self.columns.beside
        numeric = {role: named[role] for role in ("labels", "weight") if role in named}
        values = _load_numbers(lines, [*self.columns.logits, *numeric.values()], self.layout)
        if values is None:  # labels may be text, and otherwise the cell to blame is found
            numeric.pop("labels", None)
            names = [*self.columns.logits, *numeric.values()]
            values = _read_numbers(lines, names, self.layout)
        width = len(self.columns.logits)
        found = dict(zip(numeric, values[:, width:].T, strict=True))
        for role in named.keys() - numeric.keys():
            found[role] = read_side(_read_texts(lines, named[role], self.layout), ARGUMENTS[role])
        return {"logits": values[:, :width], **found}

    def _matching(self, lines: list[Row]) -> list[Row]:
        keep = np.ones(len(lines), bool)
        for name, value in self.where.items():
            texts = _read_texts(lines, name, self.layout)
            keep &= [_same(text.strip(), value) for text in texts.tolist()]
        return list(itertools.compress(lines, keep))


def open_file(
    path: str,
    name: str,
    beside: Mapping[str, str],
    columns: str | Sequence[str] | None,
    where: Any,
    *,
    header: bool | None,
) -> Source:
    """A source over one file."""
    layout = read_layout(path, name, header=header)
    chosen = choose_columns(layout.kinds, beside, columns, name)
    conditions = text_conditions(where, "a CSV file")
    check_where(conditions, layout.kinds, name)
    shown = name_rows(name, where)
    part = CsvPart(path, shown, layout, chosen, conditions)
    return from_table((part,), shown, chosen, spool=Spool())


def _same(text: str, value: str) -> bool:
    """Whether two cells are equal, as text or as numbers."""
    if text == value or not (is_number(text, finite=False) and is_number(value, finite=False)):
        return text == value
    try:
        return int(text) == int(value)  # a float would round large numbers
    except ValueError:
        return float(text) == float(value)


def read_layout(path: str, name: str, *, header: bool | None = None) -> Layout:
    """The layout of a CSV file, by its first line.

    A first line of numbers is data, unless it is exactly 0…K−1 or 1…K: then it may be a header,
    and `header` must say so.
    """
    with reading(name):
        with paths.open_text(path) as file:
            first = next((line for line in paths.text_lines(file, name) if line.strip("\r\n ")), "")
        delimiter = next((sign for sign in ",;\t" if sign in first), ",")
        cells = next(csv.reader([first], delimiter=delimiter, strict=True), [])
        names = [cell.strip() for cell in cells]
    if header is None:
        header = _has_header(names, name)
    if not header:
        names = [str(position) for position in range(len(names))]
    twice = next((cell for cell, count in Counter(names).items() if cell and count > 1), None)
    if header and twice is not None:
        raise InputError(f"{name} must have a different name for each column, got {twice!r} twice")
    # A column without a name, such as an index that pandas wrote, cannot be asked for.
    named = tuple(cell or f"unnamed column {position}" for position, cell in enumerate(names))
    return Layout(delimiter, header, named)


def _has_header(names: list[str], name: str) -> bool:
    if not all(is_number(cell, finite=False) for cell in names):
        return True
    counts = ([str(i + start) for i in range(len(names))] for start in (0, 1))
    if len(names) > 1 and names in counts:
        raise InputError(
            f"{name} begins with {','.join(names[:3])}…, which may be a header or data: "
            "pass --header or --no-header (header=True or False in open_source)"
        )
    return False


def read_column(path: str, column: str, argument: str, name: str) -> Array:
    """One column of a CSV file, chosen by `choose_column`."""
    layout = read_layout(path, name)
    column = choose_column(layout.names, column, argument, name)
    with reading(name):
        found = []
        for first, lines in _read_rows(path, layout, name, 1 << 16):
            numbers = None if argument in TEXT else _load_numbers(lines, [column], layout)
            with Batch(None, name=name, row=first).locating():
                if numbers is not None:
                    found.append(numbers[:, 0])
                elif argument in (*TEXT, "labels"):
                    found.append(read_side(_read_texts(lines, column, layout), argument))
                else:
                    found.append(_read_numbers(lines, [column], layout)[:, 0])
        return np.concatenate(found) if found else np.zeros(0)


def _load_numbers(rows: list[Row], names: list[str], layout: Layout) -> Array | None:
    """Some columns of some rows as float64 (n, columns); None if a cell is no number."""
    plain = [row for row in rows if isinstance(row, str)]
    if len(plain) < len(rows):
        return None
    places = layout.places
    wanted = [places[column] for column in names]
    try:
        return np.loadtxt(
            plain, np.float64, comments=None, delimiter=layout.delimiter, usecols=wanted, ndmin=2
        )
    except ValueError:
        return None


def read_lines(path: str, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The cells of each row by column, and its line in the file; missing cells are empty."""
    layout = read_layout(path, name, header=True)
    with reading(name), paths.open_text(path) as file:
        reader = csv.reader(paths.text_lines(file, name), delimiter=layout.delimiter, strict=True)
        filled = (cells for cells in reader if any(map(str.strip, cells)))
        next(filled, None)
        for cells in filled:
            if len(cells) > len(layout.names):
                raise InputError(
                    f"{name} must have at most {len(layout.names)} cells in every row, "
                    f"got {len(cells)} at line {reader.line_num}"
                )
            padded = itertools.zip_longest(layout.names, map(str.strip, cells), fillvalue="")
            yield reader.line_num, dict(padded)


def _read_numbers(rows: list[Row], names: list[str], layout: Layout) -> Array:
    """Some columns of some rows as float64 (n, columns)."""
    loaded = _load_numbers(rows, names, layout)
    if loaded is not None:
        return loaded
    places = layout.places
    values = np.empty((len(rows), len(names)))
    for position, row in enumerate(rows):
        cells = _cells(row, layout.delimiter)
        for column, wanted in enumerate(names):
            cell = cells[places[wanted]].strip()
            if not is_number(cell, finite=False):
                where = f" in column {wanted!r}" if layout.header else ""
                raise RowError("logits", "hold numbers", f"{cell[:80]!r}{where}", position)
            values[position, column] = float(cell)
    return values


def _read_texts(rows: list[Row], column: str, layout: Layout) -> Array:
    """One column of some rows as text."""
    place = layout.places[column]
    return np.array([_cells(row, layout.delimiter)[place].strip() for row in rows], str)


def read_side(texts: Array, argument: str) -> Array:
    """Labels as they are; in groups and ids 1.0 is 1, as in formats with numbers."""
    if argument == "labels":
        return texts
    empty = np.flatnonzero(texts == "")
    if len(empty):
        raise RowError(argument, "be names or numbers", "an empty cell", int(empty[0]))
    names, where = np.unique(texts, return_inverse=True)
    plain = [re.sub(r"^(-?[0-9]+)[.]0*$", r"\1", group) for group in names.tolist()]
    return validation.group_column(np.array(plain, str)[where], argument)


def _read_rows(path: str, layout: Layout, name: str, size: int) -> Iterator[tuple[int, list[Row]]]:
    """The rows of data, some at a time, with the number of the first."""
    rows = itertools.islice(_rows(path, layout.delimiter, name), int(layout.header), None)
    first = 0
    while some := list(itertools.islice(rows, size)):
        _check_width(some, layout, name, first)
        yield first, some
        first += len(some)


def _rows(path: str, delimiter: str, name: str) -> Iterator[Row]:
    """Lines as they are, and the cells of rows with quotes, which may go over several lines."""
    with paths.open_text(path) as file:
        lines = paths.text_lines(file, name)
        for line in lines:
            if '"' in line:
                rest = itertools.chain([line], lines)
                yield next(csv.reader(rest, delimiter=delimiter, strict=True))
            elif line.strip("\r\n "):
                yield line


def _cells(row: Row, delimiter: str) -> list[str]:
    return row.rstrip("\r\n").split(delimiter) if isinstance(row, str) else row


def _check_width(rows: list[Row], layout: Layout, name: str, first: int) -> None:
    width = len(layout.names)
    for position, row in enumerate(rows):
        cells = row.count(layout.delimiter) + 1 if isinstance(row, str) else len(row)
        if cells != width:
            must = f"have {width} cells in every row"
            raise RowError(name, must, f"{cells} cells", first + position)
