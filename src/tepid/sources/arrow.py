"""Parquet, Feather and Arrow IPC files through pyarrow; record batches as arrays."""

import contextlib
import dataclasses
import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tepid import validation
from tepid.errors import InputError, reading
from tepid.sources import paths
from tepid.sources.batch import Batch, Part
from tepid.sources.source import Source, from_table
from tepid.sources.spool import Spool
from tepid.store import check_regular
from tepid.tables import (
    ARGUMENTS,
    Columns,
    arrow_kinds,
    arrow_matrix,
    check_where,
    choose_column,
    choose_columns,
    name_rows,
    needs_arrow,
)
from tepid.validation import Array

# Row groups are taken together up to this many logits: below that a task costs more than its work.
_LOGITS_PER_PART = 1 << 24
# Bytes of a Parquet column that are read at once. Through a buffer pyarrow allocates whatever a
# page claims, up to 2 GB, so a file of at most this size is read without, which bounds it.
_BUFFER, _UNBUFFERED = 1 << 20, 64 << 20


@dataclass(frozen=True)
class ArrowPart(Part):
    """A Parquet, Feather or IPC file, or some row groups of a Parquet file.

    `where` is a mapping from columns to values, or a pyarrow expression.
    """

    path: str
    name: str
    columns: Columns
    rows: int | None = None
    first: int = 0
    row_groups: tuple[int, ...] | None = None
    where: Any = None
    portable = True

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the rows that are wanted, from validated Arrow data."""
        with reading(self.name):
            row = self.first
            for table in self.tables(size):
                batch = to_batch(table, self.columns, self.name, row)
                row += len(batch.logits)
                yield batch

    def tables(self, size: int) -> Iterator[Any]:
        """Yield the wanted columns as tables or record batches."""
        if paths.suffix(self.path) != ".parquet":
            yield from self._read_ipc(size)
        elif self.where is None:
            yield from self._read_parquet(size)
        else:
            fragment = _fragment(self.path, self.row_groups)
            condition = expression(self.where, self.path)
            for batch in fragment.to_batches(
                columns=self.columns.every, filter=condition, batch_size=size,
                batch_readahead=1, fragment_readahead=1,
            ):  # fmt: skip
                batch.validate(full=True)
                yield batch

    def _read_parquet(self, size: int) -> Iterator[Any]:
        """Record batches; unlike a scan of a dataset, this never decodes a whole row group."""
        parquet = needs_arrow("pyarrow.parquet", "Reading .parquet")
        source = paths.open_bytes(self.path) if paths.is_url(self.path) else self.path
        small = not paths.is_url(self.path) and Path(self.path).stat().st_size <= _UNBUFFERED
        buffer = 0 if small else _BUFFER
        with parquet.ParquetFile(source, pre_buffer=False, buffer_size=buffer) as file:
            groups = range(file.num_row_groups) if self.row_groups is None else self.row_groups
            many = len(self.columns.logits) > 1
            for batch in file.iter_batches(
                size, list(groups), self.columns.every, use_threads=many
            ):
                batch.validate(full=True)
                yield batch

    def _read_ipc(self, size: int) -> Iterator[Any]:
        condition = None if self.where is None else expression(self.where, self.path)
        # Only a mapping says which columns a condition needs.
        needed = self.where if isinstance(self.where, Mapping) else ()
        wanted = {*self.columns.every, *needed}
        everything = condition is not None and not needed
        with _open_ipc(self.path, None if everything else wanted) as reader:
            for batch in reader:
                # Before anything else: on invalid offsets Arrow's own functions crash.
                batch.validate(full=True)
                table = needs_arrow().Table.from_batches([batch])
                table = table if condition is None else table.filter(condition)
                for first in range(0, table.num_rows, size):
                    yield table.slice(first, size)

    def select(self, keep: frozenset[str]) -> "ArrowPart":
        """The same rows; other columns are not read."""
        return dataclasses.replace(self, columns=self.columns.select(keep))


def _fragment(path: str, row_groups: tuple[int, ...] | None = None) -> Any:
    form = needs_arrow("pyarrow.dataset", "Reading .parquet").ParquetFileFormat()
    if paths.is_url(path):
        fragment = form.make_fragment(needs_arrow().PythonFile(paths.open_bytes(path), "r"))
    else:
        fragment = form.make_fragment(path, needs_arrow("pyarrow.fs").LocalFileSystem())
    return fragment if row_groups is None else fragment.subset(row_group_ids=list(row_groups))


@contextlib.contextmanager
def _open_ipc(path: str, columns: set[str] | None) -> Iterator[Any]:
    """The record batches of an IPC file or stream, with only these columns."""
    pa, ipc = needs_arrow(), needs_arrow("pyarrow.ipc", f"Reading {paths.suffix(path)}")
    options = ipc.IpcReadOptions()
    if columns is not None:
        names = read_schema(path, paths.base_name(path)).names
        options.included_fields = [i for i, name in enumerate(names) if name in columns]
    with paths.open_bytes(path) as raw, pa.PythonFile(raw, "r") as file:
        reader = _ipc_reader(file, options)
        if hasattr(reader, "num_record_batches"):
            yield (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            yield reader


def _ipc_reader(file: Any, options: Any = None) -> Any:
    pa, ipc = needs_arrow(), needs_arrow("pyarrow.ipc")
    try:
        return ipc.open_file(file, options=options)
    except pa.ArrowInvalid:  # a stream has no footer
        file.seek(0)
        return ipc.open_stream(file, options=options)


def read_schema(path: str, name: str) -> Any:
    """The schema of a file."""
    with reading(name):
        if not paths.is_url(path):
            check_regular(path)
        if paths.suffix(path) == ".parquet":
            return _fragment(path).physical_schema
        pa = needs_arrow(what=f"Reading {paths.suffix(path)}")
        with paths.open_bytes(path) as raw, pa.PythonFile(raw, "r") as file:
            return _ipc_reader(file).schema


def open_file(
    path: str, name: str, beside: Mapping[str, str], columns: str | Sequence[str] | None, where: Any
) -> Source:
    """A source over one file."""
    schema = read_schema(path, name)
    with reading(name):
        kinds = arrow_kinds(schema)
    chosen = choose_columns(kinds, beside, columns, name)
    if isinstance(where, Mapping):
        check_where(where, kinds, name)
    size = None
    if chosen.lists:
        form = schema.field(chosen.logits[0]).type
        fixed = needs_arrow().types.is_fixed_size_list(form)
        size = max(2, int(form.list_size)) if fixed else None
    shown = name_rows(name, where)
    parts = _open_parts(path, shown, chosen, where)
    return from_table(parts, shown, chosen, classes=size, spool=Spool())


def _open_parts(path: str, name: str, columns: Columns, where: Any) -> list[Part]:
    """The parts of a file: runs of row groups of Parquet, otherwise the file."""
    if where is not None or paths.suffix(path) != ".parquet":
        return [ArrowPart(path, name, columns, where=where)]
    with reading(name):
        metadata = _fragment(path).metadata
        counts = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        width = columns.classes or _list_width(metadata)
    enough = max(1, _LOGITS_PER_PART // width)
    parts: list[Part] = []
    begin = first = rows = 0
    for position, count in enumerate(counts, 1):
        rows += count
        if rows >= enough or position == len(counts):
            groups = tuple(range(begin, position))
            parts.append(ArrowPart(path, name, columns, rows, first, groups))
            begin, first, rows = position, first + rows, 0
    return parts or [ArrowPart(path, name, columns, 0)]


def _list_width(metadata: Any) -> int:
    """About how many numbers a list has, by the first row group.

    The columns of a row group would tell, but on damaged ones pyarrow ends the process.
    """
    if not metadata.num_row_groups or metadata.row_group(0).num_rows < 1:
        return 1
    group = metadata.row_group(0)
    return max(1, int(group.total_byte_size) // (8 * int(group.num_rows)))


def expression(where: Any, path: str) -> Any:
    """A condition as a pyarrow expression; values of a mapping take the types of the columns."""
    if not isinstance(where, Mapping):
        return where
    pa = needs_arrow()
    compute = needs_arrow("pyarrow.compute")
    schema = read_schema(path, paths.base_name(path))
    terms = []
    for name, value in where.items():
        kind = schema.field(name).type
        try:
            wanted = _scalar(value, kind)
        except (ValueError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InputError(f"where must compare {name} with {kind}, got {value!r}") from None
        terms.append(compute.field(name) == wanted)
    return functools.reduce(operator.and_, terms)


def to_batch(table: Any, columns: Columns, name: str, row: int) -> Batch:
    """A record batch, or a table, as a batch of rows."""
    batch = Batch(None, start=row, name=name, row=row)
    with batch.locating():
        values: dict[str, Any] = {"logits": arrow_matrix(table, columns)}
        for role, column in columns.beside.items():
            values[role] = validation.side_column(table.column(column), ARGUMENTS[role])
    return batch._replace(**values)


def _scalar(value: Any, kind: Any) -> Any:
    pa = needs_arrow()
    if isinstance(value, str) and pa.types.is_integer(kind):
        try:
            return pa.scalar(int(value)).cast(kind)
        except ValueError:
            return pa.scalar(float(value)).cast(kind)
    return pa.scalar(value).cast(kind)


def read_column(path: str, column: str, argument: str, name: str) -> Array:
    """One column of a file, chosen by `choose_column`."""
    column = choose_column(read_schema(path, name).names, column, argument, name)
    part = ArrowPart(path, name, Columns((column,), lists=False, beside={}))
    with reading(name):
        found = [
            validation.side_column(table.column(column), argument) for table in part.tables(1 << 16)
        ]
        return np.concatenate(found) if found else np.zeros(0)
