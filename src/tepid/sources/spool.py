"""Decode once: the rows of the first pass in a temporary file, memory-mapped in later passes.

The file has no name, so it disappears with the process whatever happens. It may take at most half
of the space that is free in the temporary folder (`TMPDIR`) when the pass begins. A source that
needs more is decoded again in every pass.
"""

import contextlib
import math
import mmap
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from typing import IO, Any, TypeAlias

import numpy as np

from tepid.tables import ARGUMENTS

# Columns of a batch that are stored; the rest of a batch is small and kept as it is.
_STORED = ("logits", *ARGUMENTS)
# Pages that were read are released after this many bytes, so that memory stays flat.
_RESIDENT = 16 << 20
# Arrays begin at a multiple of this in the file.
_ALIGNED = 64


# Where an array begins in the file, its type and its shape.
_Place: TypeAlias = tuple[int, np.dtype[Any], tuple[int, ...]]


class Spool:
    """Batches in a temporary file, once a pass has written all of them.

    The file lies in `folder`, by default the temporary one. `always` ignores the limit on its size.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, *, always: bool = False
    ) -> None:
        self.folder, self.always = folder, always
        self._stored: _Stored | None = None
        self._full = False
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        # On another machine there is another temporary folder; what is in the file stays here.
        return Spool, ()

    def renewed(self) -> "Spool":
        """An empty spool with the same rules."""
        return Spool(self.folder, always=self.always)

    @property
    def rows(self) -> int | None:
        """The number of rows, once all are stored."""
        return None if self._stored is None else self._stored.rows

    def through(self, batches: Iterator[Any], size: int, *, store: bool) -> Iterator[Any]:
        """The stored batches if there are any, else those given, which `store` keeps."""
        if self._stored is not None:
            return self._stored.batches(size)
        return self._storing(batches) if store and not self._full else batches

    def _storing(self, batches: Iterator[Any]) -> Iterator[Any]:
        with contextlib.ExitStack() as stack:
            stored = self._begin(stack)
            for batch in batches:
                if stored is not None and not self._append(stored, batch):
                    stored, self._full = None, True
                yield batch
            if stored is not None:
                with self._lock:
                    self._stored = self._stored or stored.mapped()

    def _begin(self, stack: contextlib.ExitStack) -> "_Stored | None":
        try:
            folder = self.folder or tempfile.gettempdir()
            room = math.inf if self.always else shutil.disk_usage(folder).free / 2
            # Unbuffered, so that a full disk is noticed here and not when the file is closed.
            file = tempfile.TemporaryFile(prefix="tepid-", dir=folder, buffering=0)  # noqa: SIM115
            return _Stored(stack.enter_context(file), room)
        except OSError:
            if self.always:
                raise
            self._full = True
            return None

    def _append(self, stored: "_Stored", batch: Any) -> bool:
        try:
            return stored.append(batch)
        except OSError:  # the disk is full after all
            if self.always:
                raise
            return False


class _Stored:
    """An open file, and where in it the arrays of each batch begin."""

    def __init__(self, file: IO[bytes], room: float) -> None:
        self.file, self.room = file, room
        self.index: list[tuple[Any, dict[Any, _Place]]] = []
        self.end = self.rows = 0
        self.memory: mmap.mmap | None = None

    def append(self, batch: Any) -> bool:
        """Store a batch; False if it cannot be stored or there is no room."""
        columns = {name: getattr(batch, name) for name in _STORED} | dict(enumerate(batch.peers))
        there = {name: column for name, column in columns.items() if column is not None}
        if not all(_is_plain(column) for column in there.values()):
            return False
        if self.end + sum(column.nbytes + _ALIGNED for column in there.values()) > self.room:
            return False
        places = {name: self._write(column) for name, column in there.items()}
        self.rows += len(batch.logits)
        self.index.append((batch._replace(**dict.fromkeys(_STORED), peers=()), places))
        return True

    def _write(self, column: Any) -> _Place:
        begin = -(-self.end // _ALIGNED) * _ALIGNED
        self._write_all(bytes(begin - self.end))
        self._write_all(np.ascontiguousarray(column).reshape(-1).view(np.uint8).data)
        self.end = begin + column.nbytes
        return begin, column.dtype, column.shape

    def _write_all(self, data: Any) -> None:
        left = memoryview(data)
        while left:
            left = left[self.file.write(left) :]

    def mapped(self) -> "_Stored":
        if self.end:
            self.memory = mmap.mmap(self.file.fileno(), self.end, access=mmap.ACCESS_READ)
        return self

    def batches(self, size: int) -> Iterator[Any]:
        """The stored batches, cut where they are larger than `size` rows."""
        seen = 0
        for bare, places in self.index:
            arrays = {name: self._read(*place) for name, place in places.items()}
            seen += sum(array.nbytes for array in arrays.values())
            peers = tuple(arrays.pop(name) for name in places if isinstance(name, int))
            yield from bare._replace(peers=peers, **arrays).split(size)
            if seen >= _RESIDENT:
                release(self.memory)
                seen = 0

    def _read(self, begin: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        if self.memory is None or not math.prod(shape):
            return np.zeros(shape, dtype)
        flat = np.frombuffer(self.memory, dtype, math.prod(shape), begin)
        return flat.reshape(shape)


def _is_plain(column: Any) -> bool:
    return isinstance(column, np.ndarray) and not column.dtype.hasobject


def release(memory: Any) -> None:
    """Give back the pages of a memory map that were read; a file stays in the page cache."""
    if hasattr(memory, "madvise"):
        memory.madvise(mmap.MADV_DONTNEED)
