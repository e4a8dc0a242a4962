"""What a person may pass as logits, labels or weights, turned into a source or a column."""

import dataclasses
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any, Literal

import numpy as np

from tepid import arrays, errors, shapes
from tepid.errors import InputError
from tepid.sources import files, frames, grouping, partitions, places, ranges, several
from tepid.sources.ahead import ahead
from tepid.sources.arrayed import from_array, from_file
from tepid.sources.beside import column_of
from tepid.sources.block import Block, Carried, Source
from tepid.sources.parts import mapped, reading


def open_source(  # noqa: PLR0913  # each is one thing that can be said of the rows
    logits: Any,
    *,
    labels: Any = None,
    sample_weight: Any = None,
    class_axis: int | None = None,
    probabilities: bool = False,
    groups: Any = None,
    filter: str | None = None,  # noqa: A002  # what tables call it
    on_error: Literal["stop", "skip"] = "stop",
) -> Source:
    """A source over an array, a path, a function that yields blocks afresh, or an iterable of them.

    A path may be a folder, a pattern such as `shards/*.parquet`, or a URL, and there may be a list
    of paths; labels are then one file for each, or a column of the files themselves, which comes
    with them where it is called `label` or `labels`.

    With `probabilities` the values are probabilities, and their logarithms are the logits. `groups`
    names the group of each row: an array, a file, or the name of a column of the logits' own file.
    `filter` states which rows of a table are wanted, as in `"split == 'test' and site != 3"`.

    With `on_error="skip"` all files are read once more at the start, and those that cannot be used
    are left out; `left_out` of the source names them, and so does every result in its warnings.
    """
    if on_error not in ("stop", "skip"):
        raise InputError(f"on_error must be stop or skip, got {on_error!r}")
    beside = {"labels": labels, "weight": sample_weight, "groups": groups}
    if several.are_files(logits, filter):
        said = several.Said(filter or "", class_axis, probabilities, on_error == "skip")
        return several.open_files(logits, beside, said)
    _check_is_for_files(filter, on_error)
    if partitions.is_dask(logits):
        source = partitions.from_dask(logits, axis=class_axis, **beside)
        return with_logarithms(source) if probabilities else source
    if frames.is_spark(logits):
        return frames.from_spark(logits, probabilities=probabilities, **beside)
    return _alone(logits, beside, class_axis, probabilities=probabilities)


def _check_is_for_files(condition: str | None, on_error: str) -> None:
    if condition:
        raise InputError("filter must go with tables, .csv or .parquet, got other logits")
    if on_error != "stop":
        raise InputError("on_error must be stop for what is not several files, got skip")


def _alone(
    logits: Any, beside: dict[str, Any], class_axis: int | None, *, probabilities: bool
) -> Source:
    """An array, or one file of one, or blocks."""
    beside = {role: several.within(given, logits) for role, given in beside.items()}
    source = _opened(logits, class_axis, several.columns_of(beside.values(), logits))
    if probabilities:
        source = with_logarithms(source)
    y, u, g = (beside[role] for role in ("labels", "weight", "groups"))
    if not (isinstance(y, Carried) and source.parts):  # else it comes with the rows
        y = source.labels if y is None else open_column(y, "labels", source.lead)
    u = source.weight if u is None else open_column(u, "sample_weight", source.lead)
    g = source.groups if g is None else grouping.open_groups(g, source.lead)
    return dataclasses.replace(source, labels=y, weight=u, groups=g)


def open_column(column: Any, name: str, lead: tuple[int, ...] | None = None) -> Any:
    """Labels or weights as a flat array, from an array or a path; one for each row of `lead`."""
    return column_of(column, name, lead)


def _opened(logits: Any, class_axis: int | None, without: Collection[str] = ()) -> Source:
    if isinstance(logits, Source):
        return logits
    if places.is_path(logits):
        return _of_file(logits, class_axis, without)
    if callable(logits):
        return Source(_reader(logits, class_axis))
    if _are_blocks(logits):
        return Source(_reader(lambda: iter(logits), class_axis))
    if isinstance(logits, Iterator):
        return Source(_reader(lambda: logits, class_axis), repeatable=False)
    return from_array(arrays.as_array(logits), "logits", class_axis)


def _of_file(path: places.AnyPath, class_axis: int | None, without: Collection[str]) -> Source:
    file = files.open_array(path, "logits", "logits file", without)
    source = from_file(file, places.base(os.fspath(path)), class_axis)
    if file.array is None:
        return dataclasses.replace(source, read=partial(ahead, source.read))
    return ranges.with_ranges(source, file.array, places.named(path)[0])


def _are_blocks(logits: Any) -> bool:
    some = isinstance(logits, (list, tuple)) and len(logits) > 0
    return some and all(getattr(block, "ndim", 0) == 2 for block in logits)


def _reader(
    blocks: Callable[[], Iterable[Any]], class_axis: int | None
) -> Callable[[int], Iterator[Any]]:
    seen: list[Any] = []

    def read(rows: int) -> Iterator[Any]:
        produced = blocks()
        _refuse_spent(produced, seen)
        for block in produced:
            if len(block):
                # The producer may write into the same memory again before a thread has read it.
                z = np.array(_matrix(block, class_axis))
                yield from shapes.slices(z, min(rows, shapes.rows_per_block(z.shape[-1])))

    return read


def _refuse_spent(produced: Any, seen: list[Any]) -> None:
    if not isinstance(produced, Iterable) or hasattr(produced, "ndim"):
        kind = type(produced).__name__
        raise InputError(f"logits must be a function that yields blocks, got one giving {kind}")
    if any(produced is spent for spent in seen):
        raise InputError(
            "logits must be a function that yields the blocks afresh, "
            "got one that gives the same iterator again"
        )
    seen[:] = [produced] if isinstance(produced, Iterator) else []


def _matrix(block: Any, class_axis: int | None) -> Any:
    z = shapes.class_last(arrays.as_array(block), class_axis)
    if z.ndim < 2:
        raise InputError(
            "logits must come in blocks of two dimensions, (n, 1) for binary logits, "
            f"got a block of shape {z.shape}"
        )
    return z


def with_logarithms(source: Source) -> Source:
    """The same source, whose values are probabilities, as logits."""
    parts = tuple(
        mapped(part, _logarithm) if part.lazy is None else partitions.logarithms(part)
        for part in source.parts
    )
    by_parts = source.decoded or any(part.lazy is not None for part in parts)
    read = reading(parts) if by_parts else _logarithms(source.read)
    return dataclasses.replace(source, parts=parts, read=read)


def _logarithm(block: Block) -> Block:
    try:
        return block._replace(logits=arrays.logits_of(block.logits))
    except errors.RowError as error:
        raise errors.RowError(block.name, error.must, error.got, block.row(error.row)) from None


def _logarithms(read: Callable[[int], Iterator[Any]]) -> Callable[[int], Iterator[Any]]:
    def logarithms(rows: int) -> Iterator[Any]:
        start = 0
        for block in read(rows):
            if isinstance(block, Block):  # of several files
                yield _logarithm(block)
                continue
            try:
                yield arrays.logits_of(block)
            except errors.RowError as error:
                raise error.moved(start) from None
            start += len(block)

    return logarithms
