"""The columns of lists in Parquet by their pages, which are read and `unpaging` decodes."""

import os
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from tepid.arrays import Array
from tepid.sources import thrift, unpaging
from tepid.sources.lending import lent
from tepid.sources.unpaging import DICTIONARY, Chunk, Head, Unusual

_CODECS = {"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "BROTLI"}
_FORMS = {"FIXED_LEN_BYTE_ARRAY": "<f2", "FLOAT": "<f4", "DOUBLE": "<f8"}
_HEAD = 256  # bytes, of which a header needs about fifty
Read = Callable[[int, int], memoryview]


def chunks(parquet: Any, groups: list[int], name: str) -> list[Chunk]:
    """The column of lists with that name in some row groups, where there is something in it."""
    paths = [parquet.schema.column(i).path for i in range(len(parquet.schema))]
    leaves = [i for i, path in enumerate(paths) if path.startswith(f"{name}.")]
    if len(leaves) != 1 or parquet.schema.column(leaves[0]).max_repetition_level != 1:
        raise Unusual
    highest = parquet.schema.column(leaves[0]).max_definition_level
    form = np.dtype(parquet.schema_arrow.field(name).type.value_type.to_pandas_dtype())
    found = [_chunk(parquet.metadata.row_group(i), leaves[0], highest, form) for i in groups]
    found = [column for column in found if column.total]
    if len({column.classes for column in found}) != 1:
        raise Unusual
    return found


def _chunk(group: Any, leaf: int, highest: int, form: Any) -> Chunk:
    column = group.column(leaf)
    classes, rest = divmod(column.num_values, max(group.num_rows, 1))
    begun = [at for at in (column.dictionary_page_offset, column.data_page_offset) if at]
    known = column.compression in _CODECS and _FORMS.get(column.physical_type) == form.str
    if rest or not known or column.file_path or not begun:
        raise Unusual
    return Chunk(min(begun), column.num_values, classes, highest, column.compression, form)


def numbers(descriptor: int, columns: list[Chunk], most: int) -> Iterator[Array]:
    """The numbers of columns of the same kind, so many at a time and fewer at the end alone."""
    form, left = columns[0].form, sum(column.total for column in columns)
    read, page = _reader(descriptor), np.empty(0, form)
    pages = chain.from_iterable(_pages(read, column) for column in columns)
    while left:
        count = min(most, left)
        found: Array = np.frombuffer(lent(count * form.itemsize), form, count)
        page = _fill(found, page, pages)
        left -= count
        yield found


def _fill(out: Array, page: Array, pages: Iterator[Array]) -> Array:
    """Fill `out` from a page and those that follow; what is left of the last of them."""
    done = 0
    while done < len(out):
        page = page if len(page) else next(pages)
        taken = page[: len(out) - done]
        out[done : done + len(taken)] = taken
        page = page[len(taken) :]
        done += len(taken)
    return page


def _pages(read: Read, column: Chunk) -> Iterator[Array]:
    """The numbers of one column page by page, each to be used up before the next."""
    at, done, size, known = column.at, 0, 0, None
    seen: unpaging.Seen = {}
    while done < column.total:
        page, body, size = _page(read, at, size)
        at += size
        if page.kind == DICTIONARY:
            known = unpaging.dictionary(page, body, column)
        else:
            yield unpaging.numbers(page, body, column, done, known, seen)
            done += page.length


def _page(read: Read, at: int, before: int) -> tuple[Head, memoryview, int]:
    """A page, its bytes, and how many they are with its head; the one before had about as many."""
    data = read(at, before + _HEAD)
    try:
        fields, size = thrift.struct(bytes(data[:_HEAD]))
        page = unpaging.head(fields)
    except (ValueError, IndexError, KeyError, TypeError):
        raise Unusual from None
    end = size + page.held
    if end > len(data):
        data = read(at, end)
    return page, data[size:end], end


def _reader(descriptor: int) -> Read:
    """A function that reads bytes of a file into one place, where they stay until its next call."""
    if not hasattr(os, "preadv"):
        raise Unusual
    held = bytearray(_HEAD)

    def read(at: int, size: int) -> memoryview:
        nonlocal held
        if size > len(held):
            held = bytearray(size)
        return memoryview(held)[: os.preadv(descriptor, [memoryview(held)[:size]], at)]

    return read
