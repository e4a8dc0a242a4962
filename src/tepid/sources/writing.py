"""Write batches of rows to a file, atomically."""

import csv
import io
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from tepid.errors import InputError, RowError, require
from tepid.store import atomic_write
from tepid.validation import Array, Int64

# The column of a Parquet file in which the probabilities are, as lists of one length.
COLUMN = "probabilities"


def check_ending(path: Path, *, table: bool = False) -> None:
    """Refuse a name that does not say how to write it; a table has named columns."""
    endings = [".csv", ".parquet"] if table else [".npy", ".npz", ".csv", ".parquet"]
    if path.suffix.lower() not in endings:
        said = f"{', '.join(endings[:-1])} or {endings[-1]}"
        raise InputError(f"output must end in {said}, got {path.name}")


def write_batches(
    path: str | os.PathLike[str], batches: Iterator[Array], *, classes: int | None = None
) -> int:
    """Write batches to `.npy`, `.npz`, `.csv` or `.parquet`, whole or not at all; count rows.

    In Parquet each row is a list in the column `probabilities`, and each batch a row group. No rows
    are refused, unless `classes` says how wide an empty file is.
    """
    target = Path(path)
    check_ending(target)
    writers: dict[str, Callable[[IO[bytes], Array, Iterator[Array]], int]] = {
        ".npy": _write_npy,
        ".npz": _write_npz,
        ".csv": _write_csv,
        ".parquet": _write_parquet,
    }
    ending = target.suffix.lower()
    filled = (batch for batch in batches if len(batch))
    with atomic_write(target) as file:
        first = next(filled, None)
        if first is None and classes is None:
            raise InputError("output must have at least one row, got none")
        first = np.zeros((0, classes or 0), np.float32) if first is None else first
        if first.ndim != 2 and ending in (".csv", ".parquet"):
            raise InputError(
                f"output must be .npy or .npz for more than two dimensions, got {ending}"
            )
        return writers[ending](file, first, itertools.chain([first], filled))


def _write_npy(file: IO[bytes], first: Array, batches: Iterator[Array]) -> int:
    # NumPy pads a header so that it can be rewritten in place once the number of rows is known.
    _write_header(file, first, 0)
    rows = 0
    for batch in batches:
        file.write(np.ascontiguousarray(batch).data)
        rows += len(batch)
    file.seek(0)
    _write_header(file, first, rows)
    return rows


def _write_header(file: IO[bytes], batch: Array, rows: int) -> None:
    descr = np.lib.format.dtype_to_descr(batch.dtype)
    header = {"descr": descr, "fortran_order": False, "shape": (rows, *batch.shape[1:])}
    np.lib.format.write_array_header_1_0(file, header)


def _write_npz(file: IO[bytes], _: Array, batches: Iterator[Array]) -> int:
    whole = np.concatenate(list(batches))
    np.savez(file, probabilities=whole)
    return len(whole)


def _write_csv(file: IO[bytes], _: Array, batches: Iterator[Array]) -> int:
    rows = 0
    for batch in batches:
        np.savetxt(file, batch, fmt="%.9g", delimiter=",")
        rows += len(batch)
    return rows


def _write_parquet(file: IO[bytes], first: Array, batches: Iterator[Array]) -> int:
    pa = require("pyarrow", "parquet", "Writing .parquet")
    lists = (
        pa.FixedSizeListArray.from_arrays(
            pa.array(np.ascontiguousarray(batch).reshape(-1)), first.shape[1]
        )
        for batch in batches
    )
    # Probabilities do not repeat, so that a dictionary of them only costs time.
    return _write_tables(file, (pa.table({COLUMN: each}) for each in lists), use_dictionary=False)


def _write_tables(file: IO[bytes], tables: Iterator[Any], **options: Any) -> int:
    parquet = require("pyarrow.parquet", "parquet", "Writing .parquet")
    first = next(tables)
    rows = 0
    with parquet.ParquetWriter(file, first.schema, **options) as writer:
        for table in itertools.chain([first], tables):
            writer.write_table(table)
            rows += table.num_rows
    return rows


# Tables -------------------------------------------------------------------------------------------


class Lists(NamedTuple):
    """A column of lists: their values one after the other, and the length of each."""

    values: Array
    lengths: Int64

    def cut(self) -> list[list[Any]]:
        """The lists."""
        ends = np.cumsum(self.lengths).tolist()
        values = self.values.tolist()
        return [values[end - n : end] for end, n in zip(ends, self.lengths.tolist(), strict=True)]


Rows = Mapping[str, Array | Lists]


def write_table(path: str | os.PathLike[str], batches: Iterator[Rows]) -> int:
    """Write batches of columns to `.csv` or `.parquet`, whole or not at all; count rows.

    In CSV the values of a list are joined by `|`, and True is `true`.
    """
    target = Path(path)
    check_ending(target, table=True)
    write = _write_csv_table if target.suffix.lower() == ".csv" else _write_parquet_table
    with atomic_write(target) as file:
        return write(file, _encodable(batches))


def _encodable(batches: Iterator[Rows]) -> Iterator[Rows]:
    """The same batches; raises for text that UTF-8 cannot hold, such as half of an emoji."""
    start = 0
    for batch in batches:
        for name, column in batch.items():
            values = column.values if isinstance(column, Lists) else column
            if values.dtype.kind in "UO" and (row := _first_odd(values)) is not None:
                got = values.tolist()[row]
                if isinstance(column, Lists):
                    row = int(np.searchsorted(np.cumsum(column.lengths), row, "right"))
                raise RowError(name, "be text that UTF-8 can hold", repr(got), start + row)
        yield batch
        first = next(iter(batch.values()))
        start += len(first.lengths if isinstance(first, Lists) else first)


def _first_odd(values: Array) -> int | None:
    texts = list(map(str, values.tolist()))
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        ends = np.cumsum([len(text) for text in texts])
        return int(np.searchsorted(ends, error.start, "right"))
    return None


def _write_csv_table(file: IO[bytes], batches: Iterator[Rows]) -> int:
    rows = 0
    for batch in batches:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not rows:
            writer.writerow(batch)
        columns = [_csv_cells(column) for column in batch.values()]
        writer.writerows(zip(*columns, strict=True))
        file.write(text.getvalue().encode())
        rows += len(columns[0])
    return rows


def _csv_cells(column: Array | Lists) -> list[Any]:
    if isinstance(column, Lists):
        return ["|".join(map(str, each)) for each in column.cut()]
    if column.dtype.kind == "b":
        return ["true" if value else "false" for value in column.tolist()]
    if column.dtype.kind == "f":
        return [f"{value:.9g}" for value in column.tolist()]
    return list(column.tolist())


def _write_parquet_table(file: IO[bytes], batches: Iterator[Rows]) -> int:
    pa = require("pyarrow", "parquet", "Writing .parquet")

    def arrow(column: Array | Lists) -> Any:
        if isinstance(column, Lists):
            offsets = np.concatenate([[0], np.cumsum(column.lengths)]).astype(np.int32)
            return pa.ListArray.from_arrays(pa.array(offsets), arrow(column.values))
        text = column.dtype.kind in "UO"
        return pa.array(column.tolist(), pa.string()) if text else pa.array(column)

    tables = (pa.table({name: arrow(column) for name, column in b.items()}) for b in batches)
    return _write_tables(file, tables)
