"""Row groups of Parquet as batches of some of their columns.

A column of lists of floating-point numbers comes `pages` by page, several times as fast as pyarrow
decodes it; the columns beside it, and whatever is written in another way, come by pyarrow.
"""

from collections.abc import Iterator
from typing import Any

from tepid.sources import pages
from tepid.sources.extras import needed
from tepid.sources.unpaging import Unusual

# To decode a few rows of many columns is more beginning than work, so some blocks are done at once.
_MANY, _AT_ONCE = 64, 8


def batches(
    parquet: Any, file: Any, numbers: list[int], columns: list[str], rows: int
) -> Iterator[Any]:
    """The columns of some row groups, about so many rows at a time.

    `file` is the one that `parquet` reads, where that is on this machine, else None.
    """
    schema = parquet.schema_arrow  # made anew whenever it is asked for
    lists = [name for name in columns if _is_of_lists(schema.field(name).type)]
    done = 0
    if file is not None and len(lists) == 1:
        try:
            for batch in _paged(parquet, file, numbers, columns, lists[0], rows):
                done += batch.num_rows
                yield batch
        except Unusual:
            pass
        else:
            return
    yield from _rest(parquet, numbers, columns, rows, done)


def _rest(
    parquet: Any, numbers: list[int], columns: list[str], rows: int, done: int
) -> Iterator[Any]:
    """What follows the rows that are done, by pyarrow."""
    for place, number in enumerate(numbers):
        count = parquet.metadata.row_group(number).num_rows
        if done < count:
            for batch in _decoded(parquet, numbers[place:], columns, rows):
                left = batch.slice(min(done, batch.num_rows))
                done -= batch.num_rows - left.num_rows
                if left.num_rows:
                    yield left
            return
        done -= count


def sliced(batch: Any, columns: list[str], rows: int) -> Iterator[Any]:
    """Some columns of a batch, so many rows at a time."""
    chosen = batch.select(columns)
    for start in range(0, chosen.num_rows, rows):
        yield chosen.slice(start, rows)


def _decoded(parquet: Any, numbers: list[int], columns: list[str], rows: int) -> Iterator[Any]:
    many = len(columns) > _MANY
    # Few columns are decoded sooner where they are read than handed to threads of pyarrow's own.
    for batch in parquet.iter_batches(
        rows * (_AT_ONCE if many else 1), row_groups=numbers, columns=columns, use_threads=many
    ):
        yield from sliced(batch, columns, rows)


def _is_of_lists(form: Any) -> bool:
    types = needed("pyarrow", "parquet").types
    is_list = types.is_list(form) or types.is_large_list(form) or types.is_fixed_size_list(form)
    return bool(is_list and types.is_floating(form.value_type))


def _paged(
    parquet: Any, file: Any, numbers: list[int], columns: list[str], lists: str, rows: int
) -> Iterator[Any]:
    """The same batches, with the column of lists by pages; `Unusual` where that cannot be."""
    pa = needed("pyarrow", "parquet")
    chunks = pages.chunks(parquet, numbers, lists)
    classes = chunks[0].classes
    beside = [name for name in columns if name != lists]
    others = _decoded(parquet, numbers, beside, rows) if beside else iter(())
    held: list[Any] = []
    for values in pages.numbers(file.fileno(), chunks, rows * classes):
        column = pa.FixedSizeListArray.from_arrays(pa.array(values), classes)
        found = _taken(held, others, len(column)) if beside else {}
        found[lists] = column
        yield pa.record_batch([found[name] for name in columns], columns)


def _taken(held: list[Any], others: Iterator[Any], rows: int) -> dict[str, Any]:
    """So many rows of other columns by name, from the batch that is held and those that follow."""
    while sum(batch.num_rows for batch in held) < rows:
        held.append(next(others))
    table = needed("pyarrow", "parquet").Table.from_batches(held)
    held[:] = table.slice(rows).to_batches()
    taken = table.slice(0, rows)
    return {name: taken.column(name).combine_chunks() for name in taken.column_names}
