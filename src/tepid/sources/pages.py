"""The columns of lists in Parquet by their pages, which are read and `unpaging` decodes."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from tepid.arrays import Array
from tepid.kernels.codes import DICTIONARY, FIELDS, HEAD, PLAIN, SNAPPY, UNCOMPRESSED
from tepid.sources import unpaging
from tepid.sources.lending import lent
from tepid.sources.unpaging import Chunk, Head, Unusual

_CODECS = {"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "BROTLI"}
_FORMS = {"FIXED_LEN_BYTE_ARRAY": "<f2", "FLOAT": "<f4", "DOUBLE": "<f8"}
# What the kernel expands itself.
_COMPILED = {"UNCOMPRESSED": UNCOMPRESSED, "SNAPPY": SNAPPY}
_PAGE = 5 << 18  # bytes, a little more than most pages have


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
    reading = _Reading(descriptor, columns)
    while left:
        count = min(most, left)
        found: Array = np.frombuffer(lent(count * form.itemsize), form, count)
        reading.fill(found)
        left -= count
        yield found


class _Reading:
    """How far some columns are read, and the memory that their pages go through one by one.

    Plain pages are decoded by a kernel, as many as there is room for in one call; a page that it
    leaves alone comes by `unpaging`.
    """

    def __init__(self, descriptor: int, columns: list[Chunk]) -> None:
        if not hasattr(os, "preadv") or sys.byteorder != "little":
            raise Unusual
        from tepid.kernels import paged  # noqa: PLC0415  # numba, only for such files

        self._kernels = paged
        self._descriptor = descriptor
        self._columns = iter(columns)
        self._fields = np.empty(FIELDS, np.int64)
        self._rest = np.empty(0, columns[0].form)  # of a page that did not fit
        self._size = 0  # of the page before
        self._data, self._page = _memory(_PAGE), _memory(_PAGE)
        self._begin()

    def _begin(self) -> None:
        self._column = next(self._columns)
        self._at, self._done, self._plain = self._column.at, 0, True
        self._known: Array | None = None

    def fill(self, out: Array) -> None:
        """Fill `out` with the numbers that come next."""
        done = 0
        while done < len(out):
            if not len(self._rest):
                if self._done == self._column.total:
                    self._begin()
                done += self._plain_pages(out[done:])
            if done < len(out) and not len(self._rest) and self._done < self._column.total:
                self._one_page()
            some = self._rest[: len(out) - done]
            out[done : done + len(some)] = some
            self._rest = self._rest[len(some) :]
            done += len(some)

    def _plain_pages(self, out: Array) -> int:
        """Fill `out` as far as such pages go; how many numbers they had for it."""
        column = self._column
        if not self._plain or column.codec not in _COMPILED:
            return 0
        self._at, made, rest, self._size = self._kernels.taken(
            self._descriptor, self._at, self._size, _COMPILED[column.codec],
            column.form.itemsize, column.classes, column.highest, self._done, column.total,
            out.view(np.uint8), self._data, self._page, self._fields,
        )  # fmt: skip
        self._done += made
        if made > len(out):
            self._rest = np.frombuffer(self._page, column.form, made - len(out), rest)
        return min(int(made), len(out))

    def _one_page(self) -> None:
        page, body = self._next()
        self._at += self._size
        # As one page is written, so is mostly the next.
        self._plain = page.encoding == PLAIN and page.kind != DICTIONARY
        if page.kind == DICTIONARY:
            self._known = unpaging.dictionary(page, body, self._column)
            return
        self._rest = unpaging.numbers(page, body, self._column, self._done, self._known)
        self._done += page.length
        if page.whole > len(self._page):
            self._page = _memory(page.whole)

    def _next(self) -> tuple[Head, memoryview]:
        """The next page and its bytes, which stay until the one after it."""
        data = self._read(self._size + HEAD)
        size = self._kernels.head(data, self._fields)
        page = unpaging.head(self._fields)
        if size < 0:
            raise Unusual
        self._size = size + page.held
        if self._size > len(data):
            data = self._read(self._size)
        return page, memoryview(data)[size : self._size]

    def _read(self, size: int) -> Any:
        """So many bytes from where the next page is, or fewer at the end of the file."""
        if size > len(self._data):
            self._data = _memory(size)
        return self._data[: os.preadv(self._descriptor, [self._data[:size]], self._at)]


def _memory(size: int) -> Any:
    return np.frombuffer(lent(size), np.uint8)
