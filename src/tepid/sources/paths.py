"""Paths, folders, globs and URLs: which files they name, and how their bytes are opened.

A path may name a member of an archive or a column of a table after `#`, as in `file.npz#logits`.
Files of a folder or a glob come in natural order: part 2 before part 10.
"""

import bz2
import contextlib
import fnmatch
import glob
import gzip
import io
import lzma
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NoReturn, TypeGuard

from tepid.errors import InputError, require
from tepid.store import check_regular

COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
CSV = (".csv", *(f".csv{ending}" for ending in COMPRESSIONS))
LOGS = (".jsonl", *(f".jsonl{ending}" for ending in COMPRESSIONS))
ARROW = (".parquet", ".arrow", ".feather", ".ipc")
ARRAYS = (".npy", ".npz", ".zarr", ".h5", ".hdf5", ".safetensors", ".pt", ".pth")
KNOWN = (*ARRAYS, *ARROW, *CSV, *LOGS)
ENDINGS = (
    "one of .npy, .npz, .csv, .parquet, .arrow, .feather, .zarr, .h5, .safetensors, .pt and .jsonl"
)

# Without a limit on a line a small compressed file could fill the memory.
_LONGEST_LINE = 64 << 20

AnyPath = str | os.PathLike[str]


def is_path(data: Any) -> TypeGuard[AnyPath]:
    """Whether this is one path, glob or URL."""
    return isinstance(data, (str, os.PathLike))


def are_paths(data: Any) -> bool:
    """Whether this is a path, or a list of nothing but paths."""
    listed = isinstance(data, (list, tuple)) and len(data) > 0
    return is_path(data) or (listed and all(is_path(path) for path in data))


def names_file(given: Any) -> bool:
    """Whether text names a file rather than a column: by how it is written, not by what exists."""
    if not isinstance(given, str):
        return isinstance(given, os.PathLike)
    return suffix(given) in KNOWN or any(
        sign in given for sign in ("/", os.sep, "#", "*", "?", "[")
    )


def split_names(given: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Names of columns or members, and everything else: arrays and files."""
    named = {
        role: value
        for role, value in given.items()
        if isinstance(value, str) and not names_file(value)
    }
    return named, {role: value for role, value in given.items() if role not in named}


def is_url(path: str) -> bool:
    """Whether this is a URL that fsspec opens."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path) is not None


def split_member(path: AnyPath) -> tuple[str, str]:
    """The file, and the member or column named after `#`."""
    text = os.fspath(path)
    if "#" in text and (is_url(text) or not exists(text)):
        file, _, member = text.rpartition("#")
        return file, member
    return text, ""


def exists(path: str) -> bool:
    """Whether there is such a file; False for text longer than the name of a file can be."""
    return os.path.exists(path)  # noqa: PTH110  # pathlib raises


def _is_folder(path: str) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  # the same


def base_name(path: str) -> str:
    """The file's own name, without folders and without a URL's query."""
    plain = path.split("?", 1)[0] if is_url(path) else path
    return plain.rstrip("/").replace(os.sep, "/").rpartition("/")[2]


def suffix(path: str) -> str:
    """The lowercase ending, together with that of a compression."""
    name, ending = os.path.splitext(base_name(path).lower())  # noqa: PTH122  # of URLs too
    return os.path.splitext(name)[1] + ending if ending in COMPRESSIONS else ending  # noqa: PTH122


def find_file(path: AnyPath, what: str) -> tuple[str, str, str]:
    """The file, its member or column, and its own name; raises as `check_file` does."""
    file, member = split_member(path)
    check_file(file, what)
    return file, member, base_name(file)


def check_file(path: str, what: str) -> None:
    """Raise unless a path names a file of a known format that exists."""
    if suffix(path) not in KNOWN:
        raise InputError(f"{what} must end in {ENDINGS}, got {base_name(path)}")
    if is_url(path):
        if path.lower().startswith(("file://", "local://")):
            _file_system(path)  # raises as the plain path would: a read may wait for ever
        return
    if not Path(path).exists():
        raise InputError(f"{what} must exist, got {path}")
    check_regular(path)
    if Path(path).is_dir() != (suffix(path) == ".zarr"):
        kind = "a folder" if Path(path).is_dir() else "a file"
        raise InputError(f"{what} {base_name(path)} must not be {kind}, got {path}")
    if Path(path).is_dir():
        _check_inside(path)


def _check_inside(folder: str) -> None:
    """Raise unless all that a store holds are regular files and folders."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):  # a loop of links ends
                _check_inside(entry.path)
            elif not entry.is_file():
                check_regular(entry.path)


def is_single(path: AnyPath) -> bool:
    """Whether a path names one file, and neither a folder nor a glob."""
    file = split_member(path)[0]
    if _is_glob(file):
        return False
    if is_url(file):
        return suffix(file) in KNOWN
    return not _is_folder(file) or suffix(file) == ".zarr"


def expand(given: Any, what: str) -> list[str]:
    """Every file that a path, a folder, a glob or a list of them names, each with its member."""
    if not is_path(given):
        return [path for each in given for path in expand(each, what)]
    file, member = split_member(given)
    if not file:
        raise InputError(f"{what} must be a path, got {os.fspath(given) or 'an empty one'}")
    if "::" in file and not exists(file):
        raise InputError(f"{what} must be a path or one URL, got the chain {file}")
    if is_single(given):
        found: Iterable[str] = [file]
    elif is_url(file):
        found = _remote_files(file)
    else:
        found = _matches(file) if _is_glob(file) else _inside(Path(file))
        found = _distinct(found)
    if not found:
        raise InputError(f"{what} must be a file, or a folder or glob with files, got {file}")
    ordered = sorted(found, key=_natural)
    return [f"{path}#{member}" if member else path for path in ordered]


def short_names(paths: Iterable[str]) -> list[str]:
    """Each file's path below the folder that all of them share, without `..` in it."""
    files = [split_member(path)[0] for path in paths]
    whole = [_url_path(file) if is_url(file) else os.path.abspath(file) for file in files]  # noqa: PTH100
    names = [name.replace(os.sep, "/").strip("/").split("/") for name in whole]
    shared = 0
    while len({tuple(name[: shared + 1]) for name in names}) == 1 < len(names[0]) - shared:
        shared += 1
    return ["/".join(name[shared:]) for name in names]


def _url_path(url: str) -> str:
    return posixpath.normpath("/" + url.split("://", 1)[1].split("?", 1)[0])


def _is_glob(path: str) -> bool:
    if is_url(path):  # where a question mark begins the query
        return "*" in path
    return _has_wildcard(path) and not exists(path)


def _has_wildcard(text: str) -> bool:
    return re.search(r"[*?[]", text) is not None


def _matches(pattern: str) -> list[str]:
    parts = Path(pattern).parts
    first = next(place for place, part in enumerate(parts) if _has_wildcard(part))
    if "**" in pattern:
        below, rest = Path(*parts[:first]), parts[first:]
        return [path for path in _walk(below) if _fits(Path(path).relative_to(below).parts, rest)]
    # pathlib has no absolute globs; glob.glob skips a folder that it cannot read.
    for stop in range(first, len(parts)):
        for folder in glob.glob(str(Path(*parts[:stop]))):  # noqa: PTH207
            if _is_folder(folder) and not os.access(folder, os.R_OK | os.X_OK):
                raise _unreadable(folder, "permission denied")
    found = glob.glob(pattern)  # noqa: PTH207
    return [path for path in found if suffix(path) == ".zarr" or not _is_folder(path)]


def _fits(path: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether the parts of a path match those of a glob, in which `**` is any number of folders."""
    if not pattern or not path:
        return not path and set(pattern) <= {"**"}
    if pattern[0] == "**":
        return _fits(path, pattern[1:]) or _fits(path[1:], pattern)
    return fnmatch.fnmatch(path[0], pattern[0]) and _fits(path[1:], pattern[1:])


def _inside(folder: Path) -> list[str]:
    return [path for path in _walk(folder) if suffix(path) in KNOWN]


def _walk(folder: Path) -> list[str]:
    """The files and stores below a folder, without hidden ones; each folder is read once.

    A link to a folder is followed, unless it leads to a folder that contains the link.
    """
    found: list[str] = []
    seen = {os.path.realpath(folder)}

    def refuse(error: OSError) -> NoReturn:
        raise _unreadable(str(error.filename), (error.strerror or str(error)).lower())

    def is_new(path: str, inside: str) -> bool:
        real = os.path.realpath(path)
        if real in seen or Path(inside).is_relative_to(real):
            return False
        seen.add(real)
        return True

    for root, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        visible = sorted((name for name in folders if _is_visible(Path(name))), key=_natural)
        stores = [name for name in visible if suffix(name) == ".zarr"]
        files = [name for name in names if _is_visible(Path(name))]
        found += [str(Path(root, name)) for name in files + stores]
        inside = os.path.realpath(root)
        below = [name for name in visible if name not in stores]
        folders[:] = [name for name in below if is_new(f"{root}/{name}", inside)]
    return found


def _unreadable(folder: str, got: str) -> InputError:
    return InputError(f"{folder} must be a folder that can be read, got {got}")


def _is_visible(path: Path) -> bool:
    """Spark and others put `_SUCCESS` and `.crc` files beside the data."""
    return not any(part.startswith((".", "_")) and part != ".." for part in path.parts)


def _distinct(paths: Iterable[str]) -> list[str]:
    """Each file once, however many links lead to it."""
    first: dict[str, str] = {}
    for path in sorted(paths, key=_natural):
        first.setdefault(os.path.realpath(path), path)
    return list(first.values())


def _natural(path: str) -> list[Any]:
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", path)]


# Opening bytes ------------------------------------------------------------------------------------


def open_bytes(path: str, *, seekable: bool = True) -> IO[bytes]:
    """The file, to be read in any order, or only from start to end."""
    if is_url(path):
        return _open_remote(path, seekable=seekable)
    check_regular(path)
    return Path(path).open("rb")


@contextlib.contextmanager
def open_text(path: str) -> Iterator[io.TextIOWrapper]:
    """A text file, decompressed."""
    openers: dict[str, Callable[[IO[bytes]], Any]] = {
        ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zst": _open_zstandard,
    }  # fmt: skip
    ending = next((ending for ending in openers if suffix(path).endswith(ending)), None)
    with contextlib.ExitStack() as stack:
        file: Any = stack.enter_context(open_bytes(path, seekable=False))
        plain = file if ending is None else stack.enter_context(openers[ending](file))
        yield stack.enter_context(io.TextIOWrapper(plain, encoding="utf-8-sig", newline=""))


def text_lines(file: io.TextIOWrapper, name: str) -> Iterator[str]:
    """The lines of a text file; raises where one has no end or holds a zero byte."""
    number = 0
    while line := file.readline(_LONGEST_LINE):
        number += 1
        if len(line) == _LONGEST_LINE:
            raise InputError(f"{name} must have lines below 64 MB, got a longer one")
        if "\0" in line:  # which NumPy drops at the end of a text
            raise InputError(f"{name} must be UTF-8 text, got a zero byte at line {number}")
        yield line


def _open_zstandard(file: IO[bytes]) -> Any:
    return require("pyarrow", "parquet", "Reading .zst").CompressedInputStream(file, "zstd")


@contextlib.contextmanager
def local_copy(path: str) -> Iterator[str]:
    """A path on this machine, for libraries that read nothing else; a download is removed."""
    if not is_url(path):
        yield path
        return
    import tempfile  # noqa: PLC0415  # only for URLs

    with tempfile.TemporaryDirectory(prefix="tepid-") as folder:
        target = str(Path(folder, "download"))
        system, where = _file_system(path)
        with _remote_errors(path):
            system.get_file(where, target)
        yield target


def _file_system(url: str) -> tuple[Any, str]:
    fsspec = require("fsspec", "remote", f"Opening {url}")
    try:
        system, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise InputError(f"{url} needs a driver: {error}") from None
    except ValueError as error:
        raise InputError(f"{url} must have a protocol that fsspec knows, got {error}") from None
    if "file" in system.protocol:
        check_regular(path)
        if suffix(url) == ".zarr" and _is_folder(path):
            _check_inside(path)
    return system, str(path)


@contextlib.contextmanager
def _remote_errors(url: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
            raise InputError(f"{url} cannot be opened: {cause}") from None
        raise InputError(f"{url} must exist, got no such file") from None
    except Exception as error:  # noqa: BLE001  # every driver has its own errors
        raise InputError(f"{url} cannot be opened: {type(error).__name__} ({error})") from None


def _open_remote(url: str, *, seekable: bool) -> IO[bytes]:
    system, path = _file_system(url)
    web = url.startswith(("http://", "https://"))
    with _remote_errors(url):
        # A web server need not be able to send a range of a file.
        options = {"block_size": 0} if web and not seekable else {}
        file: IO[bytes] = system.open(path, "rb", **options)
        if web and seekable and not _has_ranges(file):
            return io.BytesIO(system.cat_file(path))
    return file


def _has_ranges(file: IO[bytes]) -> bool:
    try:
        file.seek(-1, io.SEEK_END)
        file.read(1)
        file.seek(0)
    except (ValueError, OSError):
        file.close()
        return False
    return True


def list_files(folder: str) -> list[str]:
    """Every file below a folder."""
    if not is_url(folder):
        return [f"{root}/{name}" for root, _, names in os.walk(folder) for name in names]
    system, path = _file_system(folder)
    with _remote_errors(folder):
        return [str(name) for name in system.find(path)]


def _remote_files(url: str) -> list[str]:
    system, path = _file_system(url)
    with _remote_errors(url):
        try:
            found = system.glob(path) if _is_glob(url) else system.find(path)
        except FileNotFoundError:
            return []
    known = [name for name in found if suffix(name) in KNOWN or _is_glob(url)]
    return [str(system.unstrip_protocol(name)) for name in known]
