"""Arrays in files: .npy memory-mapped, members of .npz, .h5, .zarr, .safetensors and .pt.

`open_array` yields something with a shape, a dtype and slices, whatever the format. Nothing is
unpickled. No reader allocates more than the size of its file justifies.

The system ends a process that reads a page of a memory map beyond the end of its file (SIGBUS). So
the size and the modification time of .npy and .safetensors files are checked before each batch and
after the last, and a file that was truncated or rewritten is refused. What remains is the time
between a check and the use of its batch.
"""

import contextlib
import dataclasses
import math
import platform
import threading
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tepid import shapes, validation
from tepid.errors import InputError, reading, require
from tepid.sources import paths
from tepid.sources.batch import Batch, Part, mismatch, row_shape
from tepid.sources.source import Source
from tepid.sources.spool import Spool, release
from tepid.tables import ARGUMENTS
from tepid.validation import Array

# Formats that are memory-mapped.
_MAPPED = (".npy", ".safetensors")
# A .npy file is read in ranges of this many logits, so that a cluster can share a large one.
_LOGITS_PER_PART = 1 << 26
# Pages of a memory map that were read are released after this many bytes.
_RESIDENT = 16 << 20
# Deflate cannot compress more than this; a member that claims more is damaged or hostile.
_MOST_COMPRESSION = 1100
# Chunks of HDF5 and zarr are decompressed as a whole.
_LARGEST_CHUNK = 1 << 30
# Chunks of HDF5 and zarr may be missing: writers leave out those of zeros. But a small file can
# claim any number of them, so this many may be, of this many bytes, or in proportion to the stored.
_FEW_CHUNKS, _FEW_BYTES, _MISSING_PER_STORED = 10_000, 1 << 30, 16
# Filters of HDF5 that do not compress; the second adds a checksum of four bytes.
_SHUFFLE, _FLETCHER32 = 2, 3
_ZARR_METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup")
# NumPy parses a header as Python, in which CPython 3.11 and 3.12 fail, though rarely, where two
# threads do so at once: https://github.com/python/cpython/issues/106905
_ONE_HEADER_AT_A_TIME = threading.Lock()


class FileState(NamedTuple):
    """What changes when a file is written; on another machine only the size is comparable."""

    machine: str
    size: int
    modified: int

    @classmethod
    def of(cls, path: str) -> "FileState | None":
        """The state of a file that is memory-mapped; None of others, and of a URL."""
        if paths.suffix(path) not in _MAPPED or paths.is_url(path) or not Path(path).is_file():
            return None
        found = Path(path).stat()
        return cls(platform.node(), found.st_size, found.st_mtime_ns)

    def check(self, path: str, name: str) -> None:
        """Raise if the file was written since."""
        now = FileState.of(path)
        if now is None or now.size != self.size or (now != self and now.machine == self.machine):
            got = "none any more" if now is None else "another size or modification time"
            raise InputError(f"{name} must stay as it is while it is read, got {got}")


@dataclass(frozen=True)
class ArrayFilePart(Part):
    """Rows of an array in a file; `members` names the arrays of the file by what they are for."""

    path: str
    name: str
    members: Mapping[str, str]
    class_axis: int | None
    state: FileState | None
    first: int
    rows: int = 0
    portable = True

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the rows; raises if the file was written since it was opened."""
        self._check_state()
        with reading(self.name), open_array(self.path, self.members["logits"]) as array:
            beside = {
                role: read_column(self.path, member, ARGUMENTS[role], self.name)
                for role, member in self.members.items()
                if role != "logits"
            }
            for role, column in beside.items():
                rows = math.prod(_rows_of(array, self.class_axis))
                if len(column) != rows:
                    raise mismatch(f"{ARGUMENTS[role]} of {self.name}", rows, len(column))
            row = self.first
            unit = max(1, math.prod(_rows_of(array, self.class_axis)[1:]))
            for logits in self._slices(array, size):
                stop = row + len(logits)
                cut: dict[str, Any] = {role: column[row:stop] for role, column in beside.items()}
                start = row - self.first
                yield Batch(logits, start=start, name=self.name, row=row, unit=unit, **cut)
                self._check_state()
                row = stop

    def _check_state(self) -> None:
        if self.state is not None:
            self.state.check(self.path, self.name)

    def _slices(self, array: Any, size: int) -> Iterator[Array]:
        stop = self.first + self.rows
        if not _in_rows(array, self.class_axis):
            whole = shapes.class_last(np.asarray(array[...]), self.class_axis)
            yield from shapes.slices(whole, size)
            return
        # Whole chunks at a time, so that none is decompressed twice.
        chunk = (getattr(array, "chunks", None) or (1,))[0]
        step = max(chunk, size // chunk * chunk)
        memory, seen = getattr(array, "_mmap", None), 0
        for start in range(self.first, stop, step):
            rows = np.asarray(array[start : min(start + step, stop)])
            yield from shapes.slices(rows, size)
            seen += rows.nbytes
            if memory is not None and seen >= _RESIDENT:
                release(memory)
                seen = 0
        release(memory)

    def select(self, keep: frozenset[str]) -> "ArrayFilePart":
        """The same rows; other members are not opened."""
        members = {
            role: member
            for role, member in self.members.items()
            if role == "logits" or role in keep
        }
        return dataclasses.replace(self, members=members)


def _in_rows(array: Any, class_axis: int | None) -> bool:
    """Whether the rows of the file are the rows of the logits."""
    return len(array.shape) <= 2 and class_axis in (None, -1, len(array.shape) - 1)


def _rows_of(array: Any, class_axis: int | None) -> tuple[int, ...]:
    return row_shape(shapes.class_last(_alike(tuple(array.shape), array.dtype), class_axis))


def _alike(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array of this shape that takes no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def describe(path: str, member: str) -> Array:
    """An array of the shape and type of one in a file, without reading its values."""
    if paths.suffix(path) == ".npz":
        with _open_zip(path) as archive:
            return _alike(*_member_header(archive, path, member)[1:])
    if paths.suffix(path) == ".npy" and paths.is_url(path):
        with paths.open_bytes(path, seekable=False) as stream:
            return _alike(*_read_header(stream, paths.base_name(path)))
    with open_array(path, member) as array:
        return _alike(tuple(array.shape), array.dtype)


def open_file(
    path: str,
    member: str,
    name: str,
    beside: Mapping[str, str],
    class_axis: int | None,
) -> Source:
    """A source over one file; `beside` names members by what they are for."""
    with reading(name):
        state = FileState.of(path)
        member = member or only_member(path, name, "logits")
        known = list_members(path) if beside else []
        for role, wanted in beside.items():
            if wanted not in known:
                got = ", ".join(known) or "no members"
                raise InputError(
                    f"{ARGUMENTS[role]} must name a member of {name}, which has {got}, "
                    f"got {wanted!r}; a file of its own ends in .npy or the like"
                )
        array = describe(path, member)
        validation.as_array(np.zeros((), array.dtype), name)  # raises unless these are numbers
        last = shapes.class_last(array, class_axis)
        spool = None if is_mapped(path) else Spool()
    shape = row_shape(last)
    rows = math.prod(shape)
    classes = shapes.class_count(last) if rows else None  # an empty file may have any shape
    # Each part of a file behind a URL would download it.
    cut = _in_rows(array, class_axis) and paths.suffix(path) == ".npy" and not paths.is_url(path)
    step = max(1, _LOGITS_PER_PART // (classes or 1)) if cut else max(rows, 1)
    part = partial(ArrayFilePart, path, name, {"logits": member, **beside}, class_axis, state)
    return Source(
        tuple(part(first, min(step, rows - first)) for first in range(0, max(rows, 1), step)),
        name,
        classes,
        frozenset(beside),
        shape,
        items=last.ndim > 2,
        binary=last.ndim == 1 or last.shape[-1] == 1,
        spool=spool,
    )


def read_array(path: paths.AnyPath, wanted: str, what: str) -> Array:
    """One array of a file, as it is; `wanted` is the member if none is named after `#`."""
    file, member, name = paths.find_file(path, what)
    with reading(name):
        member = member or only_member(file, name, wanted)
        with open_array(file, member) as array:
            return array if isinstance(array, np.ndarray) else np.asarray(array[...])


def read_column(path: str, member: str, argument: str, name: str) -> Array:
    """All of a member, flat, as the argument of this name."""
    with reading(name), open_array(path, member or only_member(path, name, argument)) as array:
        values = array.asstr() if _is_hdf5_text(array) else array
        # A copy, since a memory map would be read after the file may have changed.
        return validation.side_column(np.array(values[...]), argument).reshape(-1)


def _is_hdf5_text(array: Any) -> bool:
    return hasattr(array, "asstr") and array.dtype.kind in "OS"


def only_member(path: str, name: str, wanted: str) -> str:
    """The member of that name, or the only one; empty for a file that is one array."""
    members = list_members(path)
    if not members or wanted in members:
        return wanted if members else ""
    if len(members) == 1:
        return members[0]
    raise InputError(
        f"{name} must have a member {wanted!r}, or name one after #, got {', '.join(members)}"
    )


def list_members(path: str) -> list[str]:
    """The names of the arrays in a file; none where the file is one array."""
    ending = paths.suffix(path)
    if ending == ".npy":
        return []
    if ending == ".npz":
        with _open_zip(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    if ending == ".safetensors":
        with _open_safetensors(path) as file:
            return list(file.keys())
    if ending in (".pt", ".pth"):
        content = _load_torch(path, meta=True)
        return list(_tensors(content)) if hasattr(content, "items") else []
    with _open_store(path) as store:
        return [] if hasattr(store, "shape") else _store_members(store)


@contextlib.contextmanager
def open_array(path: str, member: str) -> Iterator[Any]:
    """One array of a file, with a shape, a dtype and slices."""
    ending = paths.suffix(path)
    if ending == ".npy":
        with paths.local_copy(path) as here:
            yield _open_npy(here, paths.base_name(path), member)
    elif ending == ".npz":
        with _open_zip(path) as archive:
            yield _read_member(archive, path, member)
    elif ending == ".safetensors":
        with _open_safetensors(path) as file:
            tensor = _known(member, list(file.keys()), path)
            # The package cannot slice a single number or a tensor without rows.
            empty = not math.prod(file.get_slice(tensor).get_shape()[:1] or [0])
            yield file.get_tensor(tensor) if empty else _SafeTensor(file, tensor)
    elif ending in (".pt", ".pth"):
        yield _read_torch(path, member)
    elif ending in (".h5", ".hdf5", ".zarr"):
        with _open_store(path) as store:
            yield _checked_chunks(_store_array(store, member, path), path)
    else:
        raise InputError(f"{paths.base_name(path)} must end in {paths.ENDINGS}")


def _known(member: str, members: list[str], path: str) -> str:
    if member in members:
        return member
    got = ", ".join(members) or "none"
    raise InputError(f"{paths.base_name(path)} must have a member {member!r}, got {got}")


# .npy and .npz ------------------------------------------------------------------------------------


def _open_npy(path: str, name: str, member: str) -> Any:
    if member:
        raise InputError(f"{name} must be an archive such as .npz to have a member, got {member!r}")
    with Path(path).open("rb") as file:
        start = file.read(2)
        if start == b"PK":
            raise InputError(f"{name} must be one array, got a .npz archive under this name")
        if start[:1] == b"\x80":
            raise InputError(
                f"{name} must be an array, got pickled objects, which are never loaded"
            )
        file.seek(0)
        shape, dtype = _read_header(file, name)
        left = Path(path).stat().st_size - file.tell()
    if math.prod(shape) * dtype.itemsize > left:
        raise InputError(f"{name} claims the shape {shape}, more than it holds")
    with _ONE_HEADER_AT_A_TIME:
        return np.lib.format.open_memmap(path, mode="r")


def _read_header(stream: Any, name: str) -> tuple[tuple[int, ...], Any]:
    """The shape and the type of an array in NumPy's format."""
    version = np.lib.format.read_magic(stream)
    with _ONE_HEADER_AT_A_TIME:
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    if dtype.hasobject:
        raise InputError(f"{name} must be an array of numbers, got pickled objects")
    return shape, dtype


@contextlib.contextmanager
def _open_zip(path: str) -> Iterator[zipfile.ZipFile]:
    with paths.open_bytes(path) as file, zipfile.ZipFile(file) as archive:
        yield archive


def _member_header(
    archive: zipfile.ZipFile, path: str, member: str
) -> tuple[zipfile.ZipInfo, tuple[int, ...], Any]:
    names = [name.removesuffix(".npy") for name in archive.namelist()]
    info = archive.getinfo(f"{_known(member, names, path)}.npy")
    name = f"{paths.base_name(path)}#{member}"
    if info.file_size > _MOST_COMPRESSION * max(info.compress_size, 1):
        raise InputError(f"{name} claims {info.file_size} bytes in {info.compress_size}")
    with archive.open(info) as stream:
        shape, dtype = _read_header(stream, name)
    if math.prod(shape) * max(dtype.itemsize, 1) > info.file_size:
        raise InputError(f"{name} claims the shape {shape}, more than it holds")
    return info, shape, dtype


def _read_member(archive: zipfile.ZipFile, path: str, member: str) -> Array:
    info, *_ = _member_header(archive, path, member)
    with archive.open(info) as stream, _ONE_HEADER_AT_A_TIME:
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


# .safetensors and .pt -----------------------------------------------------------------------------


@contextlib.contextmanager
def _open_safetensors(path: str) -> Iterator[Any]:
    package = require("safetensors", "files", "Reading .safetensors")
    with paths.local_copy(path) as here, package.safe_open(here, framework="np") as file:
        yield file


class _SafeTensor:
    """A tensor of a safetensors file, read in slices; bfloat16 becomes float32."""

    def __init__(self, file: Any, member: str) -> None:
        self.slice = file.get_slice(member)
        self.shape = tuple(self.slice.get_shape())
        self.wide = self.slice.get_dtype() == "BF16"
        if self.wide:
            require("ml_dtypes", "files", "Reading bfloat16")  # which NumPy learns from it
        self.dtype = np.dtype(np.float32) if self.wide else self.slice[:0].dtype

    def __getitem__(self, rows: Any) -> Array:
        values = np.asarray(self.slice[rows if rows is not Ellipsis else slice(None)])
        return values.astype(np.float32) if self.wide else values


def _load_torch(path: str, *, meta: bool = False) -> Any:
    torch = require("torch", "torch", "Reading .pt")
    with paths.open_bytes(path) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of a damaged file before it raises
        # Loaded first without data, since a tensor may claim any size.
        return torch.load(file, map_location="meta" if meta else "cpu", weights_only=True)


def _read_torch(path: str, member: str) -> Array:
    for meta in (True, False):
        content = _load_torch(path, meta=meta)
        if hasattr(content, "items"):
            tensors = _tensors(content)
            content = tensors[_known(member, list(tensors), path)]
        elif member:
            raise InputError(
                f"{paths.base_name(path)} must be a dict to have a member, got {member!r}"
            )
        if not hasattr(content, "detach"):
            kind = type(content).__name__
            raise InputError(f"{paths.base_name(path)} must hold tensors, got {kind}")
        if meta and not paths.is_url(path) and content.nbytes > Path(path).stat().st_size:
            raise InputError(f"{paths.base_name(path)} claims the shape {tuple(content.shape)}")
    return np.asarray(validation.as_array(content))


def _tensors(content: Any) -> dict[str, Any]:
    return {str(key): value for key, value in content.items() if hasattr(value, "detach")}


# HDF5 and zarr ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _open_store(path: str) -> Iterator[Any]:
    if paths.suffix(path) == ".zarr":
        yield require("zarr", "files", "Reading .zarr").open(path, mode="r")
        return
    h5py = require("h5py", "files", "Reading .h5")
    with contextlib.ExitStack() as stack:
        file: Any = path
        if paths.is_url(path):
            file = stack.enter_context(paths.open_bytes(path))
        yield stack.enter_context(h5py.File(file, "r"))


def _store_members(store: Any) -> list[str]:
    return sorted(name for name in store if hasattr(store[name], "shape"))


def _store_array(store: Any, member: str, path: str) -> Any:
    if hasattr(store, "shape"):
        if member:
            raise InputError(
                f"{paths.base_name(path)} must be a group to have a member, got {member!r}"
            )
        return store
    if member in store and hasattr(store[member], "shape"):
        return store[member]
    members = _store_members(store)
    if not members:
        name = paths.base_name(path)
        raise InputError(
            f"{name} must have an array at its top level, or name one as {name}#group/array"
        )
    return store[_known(member, members, path)]


def _checked_chunks(array: Any, path: str) -> Any:
    """The array, unless it has a huge chunk or claims many chunks that are not stored."""
    name, itemsize = paths.base_name(path), max(array.dtype.itemsize, 1)
    chunk = tuple(array.chunks or array.shape)
    size = math.prod(chunk) * itemsize
    if array.chunks and size > _LARGEST_CHUNK:
        raise InputError(f"{name} must have chunks below 1 GB, got {size} bytes")
    if array.chunks and hasattr(array, "id"):
        _check_hdf5_chunks(array, size, name)
    claimed = math.prod(
        -(-side // max(part, 1)) for side, part in zip(array.shape, chunk, strict=True)
    )
    if claimed <= _FEW_CHUNKS and claimed * size <= _FEW_BYTES:
        return array  # counting is not worth it
    stored = _count_chunks(array, path)
    allowed = max(_MISSING_PER_STORED * stored, min(_FEW_CHUNKS, _FEW_BYTES // max(size, 1)))
    if claimed - stored > allowed:
        raise InputError(
            f"{name} claims the shape {tuple(array.shape)}, but only {stored} of {claimed} chunks "
            "are stored"
        )
    return array


def _check_hdf5_chunks(array: Any, size: int, name: str) -> None:
    """Raise if a chunk cannot hold what it should: HDF5 would read beyond it."""
    layout = array.id.get_create_plist()
    filters = [layout.get_filter(place)[0] for place in range(layout.get_nfilters())]
    end = array.file.id.get_filesize()
    wrong = []

    def check(chunk: Any) -> None:
        active = [code for place, code in enumerate(filters) if not chunk.filter_mask >> place & 1]
        extra = 4 * active.count(_FLETCHER32)
        plain = set(active) <= {_SHUFFLE, _FLETCHER32}
        fits = chunk.size == size + extra if plain else chunk.size > extra
        if not fits or chunk.byte_offset + chunk.size > end:
            wrong.append(chunk.chunk_offset)

    if hasattr(array.id, "chunk_iter"):  # of HDF5 1.12.3 and later
        array.id.chunk_iter(check)
    if wrong:
        raise InputError(f"{name} must have whole chunks, got a damaged one at {wrong[0]}")


def _count_chunks(array: Any, path: str) -> int:
    """The number of chunks that are stored."""
    if hasattr(array, "id"):  # HDF5, which without chunks stores all values, or none yet
        if not array.chunks:
            return int(array.id.get_storage_size() > 0)
        return int(array.id.get_num_chunks())
    # The package would look for every chunk that is claimed.
    names = map(paths.base_name, paths.list_files(f"{path}/{array.path}"))
    files = sum(name not in _ZARR_METADATA for name in names)
    shards = getattr(array, "shards", None) or array.chunks
    sides = zip(shards, array.chunks, strict=True)
    return files * int(math.prod(-(-side // part) for side, part in sides))


def is_mapped(path: str) -> bool:
    """Whether a file is read as fast as memory, so that decoding it once gains nothing."""
    if paths.is_url(path):
        return False
    if paths.suffix(path) == ".zarr":
        with contextlib.suppress(Exception), _open_store(path) as store:
            every = (
                [store] if hasattr(store, "shape") else [store[n] for n in _store_members(store)]
            )
            return not any(array.compressors for array in every)
    return paths.suffix(path) in _MAPPED
