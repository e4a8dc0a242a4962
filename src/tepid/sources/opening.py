"""What a person may pass as logits, labels or weights, turned into a source or a column."""

import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tepid import arrays, errors, shapes
from tepid.errors import InputError
from tepid.sources import files, frames, grouping, partitions
from tepid.sources.block import Block, Source
from tepid.sources.parts import mapped, reading


def open_source(
    logits: Any,
    *,
    labels: Any = None,
    sample_weight: Any = None,
    class_axis: int | None = None,
    probabilities: bool = False,
    groups: Any = None,
) -> Source:
    """A source over an array, a path, a function that yields blocks afresh, or an iterable of them.

    With `probabilities` the values are probabilities, and their logarithms are the logits. `groups`
    names the group of each row: an array, a file, or the name of a column of the logits' own file.
    """
    if partitions.is_dask(logits):
        source = partitions.from_dask(
            logits, labels=labels, weight=sample_weight, groups=groups, axis=class_axis
        )
        return with_logarithms(source) if probabilities else source
    if frames.is_spark(logits):
        return frames.from_spark(
            logits,
            labels=labels,
            weight=sample_weight,
            groups=groups,
            probabilities=probabilities,
        )
    groups, inside = grouping.place(groups, logits)
    source = _opened(logits, class_axis, inside)
    if probabilities:
        source = with_logarithms(source)
    y = source.labels if labels is None else open_column(labels, "labels", source.lead)
    u = source.weight
    if sample_weight is not None:
        u = open_column(sample_weight, "sample_weight", source.lead)
    g = source.groups if groups is None else grouping.open_groups(groups, source.lead)
    return dataclasses.replace(source, labels=y, weight=u, groups=g)


def open_column(column: Any, name: str, lead: tuple[int, ...] | None = None) -> Any:
    """Labels or weights as a flat array, from an array or a path; one for each row of `lead`."""
    if isinstance(column, (str, os.PathLike)):
        column = files.open_array(column, name, f"{name} file").column(name)
    array = arrays.as_array(column, name)
    if lead is not None and array.size != math.prod(lead):
        got = len(array) if array.ndim == 1 else f"shape {array.shape}"
        rows = math.prod(lead)
        raise InputError(f"{name} must have one entry for each of the {rows} rows, got {got}")
    return array.reshape(-1)


def _opened(logits: Any, class_axis: int | None, without: str = "") -> Source:
    if isinstance(logits, Source):
        return logits
    if isinstance(logits, (str, os.PathLike)):
        path = Path(logits)
        file = files.open_array(path, "logits", "logits file", without)
        return _from_file(file, path.name, class_axis)
    if callable(logits):
        return Source(_reader(logits, class_axis))
    if _are_blocks(logits):
        return Source(_reader(lambda: iter(logits), class_axis))
    if isinstance(logits, Iterator):
        return Source(_reader(lambda: logits, class_axis), repeatable=False)
    return _from_array(arrays.as_array(logits), "logits", class_axis)


def _are_blocks(logits: Any) -> bool:
    some = isinstance(logits, (list, tuple)) and len(logits) > 0
    return some and all(getattr(block, "ndim", 0) == 2 for block in logits)


def _from_array(array: Any, name: str, class_axis: int | None) -> Source:
    z = shapes.class_last(array, class_axis)
    lead = z.shape if z.ndim == 1 else z.shape[:-1]
    read = partial(shapes.slices, z)
    binary = z.ndim == 1 or z.shape[-1] == 1
    return Source(read, name, math.prod(lead), shapes.class_count(z), lead, binary=binary)


def _from_file(file: files.File, name: str, class_axis: int | None) -> Source:
    if file.array is None:
        if class_axis not in (None, 1, -1):
            raise InputError(f"class_axis must be left out for a table, got {class_axis}")
        return Source(file.read, name, None, file.classes, estimate=file.estimate)
    arrays.as_array(file.array, name)  # refuses what is no number
    source = _from_array(file.array, name, class_axis)
    return dataclasses.replace(source, read=files.releasing(file.array, source.read))


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
    if source.parts:
        parts = tuple(
            mapped(part, _logarithm) if part.lazy is None else partitions.logarithms(part)
            for part in source.parts
        )
        return dataclasses.replace(source, parts=parts, read=reading(parts))
    return dataclasses.replace(source, read=_logarithms(source.read))


def _logarithm(block: Block) -> Block:
    try:
        return block._replace(logits=arrays.logits_of(block.logits))
    except errors.RowError as error:
        raise error.moved(block.start, block.name) from None


def _logarithms(read: Callable[[int], Iterator[Any]]) -> Callable[[int], Iterator[Any]]:
    def logarithms(rows: int) -> Iterator[Any]:
        start = 0
        for block in read(rows):
            try:
                yield arrays.logits_of(block)
            except errors.RowError as error:
                raise error.moved(start) from None
            start += len(block)

    return logarithms
