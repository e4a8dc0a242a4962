"""Arrays in files: `.npy` memory-mapped, `.npz` by member, `.csv` block by block.

A member of an archive is named `file.npz#member`, a column of a table `file.csv#column`. Nothing is
ever unpickled.
"""

import lzma
import mmap
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tepid.errors import InputError
from tepid.sources import tables

# Pages of a memory map that were read are handed back after this many bytes, so that a file
# larger than memory is never resident as a whole.
_RESIDENT = 16 << 20
_DAMAGE = (
    ValueError, EOFError, OSError, KeyError, RuntimeError, OverflowError, MemoryError,
    zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip


@dataclass(frozen=True)
class File:
    """An array that is there as a whole, or one that is read block by block."""

    name: str
    array: Any
    read: Callable[[int], Iterator[Any]]
    classes: int | None = None
    estimate: int | None = None

    def column(self, what: str) -> Any:
        """All of it, as one column."""
        whole = self.array
        if whole is None:
            blocks = list(self.read(1 << 16))
            whole = np.concatenate(blocks) if blocks else np.zeros(0)
            if whole.ndim > 1 and whole.shape[1] > 1:
                got = f"{whole.shape[1]} other columns"
                raise InputError(f"{self.name} must have a column {what!r}, got {got}")
        return whole


def named(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """The file, and the member or column that is named behind a #."""
    text = os.fspath(path)
    if "#" in text and not Path(text).exists():
        name, _, fragment = text.rpartition("#")
        return Path(name), fragment
    return Path(text), ""


def open_array(path: str | os.PathLike[str], member: str, what: str, without: str = "") -> File:
    """The array in a file; `member` is what is looked for where the path does not name one.

    A table's column `without` is left out.
    """
    file, fragment = named(path)
    if file.is_dir():
        raise InputError(f"{what} must be a file, got the folder {file}")
    if not file.exists():
        raise InputError(f"{what} must exist, got {file}")
    if file.suffix.lower() == ".csv":
        return _open_csv(file, fragment, member, without)
    openers = {".npy": _open_npy, ".npz": _open_npz}
    if file.suffix.lower() not in openers:
        raise InputError(f"{what} must end in .npy, .npz or .csv, got {file.name}")
    return openers[file.suffix.lower()](file, fragment, member)


def _open_npy(file: Path, fragment: str, member: str) -> File:  # noqa: ARG001  # one signature
    if fragment:
        raise InputError(f"{file.name} must be a .npz archive to have a member, got #{fragment}")
    try:
        array = np.lib.format.open_memmap(file, mode="r")
    except _DAMAGE as error:
        raise _damaged(file, "array", error) from None
    return _held(file, array)


def _open_npz(file: Path, fragment: str, member: str) -> File:
    try:
        with zipfile.ZipFile(file) as archive:
            members = [name.removesuffix(".npy") for name in archive.namelist()]
            name = _member(file, fragment, member, members)
            with archive.open(f"{name}.npy") as stream:
                array = np.lib.format.read_array(stream, allow_pickle=False)
    except InputError:
        raise
    except _DAMAGE as error:
        raise _damaged(file, "archive", error) from None
    return _held(file, array)


def _member(file: Path, fragment: str, member: str, members: list[str]) -> str:
    wanted = fragment or member
    if wanted in members:
        return wanted
    if not fragment and len(members) == 1:
        return members[0]
    raise InputError(
        f"{file.name} must have a member {wanted!r}, got {', '.join(members) or 'none'}"
    )


def _damaged(file: Path, kind: str, error: Exception) -> InputError:
    with file.open("rb") as stream:
        start = stream.read(2)
    reason = f"a damaged file ({error})"
    if start[:1] == b"\x80" or "object" in str(error).lower():
        reason = "pickled objects"
    elif kind == "array" and start == b"PK":
        reason = "a .npz archive under this name"
    return InputError(f"{file.name} must be a whole {file.suffix.lower()} {kind}, got {reason}")


def _held(file: Path, array: Any) -> File:
    return File(file.name, array, lambda _: iter(()))


def _open_csv(file: Path, fragment: str, member: str, without: str) -> File:
    read, width = tables.reader(file, fragment, member, without)
    return File(file.name, None, read, max(width, 2), tables.estimated_rows(file))


def releasing(array: Any, read: Callable[[int], Iterator[Any]]) -> Callable[[int], Iterator[Any]]:
    """Read a memory map, handing its pages back behind the reader."""
    mapped = getattr(array, "_mmap", None)
    if mapped is None or not hasattr(mapped, "madvise"):
        return read

    def reading(rows: int) -> Iterator[Any]:
        seen = 0
        for block in read(rows):
            yield block
            seen += block.nbytes
            if seen >= _RESIDENT:
                mapped.madvise(mmap.MADV_DONTNEED)
                seen = 0
        mapped.madvise(mmap.MADV_DONTNEED)

    return reading
