"""One page of a column of lists in Parquet, straight to its numbers.

What a page holds before its numbers are two levels for each: 0 where a list begins and 1 where it
goes on, and the highest level where nothing is missing. With lists of one length and nothing
missing both are known beforehand, so they are looked at and no lists are built of them, which is
most of what a general reader is busy with. Whatever is not so is `Unusual`, and for that reader.
"""

from typing import Any, NamedTuple

import numpy as np

from tepid.arrays import Array
from tepid.kernels.codes import (
    DATA,
    DATA_2,
    DICTIONARY,
    INNER,
    PLACES,
    PLAIN,
    PLAIN_PLACES,
    RUNS,
    SPLIT,
)
from tepid.sources.extras import needed

_MOST_BITS = 32
_FAULTS = (ValueError, IndexError, OSError, MemoryError, OverflowError)


class Unusual(Exception):  # noqa: N818  # no fault of the file
    """A column that is not written as it must be to be read here."""


class Chunk(NamedTuple):
    """Where the column of one row group begins, how many numbers it has, and what they are."""

    at: int
    total: int
    classes: int
    highest: int
    codec: str
    form: Any


class Head(NamedTuple):
    """What is written before a page: its bytes as they are and as a whole, its numbers, and so on.

    `levels` are how its levels are written, or in the second version how many bytes they take,
    those that say where lists begin first.
    """

    kind: int
    held: int
    whole: int
    length: int
    encoding: int
    levels: tuple[int, int] = (0, 0)
    packed: bool = True


def head(fields: Array) -> Head:
    """The head of a page from its fields, of which those that it lacks are negative."""
    kind, whole, held = (int(field) for field in fields[1:4])
    inner = [int(field) for field in fields[INNER:]]
    length, packed = inner[1], True
    if kind == DATA:
        encoding, levels = inner[2], (inner[4], inner[3])
    elif kind == DATA_2:
        encoding, levels, packed = inner[4], (inner[6], inner[5]), inner[7] != 0
    elif kind == DICTIONARY:
        encoding, levels = inner[2], (0, 0)
    else:
        raise Unusual
    if min(held, whole, length, encoding, *levels) < 0:
        raise Unusual
    return Head(kind, held, whole, length, encoding, levels, packed)


def dictionary(page: Head, body: memoryview, column: Chunk) -> Array:
    """The numbers to which others refer."""
    if page.encoding not in (PLAIN, PLAIN_PLACES):
        raise Unusual
    try:
        data = _expanded(body, column.codec, page.whole)
        return np.frombuffer(data, column.form, page.length).copy()
    except _FAULTS:
        raise Unusual from None


def numbers(page: Head, body: memoryview, column: Chunk, done: int, known: Array | None) -> Array:
    """The numbers of a page after those that are `done`; `known` is the dictionary."""
    try:
        begins, present, data = _parts(page, body, column.codec)
        _check(begins, present, page.length, column, done)
        return _decoded(data, page, column.form, known)
    except _FAULTS:
        raise Unusual from None


def _parts(page: Head, body: memoryview, codec: str) -> tuple[Any, Any, Any]:
    """The levels that say where lists begin, those that say what is there, and the numbers."""
    if page.kind == DATA:
        if page.levels != (RUNS, RUNS):
            raise Unusual
        begins, rest = _counted(_expanded(body, codec, page.whole))
        return begins, *_counted(rest)
    first, both = page.levels[0], sum(page.levels)
    codec = codec if page.packed else "UNCOMPRESSED"
    return body[:first], body[first:both], _expanded(body[both:], codec, page.whole - both)


def _check(begins: Any, present: Any, length: int, column: Chunk, done: int) -> None:
    """That lists begin where they must and that no number is missing."""
    from tepid.kernels.packed import regular  # noqa: PLC0415  # numba, only for such files

    levels = (np.frombuffer(bytes(level), np.uint8) for level in (begins, present))
    phase = done % column.classes
    if not 0 < length <= column.total - done or not regular(
        *levels, column.highest, length, column.classes, phase
    ):
        raise Unusual


def _decoded(data: Any, page: Head, form: Any, known: Array | None) -> Array:
    if page.encoding == PLAIN:
        return np.frombuffer(data, form, page.length)
    if page.encoding == SPLIT:
        # Their first bytes stand together, then their second ones, and so on.
        split = np.frombuffer(data, np.uint8, page.length * form.itemsize)
        joined = np.ascontiguousarray(split.reshape(form.itemsize, page.length).T)
        return np.frombuffer(joined, form)
    if page.encoding not in (PLACES, PLAIN_PLACES) or known is None or data[0] > _MOST_BITS:
        raise Unusual
    from tepid.kernels.packed import look_up  # noqa: PLC0415  # numba, only for such files

    found: Array = np.empty(page.length, form)
    bits = f"u{form.itemsize}"  # the kernel moves them and need not know what they are
    if not look_up(np.frombuffer(data[1:], np.uint8), data[0], known.view(bits), found.view(bits)):
        raise Unusual
    return found


def _counted(data: Any) -> tuple[Any, Any]:
    """Bytes after their number, and what follows them."""
    end = 4 + int.from_bytes(data[:4], "little")
    return data[4:end], data[end:]


def _expanded(data: memoryview, codec: str, size: int) -> memoryview:
    if codec == "UNCOMPRESSED" or not size:
        return data
    if codec != "SNAPPY":
        return memoryview(needed("pyarrow", "parquet").Codec(codec.lower()).decompress(data, size))
    from tepid.kernels.snappy import expanded  # noqa: PLC0415  # numba, only for such files

    whole = np.empty(size, np.uint8)
    if not expanded(np.frombuffer(data, np.uint8), whole):
        raise Unusual
    return whole.data
