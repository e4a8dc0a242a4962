"""CSV files: numbers separated by commas, semicolons or tabs, with or without a header."""

import csv
import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tepid import arrays
from tepid.errors import InputError, RowError
from tepid.sources import paths
from tepid.sources.batch import Batch
from tepid.tables import Columns, Kind

# A longer line is no table; without a limit a small compressed file could fill the memory.
_LONGEST_LINE = 64 << 20


@dataclass(frozen=True)
class Layout:
    """How a CSV file is written: its delimiter, its header and the names of its columns."""

    delimiter: str
    header: bool
    names: tuple[str, ...]

    @property
    def kinds(self) -> dict[str, Kind]:
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
        with paths.reading(self.name):
            row = 0
            for _, read in _read_lines(self.path, self.layout, self.name, size):
                lines = self._matching(read) if self.where else read
                if lines:
                    yield self._batch(lines, row)
                row += len(lines)

    def select(self, keep: frozenset[str]) -> "TextPart":
        """The same rows with fewer columns."""
        return dataclasses.replace(self, columns=self.columns.select(keep))

    def _batch(self, lines: list[str], first: int) -> Batch:
        numeric = [name for role, name in self.columns.beside.items() if role != "group"]
        names = [*self.columns.logits, *numeric]
        values = read_numbers(lines, names, self.layout, self.name, first)
        found = dict(zip(names, values.T, strict=True))
        beside: dict[str, Any] = {
            role: found.get(name) for role, name in self.columns.beside.items()
        }
        if "group" in beside:
            texts = read_texts(lines, self.columns.beside["group"], self.layout)
            beside["group"] = arrays.group_column(texts)
        logits = values[:, : len(self.columns.logits)]
        return Batch(logits, start=first, name=self.name, row=first, **beside)

    def _matching(self, lines: list[str]) -> list[str]:
        keep = np.ones(len(lines), bool)
        for name, value in self.where.items():
            texts = read_texts(lines, name, self.layout)
            keep &= [_same(text.strip(), value) for text in texts.tolist()]
        return list(itertools.compress(lines, keep))


def _same(text: str, value: str) -> bool:
    """Whether two cells are equal, as text or as numbers."""
    if text == value:
        return True
    return _is_number(text) and _is_number(value) and float(text) == float(value)


def open_text(path: str, name: str, *, header: bool | None = None) -> Layout:
    """The layout of a CSV file, by its first line.

    A first line of numbers is data, unless it is exactly 0…K−1 or 1…K: then it may be a header,
    and `header` must say so.
    """
    with paths.reading(name):
        first = next(_lines(path, name), "")
        delimiter = next((sign for sign in ",;\t" if sign in first), ",")
        names = [cell.strip() for cell in _cells(first, delimiter)]
    if header is None:
        header = _has_header(names, name)
    if not header:
        names = [str(position) for position in range(len(names))]
    twice = next((cell for cell in names if cell and names.count(cell) > 1), None)
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
            "say --header or --no-header (header=True or False in open_source)"
        )
    return False


def read_column(path: str, column: str, wanted: str, name: str, *, as_text: bool) -> Any:
    """One column of a CSV file as numbers or text: `column`, else the only one, else `wanted`."""
    layout = open_text(path, name)
    column = column or (layout.names[0] if len(layout.names) == 1 else wanted)
    if column not in layout.names:
        got = ", ".join(layout.names[:20])
        raise InputError(f"{name} must have a column {column!r}, or name one after #, got {got}")
    with paths.reading(name):
        found = []
        for first, lines in _read_lines(path, layout, name, 1 << 16):
            if as_text:
                found.append(read_texts(lines, column, layout))
            else:
                found.append(read_numbers(lines, [column], layout, name, first)[:, 0])
        return np.concatenate(found) if found else np.zeros(0)


def read_numbers(lines: list[str], names: list[str], layout: Layout, name: str, first: int) -> Any:
    """Some columns of some lines as float64 (n, columns)."""
    wanted = [layout.names.index(column) for column in names]
    try:
        return np.loadtxt(
            lines, np.float64, comments=None, delimiter=layout.delimiter, usecols=wanted, ndmin=2,
            quotechar='"',
        )  # fmt: skip
    except ValueError as error:
        raise _bad_cell(lines, wanted, layout, name, first) or error from None


def read_texts(lines: list[str], column: str, layout: Layout) -> Any:
    """One column of some lines as text."""
    position = layout.names.index(column)
    return np.array([_cells(line, layout.delimiter)[position].strip() for line in lines], str)


def _read_lines(path: str, layout: Layout, name: str, size: int) -> Iterator[tuple[int, list[str]]]:
    """The lines of data, some at a time, with the number of the first row."""
    lines = itertools.islice(_lines(path, name), int(layout.header), None)
    first = 0
    while some := list(itertools.islice(lines, size)):
        _check_width(some, layout, name, first)
        yield first, some
        first += len(some)


def _lines(path: str, name: str) -> Iterator[str]:
    """The lines that are not blank."""
    with paths.open_text(path) as file:
        while line := file.readline(_LONGEST_LINE):
            if len(line) == _LONGEST_LINE:
                raise InputError(f"{name} must have lines below 64 MB, got a longer one")
            if line.strip():
                yield line


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line.strip("\r\n")], delimiter=delimiter), [])


def _check_width(lines: list[str], layout: Layout, name: str, first: int) -> None:
    width = len(layout.names)
    for row, line in enumerate(lines):
        if '"' in line:
            cells = len(_cells(line, layout.delimiter))
        else:
            cells = line.count(layout.delimiter) + 1
        if cells != width:
            raise RowError(name, f"have {width} cells in every row", f"{cells} cells", first + row)


def _bad_cell(
    lines: list[str], wanted: list[int], layout: Layout, name: str, first: int
) -> RowError | None:
    for row, line in enumerate(lines):
        cells = _cells(line, layout.delimiter)
        for position in wanted:
            if not _is_number(cells[position]):
                where = f" in column {layout.names[position]!r}" if layout.header else ""
                got = f"{cells[position].strip()[:80]!r}{where}"
                return RowError(name, "hold numbers", got, first + row)
    return None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python's own notation
