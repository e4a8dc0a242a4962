"""CSV files: numbers separated by commas, semicolons or tabs, with or without a header."""

import contextlib
import csv
import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tepid import validation
from tepid.errors import InputError, RowError, reading
from tepid.sources import paths
from tepid.sources.batch import Batch
from tepid.tables import ARGUMENTS, TEXT, Columns, Holds

# A longer line is no table; without a limit a small compressed file could fill the memory.
_LONGEST_LINE = 64 << 20
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
class TextPart:
    """A CSV file. `where` maps columns to the value that a row must have to be read."""

    path: str
    name: str
    layout: Layout
    columns: Columns
    where: Mapping[str, str] = field(default_factory=dict)
    rows: int | None = field(default=None, init=False)
    portable: bool = field(default=True, init=False)

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the rows that are wanted."""
        with reading(self.name):
            row = 0
            for _, read in _read_rows(self.path, self.layout, self.name, size):
                lines = self._matching(read) if self.where else read
                if lines:
                    yield self._batch(lines, row)
                row += len(lines)

    def select(self, keep: frozenset[str]) -> "TextPart":
        """The same rows with fewer columns."""
        return dataclasses.replace(self, columns=self.columns.select(keep))

    def _batch(self, lines: list[Row], first: int) -> Batch:
        named = self.columns.beside
        numeric = {role: named[role] for role in ("labels", "weight") if role in named}
        values = _load_numbers(lines, [*self.columns.logits, *numeric.values()], self.layout)
        if values is None:  # labels may be text, and otherwise the cell to blame is found
            numeric.pop("labels", None)
            names = [*self.columns.logits, *numeric.values()]
            values = read_numbers(lines, names, self.layout, self.name, first)
        width = len(self.columns.logits)
        beside: dict[str, Any] = dict(zip(numeric, values[:, width:].T, strict=True))
        for role in named.keys() - numeric.keys():
            texts = read_texts(lines, named[role], self.layout)
            beside[role] = read_side(texts, ARGUMENTS[role], self.name, first)
        return Batch(values[:, :width], start=first, name=self.name, row=first, **beside)

    def _matching(self, lines: list[Row]) -> list[Row]:
        keep = np.ones(len(lines), bool)
        for name, value in self.where.items():
            texts = read_texts(lines, name, self.layout)
            keep &= [_same(text.strip(), value) for text in texts.tolist()]
        return list(itertools.compress(lines, keep))


def _same(text: str, value: str) -> bool:
    """Whether two cells are equal, as text or as numbers."""
    if text == value or not (_is_number(text) and _is_number(value)):
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
            first = next((line for line in text_lines(file, name) if line.strip("\r\n ")), "")
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
    if not all(_is_number(cell) for cell in names):
        return True
    counts = ([str(i + start) for i in range(len(names))] for start in (0, 1))
    if len(names) > 1 and names in counts:
        raise InputError(
            f"{name} begins with {','.join(names[:3])}…, which may be a header or data: "
            "pass --header or --no-header (header=True or False in open_source)"
        )
    return False


def read_column(path: str, column: str, argument: str, name: str) -> Any:
    """One column of a CSV file: `column`, else the only one, else that of the argument's name."""
    layout = read_layout(path, name)
    column = column or (layout.names[0] if len(layout.names) == 1 else argument)
    if column not in layout.names:
        got = ", ".join(layout.names[:20])
        raise InputError(f"{name} must have a column {column!r}, or name one after #, got {got}")
    with reading(name):
        found = []
        for first, lines in _read_rows(path, layout, name, 1 << 16):
            numbers = None if argument in TEXT else _load_numbers(lines, [column], layout)
            if numbers is not None:
                found.append(numbers[:, 0])
            elif argument in (*TEXT, "labels"):
                found.append(read_side(read_texts(lines, column, layout), argument, name, first))
            else:
                found.append(read_numbers(lines, [column], layout, name, first)[:, 0])
        return np.concatenate(found) if found else np.zeros(0)


def _load_numbers(rows: list[Row], names: list[str], layout: Layout) -> Any:
    """Some columns of some rows as float64 (n, columns); None if a cell is no number."""
    plain = [row for row in rows if isinstance(row, str)]
    if len(plain) < len(rows):
        return None
    places = layout.places
    with contextlib.suppress(ValueError):
        return np.loadtxt(
            plain,
            np.float64,
            comments=None,
            delimiter=layout.delimiter,
            usecols=[places[column] for column in names],
            ndmin=2,
        )
    return None


def read_lines(path: str, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The cells of each row by column, and its line in the file; missing cells are empty."""
    layout = read_layout(path, name, header=True)
    with reading(name), paths.open_text(path) as file:
        reader = csv.reader(text_lines(file, name), delimiter=layout.delimiter, strict=True)
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


def read_numbers(rows: list[Row], names: list[str], layout: Layout, name: str, first: int) -> Any:
    """Some columns of some rows as float64 (n, columns)."""
    places = layout.places
    wanted = [places[column] for column in names]
    loaded = _load_numbers(rows, names, layout)
    if loaded is not None:
        return loaded
    values = np.empty((len(rows), len(wanted)))
    for position, row in enumerate(rows):
        cells = _cells(row, layout.delimiter)
        for column, place in enumerate(wanted):
            if not _is_number(cells[place]):
                where = f" in column {layout.names[place]!r}" if layout.header else ""
                got = f"{cells[place].strip()[:80]!r}{where}"
                raise RowError(name, "hold numbers", got, first + position)
            values[position, column] = float(cells[place])
    return values


def read_texts(rows: list[Row], column: str, layout: Layout) -> Any:
    """One column of some rows as text."""
    place = layout.places[column]
    return np.array([_cells(row, layout.delimiter)[place].strip() for row in rows], str)


def read_side(texts: Any, argument: str, name: str, first: int = 0) -> Any:
    """Labels as they are; in groups and ids 1.0 is 1, as in formats with numbers."""
    if argument == "labels":
        return texts
    empty = np.flatnonzero(texts == "")
    if len(empty):
        raise RowError(
            f"{argument} of {name}", "be names or numbers", "an empty cell", first + int(empty[0])
        )
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
        lines = text_lines(file, name)
        for line in lines:
            if '"' in line:
                rest = itertools.chain([line], lines)
                yield next(csv.reader(rest, delimiter=delimiter, strict=True))
            elif line.strip("\r\n "):
                yield line


def text_lines(file: Any, name: str) -> Iterator[str]:
    """The lines of a text file; raises where one has no end or holds a zero byte."""
    number = 0
    while line := file.readline(_LONGEST_LINE):
        number += 1
        if len(line) == _LONGEST_LINE:
            raise InputError(f"{name} must have lines below 64 MB, got a longer one")
        if "\0" in line:  # which NumPy drops at the end of a text
            raise InputError(f"{name} must be UTF-8 text, got a zero byte at line {number}")
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


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python's own notation
