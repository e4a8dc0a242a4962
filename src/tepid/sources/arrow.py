"""Tables of Arrow: Parquet by row group, IPC files, streams and Feather by record batch.

The logits are one column of lists, or one column of floating-point numbers for each class. Only the
columns that are wanted are decoded.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from tepid import arrays
from tepid.arrays import Array
from tepid.errors import InputError, RowError
from tepid.sources import listed, parquet, places, remote, streams
from tepid.sources.block import Block
from tepid.sources.columns import LABELS
from tepid.sources.extras import needed
from tepid.sources.shard import Look, Shard, apart, resolved

_BUFFER = 1 << 16
# A piece is the number of its first row and a function (columns, rows) that yields its batches.
Batches = Callable[[list[str], int], Iterator[Any]]


class _Opened(NamedTuple):
    """A file that is open; `pieces(alone, only)` are its row groups, each alone or all at once."""

    schema: Any
    rows: int | None
    pieces: Callable[..., Iterator[tuple[int, Batches]]]
    row_groups: tuple[int, ...] = ()


def look(shard: Shard) -> Look:
    """What the schema says, and the first row where the schema does not know the classes."""
    with _opened(shard) as file:
        aside, _ = apart(shard, file.schema.names)
        logits = listed.logit_columns(shard, file.schema, aside)
        classes = listed.class_count(file.schema, logits)
        if classes is None:
            classes = _first_length(file, logits[0])
        return Look(
            None if classes is None else max(classes, 2),
            listed.kind(file.schema, logits),
            logits,
            any(name.lower() in LABELS for name in file.schema.names),
            None if shard.filter else file.rows,
            estimate=file.rows,
            binary=classes == 1,
            row_groups=file.row_groups,
        )


def blocks(shard: Shard, rows: int) -> Iterator[Block]:
    """The rows that are wanted, each block with where its rows are in the file."""
    with _opened(shard) as file:
        aside, beside = apart(shard, file.schema.names)
        logits = listed.logit_columns(shard, file.schema, aside)
        wanted = list(dict.fromkeys([*logits, *beside.values()]))
        start = 0
        for first, batches in file.pieces(alone=bool(shard.filter), only=shard.row_groups):
            kept = _kept(shard, batches, first)
            if kept is not None and not kept.any():
                continue  # a row group of which nothing is wanted is not decoded
            for at, batch in _numbered(batches(wanted, rows), first, kept):
                block = _block(shard, batch, logits, beside, at)
                if len(block.logits):
                    yield block._replace(start=start)
                start += len(block.logits)


def column(place: str, name: str, member: str) -> Array:
    """All of one column: that of this name, or the one that the file holds."""
    shard = Shard(place, places.base(place))
    with _opened(shard) as file:
        names = file.schema.names
        alone = not name and len(names) == 1
        chosen = names[0] if alone else resolved(name or member, names, shard.name)
        batches = (b for _, piece in file.pieces(alone=False) for b in piece([chosen], 1 << 16))
        found = [listed.values(batch.column(chosen)) for batch in batches]
        return np.concatenate(found) if found else np.zeros(0)


def _numbered(batches: Iterator[Any], first: int, kept: Array | None) -> Iterator[tuple[Any, Any]]:
    """Each batch with the number of its first row, or the rows that are kept with all of theirs."""
    seen = 0
    for batch in batches:
        count = batch.num_rows
        if kept is None:
            yield first + seen, batch
        else:
            rows = np.flatnonzero(kept[seen : seen + count])
            yield first + seen + rows, batch.take(needed("pyarrow", "parquet").array(rows))
        seen += count


def _kept(shard: Shard, batches: Batches, first: int) -> Array | None:
    condition = shard.condition
    if condition is None:
        return None
    names = list(condition.names)
    parts = list(batches(names, 1 << 20))
    columns = {
        name: np.concatenate(
            [listed.values(batch.column(name)) for batch in parts] or [np.zeros(0)]
        )
        for name in names
    }
    try:
        return condition.kept(columns)
    except RowError as error:
        raise error.moved(first, f"filter of {shard.name}") from None


def _block(
    shard: Shard, batch: Any, logits: tuple[str, ...], beside: dict[str, str], at: Any
) -> Block:
    found = {role: listed.values(batch.column(name)) for role, name in beside.items()}
    try:
        matrix = listed.matrix(batch, logits, shard.name)
        groups = found.get("groups")
        groups = None if groups is None else arrays.group_column(groups)
    except RowError as error:
        row = at + error.row if isinstance(at, int) else int(at[error.row])
        name = error.name if error.name == shard.name else f"{error.name} of {shard.name}"
        raise RowError(name, error.must, error.got, row) from None
    return Block(matrix, found.get("labels"), found.get("weight"), 0, shard.name, groups, at=at)


def _first_length(file: _Opened, name: str) -> int | None:
    for _, batches in file.pieces(alone=True):
        for batch in batches([name], 1):
            lengths = listed.lengths(batch.column(name))
            if len(lengths):
                return int(lengths[0])
    return None


@contextlib.contextmanager
def _opened(shard: Shard) -> Iterator[_Opened]:
    pa = needed("pyarrow", "parquet")
    here = not remote.is_url(shard.place)
    try:
        with pa.OSFile(shard.place) if here else streams.seekable(shard.place) as file:
            if places.suffix(shard.place) == ".parquet":
                yield _parquet(file, ahead=not here)
            else:
                yield _ipc(file)
    except InputError:
        raise
    except (*streams.DAMAGE, pa.ArrowException) as error:
        ending = places.suffix(shard.place)
        said = f"{shard.name} must be a whole {ending} file, got a damaged one ({error})"
        raise InputError(said) from None


def _parquet(file: Any, *, ahead: bool) -> _Opened:
    # Through a small buffer a row group is not held as a whole; far away, fewer requests count.
    opened = needed("pyarrow.parquet", "parquet").ParquetFile(
        file, pre_buffer=ahead, buffer_size=0 if ahead else _BUFFER
    )
    groups = range(opened.num_row_groups)
    counts = tuple(opened.metadata.row_group(i).num_rows for i in groups)

    def pieces(
        *, alone: bool, only: tuple[int, int] | None = None
    ) -> Iterator[tuple[int, Batches]]:
        wanted = groups if only is None else range(*only)
        starts = (0, *accumulate(counts))
        for own in [range(i, i + 1) for i in wanted] if alone else [wanted]:
            here = None if ahead else file
            yield starts[own.start], partial(parquet.batches, opened, here, list(own))

    return _Opened(opened.schema_arrow, opened.metadata.num_rows, pieces, counts)


def _ipc(file: Any) -> _Opened:
    ipc = needed("pyarrow", "parquet").ipc
    try:
        reader = ipc.open_file(file)
    except ValueError:
        file.seek(0)
        stream = ipc.open_stream(file)
        return _Opened(stream.schema, None, lambda **_: _of_batches(iter(stream)))
    numbers = range(reader.num_record_batches)
    return _Opened(
        reader.schema,
        reader.count_rows(),
        lambda **_: _of_batches(reader.get_batch(i) for i in numbers),
    )


def _of_batches(batches: Iterator[Any]) -> Iterator[tuple[int, Batches]]:
    first = 0
    for batch in batches:
        yield first, partial(parquet.sliced, batch)
        first += batch.num_rows
