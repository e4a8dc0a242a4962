"""What a person may pass as logits, labels or weights, turned into a source or a column."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tepid import arrays
from tepid.arrays import InputError
from tepid.sources import files
from tepid.sources.block import Source, slices


def open_source(
    logits: Any,
    *,
    labels: Any = None,
    sample_weight: Any = None,
    class_axis: int | None = None,
    probabilities: bool = False,
) -> Source:
    """A source over an array, a path, a function that yields blocks afresh, or an iterable of them.

    With `probabilities` the values are probabilities, and their logarithms are the logits.
    """
    source = _opened(logits, class_axis)
    read, rows, classes = source.read, source.rows, source.classes
    if probabilities:
        read, classes = _logarithms(read), None
    y = source.labels if labels is None else open_column(labels, "labels")
    u = source.weight if sample_weight is None else open_column(sample_weight, "sample_weight")
    return Source(read, source.name, rows, classes, source.repeatable, y, u)


def open_column(column: Any, name: str) -> Any:
    """Labels or weights as a flat array, from an array or a path."""
    if isinstance(column, (str, os.PathLike)):
        column = files.open_array(column, name, f"{name} file").whole()
    return arrays.as_array(column, name).reshape(-1)


def _opened(logits: Any, class_axis: int | None) -> Source:
    if isinstance(logits, Source):
        return logits
    if isinstance(logits, (str, os.PathLike)):
        path = Path(logits)
        return _from_file(files.open_array(path, "logits", "logits file"), path.name, class_axis)
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
    z = arrays.class_last(array, class_axis)
    classes = 2 if z.ndim == 1 or z.shape[-1] == 1 else int(z.shape[-1])
    rows = int(np.prod(z.shape if z.ndim == 1 else z.shape[:-1]))
    arrays.matrix(z[:0].reshape(-1, z.shape[-1]) if z.ndim > 1 else z[:0])
    return Source(lambda n: slices(z, n), name, rows, classes)


def _from_file(file: files.File, name: str, class_axis: int | None) -> Source:
    if file.array is not None:
        source = _from_array(file.array, name, class_axis)
        read = files.releasing(file.array, source.read)
        return Source(read, name, source.rows, source.classes)
    return Source(file.read, name, None, None)


def _reader(
    blocks: Callable[[], Iterable[Any]], class_axis: int | None
) -> Callable[[int], Iterator[Any]]:
    def read(rows: int) -> Iterator[Any]:
        produced = blocks()
        if not isinstance(produced, Iterable):
            kind = type(produced).__name__
            raise InputError(f"logits must be a function that yields blocks, got one giving {kind}")
        for block in produced:
            yield from slices(arrays.class_last(arrays.as_array(block), class_axis), rows)

    return read


def _logarithms(read: Callable[[int], Iterator[Any]]) -> Callable[[int], Iterator[Any]]:
    def logarithms(rows: int) -> Iterator[Any]:
        start = 0
        for block in read(rows):
            try:
                yield arrays.logits_of(block)
            except arrays.RowError as error:
                raise error.moved(start) from None
            start += len(block)

    return logarithms
