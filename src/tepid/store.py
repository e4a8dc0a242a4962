"""Saved files: one format for summaries, calibrators and monitors, written atomically.

A file is an uncompressed `.npz` archive. Its member `header.json` holds the `kind`, the `format`
and plain JSON fields; every other member is a float64 or int64 array. Reading never unpickles,
never imports a name from the file, and never allocates more than the size of the file.
"""

import contextlib
import dataclasses
import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from tepid.errors import InputError

Array = NDArray[Any]
Header = dict[str, Any]
Arrays = dict[str, Array]
Value = TypeVar("Value")


class Kind(NamedTuple):
    """The format that this version reads and writes, and how to recreate such a file."""

    format: int
    recreate: str


_CALIBRATOR = Kind(2, "tepid fit logits --labels labels --method METHOD -o file.npz")
# Every kind of file. Format 1 was written before version 2.
KINDS = {
    "Tails": Kind(2, "tepid.summaries.Tails.of(logits).save(path)"),
    "Curve": Kind(2, "tepid.summaries.Curve.of(logits).save(path)"),
    "Reliability": Kind(2, "tepid.summaries.Reliability.of(probabilities, labels).save(path)"),
    "Summaries": Kind(2, "tepid summarize logits -o file.npz"),
    "Affine": _CALIBRATOR,
    "Mixture": _CALIBRATOR,
    "ClassMaps": _CALIBRATOR,
    "Betas": _CALIBRATOR,
    "Monitor": Kind(2, "Monitor.from_reference(logits, temperature, chunk=...).save(path)"),
}
_HEADER = "header.json"
# Members of the files that earlier versions wrote.
_OLD_MEMBERS = {"tree.json", "header.npy", "kind.npy"}
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_HEADER = re.compile(
    rb"\{'descr': '(<f8|<i8)', 'fortran_order': False, 'shape': \(([0-9, ]*)\), \} *\n"
)


def write(
    path: str | os.PathLike[str], kind: str, header: Header, arrays: Mapping[str, Array]
) -> None:
    """Write a file of one of `KINDS`. Equal content gives equal bytes."""
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, data in _members_of(kind, header, arrays):
            archive.writestr(zipfile.ZipInfo(name), data)  # without a modification time


def read(path: str | os.PathLike[str], kinds: Collection[str]) -> tuple[str, Header, Arrays]:
    """Return the kind, the header's fields and the arrays of a file of one of these kinds.

    Raises `InputError` for a damaged file, another kind of file and another format.
    """
    check_regular(path, folder=False)
    data = Path(path).read_bytes()
    try:
        members = _read_members(data)
        header = _parse_header(members.pop(_HEADER)) if _HEADER in members else None
    except Exception as error:  # zipfile raises nine kinds of error on a damaged archive
        raise InputError(f"{path} must be {_named(kinds)}, got another file") from error
    if header is None:
        if members.keys() & _OLD_MEMBERS:
            raise InputError(_too_old(path, kinds))
        raise InputError(f"{path} must be {_named(kinds)}, got another file")
    kind = _check_kind(path, kinds, header)
    try:
        arrays = {name.removesuffix(".npy"): _parse_array(data) for name, data in members.items()}
    except ValueError as error:
        raise InputError(f"{path} is not a valid {kind} file: {error}") from None
    return kind, header, arrays


def digest(kind: str, header: Header, arrays: Mapping[str, Array]) -> str:
    """Return a 32-digit hash of the content of a file."""
    found = hashlib.blake2b(digest_size=16)
    for name, data in _members_of(kind, header, arrays):
        found.update(f"{name} {len(data)} ".encode() + data)
    return found.hexdigest()


def fields_of(value: Any) -> tuple[Header, Arrays]:
    """Return the fields of a dataclass: arrays and floats as arrays, all others as JSON."""
    fields = {field.name: field for field in dataclasses.fields(value) if field.init}
    arrays = {
        name: np.asarray(getattr(value, name), dtype)
        for name, field in fields.items()
        if (dtype := _dtype(field.type)) is not None
    }
    return {name: getattr(value, name) for name in fields if name not in arrays}, arrays


def build(kind: type[Value], header: Header, arrays: Mapping[str, Array]) -> Value:
    """Return a dataclass with the fields that `fields_of` gave; checks names and types."""
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}  # type: ignore[arg-type]
    stored = {**header, **arrays}
    if stored.keys() != fields.keys() or len(stored) < len(header) + len(arrays):
        odd = sorted(stored.keys() ^ fields.keys()) or sorted(header.keys() & arrays.keys())
        raise InputError(f"the fields must be those of {kind.__name__}, got a mismatch in {odd}")
    return kind(
        **{
            name: _typed(name, field.type, (header if _dtype(field.type) is None else arrays))
            for name, field in fields.items()
        }
    )


def save(value: Any, path: str | os.PathLike[str]) -> None:
    """Write a dataclass whose name is one of `KINDS`."""
    write(path, type(value).__name__, *fields_of(value))


def load(
    path: str | os.PathLike[str], checks: Mapping[type[Value], Callable[[Value], None]]
) -> Value:
    """Return the dataclass that `save` wrote: of one of these types, and passed by its check."""
    types = {kind.__name__: kind for kind in checks}
    kind, header, arrays = read(path, types)
    with checking(path, kind):
        value = build(types[kind], header, arrays)
        checks[types[kind]](value)
    return value


@contextlib.contextmanager
def checking(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Name the file in errors about its content."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path} is not a valid {kind} file: {error}") from None


def check_count(name: str, value: object, least: int = 0) -> None:
    """Refuse what is not a whole number from `least` up."""
    if type(value) is not int or value < least:
        raise InputError(f"{name} must be a whole number from {least} up, got {shorten(value)}")


def check_numbers(
    name: str,
    value: Array | float,
    shape: tuple[int, ...] = (),
    low: float | Array = -math.inf,
    high: float | Array = math.inf,
) -> None:
    """Refuse an array that has another shape, a value that is not finite, or one out of range."""
    if np.shape(value) != shape:
        raise InputError(f"{name} must have shape {shape}, got {np.shape(value)}")
    array = np.asarray(value)
    wrong = ~(np.isfinite(array) & (array >= low) & (array <= high))
    if wrong.any():
        got = float(np.broadcast_to(array, wrong.shape)[wrong].flat[0])
        raise InputError(f"{name} must be finite and in its range, got {got:g}")


def shorten(value: object) -> str:
    """Return what an error message shows of a value."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with shape {value.shape}"
    try:
        text = repr(value)
    except ValueError:  # of whole numbers with thousands of digits
        return "a number of too many digits"
    return text if len(text) < 80 else text[:77] + "..."


def _dtype(annotation: Any) -> type[np.generic] | None:
    """Return the dtype of a field that is stored as an array, or None for one that is JSON."""
    if annotation is float or annotation == NDArray[np.float64]:
        return np.float64
    return np.int64 if annotation == NDArray[np.int64] else None


def _typed(name: str, annotation: Any, stored: Mapping[str, Any]) -> Any:
    """Return a stored field as its annotation wants it, or refuse it."""
    value: Any = stored.get(name)
    dtype = _dtype(annotation)
    if dtype is not None:
        if value is not None and value.dtype == dtype:
            if annotation is not float:
                return value
            if value.ndim == 0:
                return value.item()
    elif annotation == tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
    elif get_origin(annotation) is Literal:
        if isinstance(value, str) and value in get_args(annotation):
            return value
    elif type(value) is annotation:
        return value
    what = getattr(annotation, "__name__", str(annotation)) if dtype is None else dtype.__name__
    raise InputError(f"{name} must be of type {what}, got {shorten(value)}")


def _members_of(
    kind: str, header: Header, arrays: Mapping[str, Array]
) -> Iterator[tuple[str, bytes]]:
    head = {"kind": kind, "format": KINDS[kind].format} | header
    yield _HEADER, json.dumps(head, sort_keys=True, allow_nan=False).encode()
    for name, array in arrays.items():
        if array.dtype.kind not in "fi" or array.dtype.itemsize != 8:
            raise TypeError(f"{name} must be float64 or int64, got {array.dtype}")
        file = io.BytesIO()
        plain = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        np.lib.format.write_array(file, plain, version=(1, 0), allow_pickle=False)
        yield f"{name}.npy", file.getvalue()


def _read_members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        # Compressed or overlapping members could be far larger than the file.
        compressed = any(info.compress_type != zipfile.ZIP_STORED for info in infos)
        if compressed or sum(info.file_size for info in infos) > len(data):
            raise zipfile.BadZipFile
        members = {info.filename: archive.read(info) for info in infos}
        if len(members) < len(infos):
            raise zipfile.BadZipFile
        return members


def _parse_header(data: bytes) -> Header:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    header = json.loads(data.decode(), parse_constant=refuse)
    if not isinstance(header, dict):
        raise TypeError
    return header


def _check_kind(path: str | os.PathLike[str], kinds: Collection[str], header: Header) -> str:
    """Remove the kind and the format from a header, and return the kind."""
    kind, number = header.pop("kind", None), header.pop("format", None)
    if not isinstance(kind, str) or kind not in kinds:
        raise InputError(f"{path} must be {_named(kinds)}, got kind {shorten(kind)}")
    if type(number) is not int:
        raise InputError(f"{path} is not a valid {kind} file: format must be a whole number")
    if number < KINDS[kind].format:
        raise InputError(_too_old(path, (kind,)))
    if number > KINDS[kind].format:
        reads = f"this version of tepid reads format {KINDS[kind].format}"
        raise InputError(f"{path} has format {shorten(number)}, but {reads}; update tepid")
    return kind


def _named(kinds: Collection[str]) -> str:
    return f"a file of {' or '.join(kinds)} saved by tepid"


def _too_old(path: str | os.PathLike[str], kinds: Collection[str]) -> str:
    recreate = KINDS[next(iter(kinds))].recreate
    return f"{path} was saved by an older version of tepid; recreate it with {recreate}"


def _parse_array(data: bytes) -> Array:
    """Parse a `.npy` member; the shape that it claims must fit its size."""
    length = int.from_bytes(data[8:10], "little")
    found = _NPY_HEADER.fullmatch(data[10 : 10 + length])
    if data[:8] != _NPY_MAGIC or found is None:
        raise ValueError("an array must be plain float64 or int64, got something else")
    dtype = np.dtype(found[1].decode())
    shape = tuple(int(part) for part in found[2].decode().split(",") if part.strip())
    body = data[10 + length :]
    if math.prod(shape) * dtype.itemsize != len(body):
        raise ValueError(f"an array must have as many numbers as its shape, got {shape}")
    return np.frombuffer(body, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def check_regular(path: str | os.PathLike[str], *, folder: bool = True) -> None:
    """Raise for a FIFO, a socket or a device, on which a read may wait for ever or never end.

    A folder is allowed unless `folder` is False.
    """
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):  # whoever opens it says what is wrong
        return
    if not stat.S_ISREG(mode) and not (folder and stat.S_ISDIR(mode)):
        kinds = {
            stat.S_IFIFO: "a FIFO or pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder",
        }  # fmt: skip
        got = kinds.get(stat.S_IFMT(mode), "a device")
        raise InputError(f"{path} must be a regular file, got {got}")


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Write to a temporary file in the same folder, sync it, and move it into place.

    A link is followed, and the mode of a file that is replaced is kept. Anything but a regular
    file, such as a device, is refused. `kill -9` can leave the temporary file, whose name begins
    with a dot and ends in `.tmp`.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise InputError(f"output must be a file, got {path}")
    if not target.parent.is_dir():
        raise InputError(f"output must be in a folder that exists, got {path}")
    old = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    # 40 characters are at most 160 bytes of the 255 that a name may have.
    temporary = target.with_name(f".{target.name[:40]}.{secrets.token_hex(8)}.tmp")
    # The system applies the umask to a new file; a private file stays private while it is written.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(temporary, flags, 0o666 if old is None else old)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            temporary.chmod(old)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
