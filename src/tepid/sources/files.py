"""Arrays in files: `.npy` memory-mapped, `.npz` by member, `.csv` block by block, and others.

A member of an archive is named `file.npz#member`, a column of a table `file.csv#column`. Nothing is
ever unpickled.
"""

import contextlib
import mmap
import os
import threading
import zipfile
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from tepid.errors import InputError
from tepid.sources import places, remote, stored, streams, tables, tensors
from tepid.sources.stored import File

# Pages of a memory map that were read are handed back after this many bytes, so that a file
# larger than memory is never resident as a whole.
_RESIDENT = 16 << 20
_DAMAGE = (*streams.DAMAGE, zipfile.BadZipFile)
# NumPy parses a header as Python, in which CPython 3.11 and 3.12 fail, though rarely, where two
# threads do so at once: https://github.com/python/cpython/issues/106905
_ONE_BY_ONE = threading.Lock()


def named(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """The file that is here, and the member that is named behind a #."""
    place, fragment = places.named(path)
    return Path(place), fragment


def open_array(
    path: str | os.PathLike[str], member: str, what: str, without: Collection[str] = ()
) -> File:
    """The array in a file; `member` is what is looked for where the path does not name one.

    A table's columns `without` are left out.
    """
    place, fragment = places.named(path)
    ending = places.suffix(place)
    if not remote.is_url(place):
        if Path(place).is_dir() and ending != ".zarr":
            raise InputError(f"{what} must be a file, got the folder {place}")
        if not Path(place).exists():
            raise InputError(f"{what} must exist, got {place}")
    if ending in places.TEXT:
        return _open_csv(place, fragment, member, without)
    openers: dict[str, Callable[[str, str, str], File]] = {
        ".npy": _open_npy,
        ".npz": _open_npz,
        ".pt": tensors.open_pt,
        ".pth": tensors.open_pt,
        ".safetensors": tensors.open_safetensors,
        ".h5": stored.open_hdf5,
        ".hdf5": stored.open_hdf5,
        ".zarr": stored.open_zarr,
    }
    if ending not in openers:
        raise InputError(f"{what} must end in {places.ENDINGS}, got {places.base(place)}")
    return openers[ending](place, fragment, member)


def _open_npy(place: str, fragment: str, member: str) -> File:  # noqa: ARG001  # one signature
    name = places.base(place)
    if fragment:
        raise InputError(f"{name} must be a .npz archive to have a member, got #{fragment}")
    try:
        if remote.is_url(place):
            return _streaming(place, name)
        with _ONE_BY_ONE:
            array = np.lib.format.open_memmap(place, mode="r")
    except InputError:
        raise
    except _DAMAGE as error:
        raise _damaged(place, "array", error) from None
    return File(name, array)


def _streaming(place: str, name: str) -> File:
    """An array behind a URL, of which a block at a time is here."""
    with streams.opened(place) as file:
        shape, column_major, dtype = _header(file)
    if dtype.hasobject:
        raise ValueError("object arrays cannot be read")
    whole = partial(_loaded, place)
    if column_major and len(shape) > 1:
        return File(name, whole())
    return File(name, read=partial(_streamed, place), shape=shape, dtype=dtype, whole=whole)


def _header(file: Any) -> tuple[tuple[int, ...], bool, Any]:
    version = np.lib.format.read_magic(file)
    with _ONE_BY_ONE:
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(file)
        return np.lib.format.read_array_header_2_0(file)


def _streamed(place: str, rows: int) -> Iterator[Any]:
    try:
        with streams.opened(place) as file:
            shape, _, dtype = _header(file)
            size = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
            for start in range(0, shape[0], rows):
                count = min(rows, shape[0] - start)
                content = streams.exactly(file, count * size)
                if len(content) < count * size:
                    raise EOFError(f"it ends within row {start + len(content) // max(size, 1)}")
                yield np.frombuffer(content, dtype).reshape(count, *shape[1:])
    except _DAMAGE as error:
        raise _damaged(place, "array", error) from None


def _loaded(place: str) -> Any:
    with streams.opened(place) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _open_npz(place: str, fragment: str, member: str) -> File:
    with _archive(place) as archive, _member(archive, place, fragment, member) as stream:
        return File(places.base(place), np.lib.format.read_array(stream, allow_pickle=False))


def peeked(path: str, member: str) -> File:
    """What `open_array` says of a file, without the content of a compressed archive."""
    place, fragment = places.named(path)
    if places.suffix(place) != ".npz" or not places.exists(place):
        return open_array(path, member, f"{member} file")
    with _archive(place) as archive, _member(archive, place, fragment, member) as stream:
        shape, _, dtype = _header(stream)
        return File(places.base(place), shape=shape, dtype=dtype)


def members(place: str) -> list[str]:
    """The names of the arrays that a file holds; none where it is one array itself."""
    ending = places.suffix(place)
    if ending == ".npz":
        with _archive(place) as archive:
            return _names(archive)
    if ending in (".pt", ".pth"):
        return tensors.pt_members(place)
    if ending == ".safetensors":
        return tensors.safetensors_members(place)
    return [] if ending == ".npy" else stored.members_of(place)


@contextlib.contextmanager
def _archive(place: str) -> Iterator[zipfile.ZipFile]:
    try:
        with streams.seekable(place) as file, zipfile.ZipFile(file) as archive:
            yield archive
    except InputError:
        raise
    except _DAMAGE as error:
        raise _damaged(place, "archive", error) from None


def _member(archive: zipfile.ZipFile, place: str, fragment: str, wanted: str) -> IO[bytes]:
    name = stored.member(places.base(place), fragment, wanted, _names(archive))
    return archive.open(f"{name}.npy")


def _names(archive: zipfile.ZipFile) -> list[str]:
    return [name.removesuffix(".npy") for name in archive.namelist()]


def _damaged(place: str, kind: str, error: Exception) -> InputError:
    with streams.opened(place) as stream:
        start = stream.read(2)
    reason = f"a damaged file ({error})"
    if start[:1] == b"\x80" or "object" in str(error).lower():
        reason = "pickled objects"
    elif kind == "array" and start == b"PK":
        reason = "a .npz archive under this name"
    name = places.base(place)
    return InputError(f"{name} must be a whole {places.suffix(place)} {kind}, got {reason}")


def _open_csv(place: str, fragment: str, member: str, without: Collection[str]) -> File:
    read, width = tables.reader(place, fragment, member, without)
    return File(
        places.base(place), read=read, classes=max(width, 2), estimate=tables.estimated_rows(place)
    )


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
