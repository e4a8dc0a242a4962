"""Where files are: paths, folders, patterns of names, and URLs through fsspec.

A place is a path or a URL as text, with the member of an archive or the column of a table behind a
#. Files of a folder come in natural order: part 2 before part 10.
"""

import glob
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeGuard

from tepid.errors import InputError
from tepid.sources import remote

COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
TEXT = (".csv", *(f".csv{ending}" for ending in COMPRESSIONS))
ARROW = (".parquet", ".arrow", ".feather", ".ipc")
ARRAYS = (".npy", ".npz", ".zarr", ".h5", ".hdf5", ".safetensors", ".pt", ".pth")
KNOWN = (*ARRAYS, *ARROW, *TEXT)
ENDINGS = "one of .npy, .npz, .csv, .parquet, .arrow, .feather, .zarr, .h5, .safetensors and .pt"

AnyPath = str | os.PathLike[str]


def is_path(given: Any) -> TypeGuard[AnyPath]:
    """Whether it is one path, pattern or URL."""
    return isinstance(given, (str, os.PathLike))


def are_paths(given: Any) -> bool:
    """Whether it is a path, or a list of nothing but paths."""
    listed = isinstance(given, (list, tuple)) and len(given) > 0
    return is_path(given) or (listed and all(is_path(path) for path in given))


def named(path: AnyPath) -> tuple[str, str]:
    """The file, and the member or column that is named behind a #."""
    text = os.fspath(path)
    if "#" in text and (remote.is_url(text) or not Path(text).exists()):
        name, _, fragment = text.rpartition("#")
        return name, fragment
    return text, ""


def with_fragment(place: str, fragment: str) -> str:
    """A file's place with the name of a member or column behind it."""
    return f"{place}#{fragment}" if fragment else place


def base(place: str) -> str:
    """The file's own name."""
    plain = remote.link(place).split("?", 1)[0] if remote.is_url(place) else place
    return plain.rstrip("/").replace(os.sep, "/").rpartition("/")[2]


def suffix(place: str) -> str:
    """How the name ends, in small letters and with what it is compressed by."""
    name, ending = os.path.splitext(base(place).lower())  # noqa: PTH122  # of URLs too
    return os.path.splitext(name)[1] + ending if ending in COMPRESSIONS else ending  # noqa: PTH122


def absolute(place: str) -> str:
    """The same place for a worker that stands in another folder."""
    return place if remote.is_url(place) else os.path.abspath(place)  # noqa: PTH100  # as text


def exists(place: str) -> bool:
    """Whether there is a file or a folder of arrays; a URL is taken at its word until opened."""
    return remote.is_url(place) or Path(place).exists()


def holds_data(place: str) -> bool:
    """Whether there is a file, or a folder in which there is one that can be read."""
    if remote.is_url(place) or not Path(place).is_dir() or suffix(place) in KNOWN:
        return exists(place)
    return any(suffix(inside) in KNOWN for inside in _inside(Path(place)))


def is_single(given: Any) -> bool:
    """Whether it names one file and neither a folder nor a pattern."""
    if not is_path(given):
        return False
    place = named(given)[0]
    if _is_pattern(place):
        return False
    if remote.is_url(place):
        return suffix(place) in KNOWN
    return not Path(place).is_dir() or suffix(place) == ".zarr"


def expanded(given: Any, what: str) -> tuple[str, ...]:
    """Every file that a path, a folder, a pattern or a list of them names, in order."""
    if not is_path(given):
        return tuple(place for each in given for place in expanded(each, what))
    text, fragment = named(given)
    if is_single(given):
        return (with_fragment(text, fragment),)
    if _is_pattern(text):
        found: Iterable[str] = remote.matching(text) if remote.is_url(text) else _matching(text)
    else:
        found = remote.inside(text) if remote.is_url(text) else _inside(Path(text))
        found = [place for place in found if suffix(place) in KNOWN]
    if not found:
        raise InputError(
            f"{what} must be a file, or a folder or pattern of files, got none in {text}"
        )
    return tuple(with_fragment(place, fragment) for place in sorted(found, key=_natural))


def shown(places: Iterable[str]) -> list[str]:
    """Each file as it is named to people: as short as it can be within the folder of all."""
    files = [named(place)[0] for place in places]
    links = [remote.link(file) if remote.is_url(file) else file for file in files]
    apart = links if len(set(links)) == len(set(files)) else files  # of several archives
    names = [name.rstrip("/").split("/") for name in apart]
    shared = 0
    while len({tuple(name[: shared + 1]) for name in names}) == 1 < len(names[0]) - shared:
        shared += 1
    return ["/".join(name[shared:]) for name in names]


def _is_pattern(place: str) -> bool:
    if remote.is_url(place):  # where a question mark begins the query
        return "*" in place
    return bool(re.search(r"[*?[]", place)) and not Path(place).exists()


def _matching(pattern: str) -> list[str]:
    return glob.glob(pattern, recursive=True)  # noqa: PTH207  # pathlib has no absolute patterns


def _inside(folder: Path) -> list[str]:
    found: list[str] = []
    for root, folders, names in os.walk(folder):
        stored = [name for name in folders if suffix(name) == ".zarr"]
        found += [os.path.join(root, name) for name in names + stored if _is_seen(name)]  # noqa: PTH118
        folders[:] = [name for name in folders if name not in stored and _is_seen(name)]
    return found


def _is_seen(name: str) -> bool:
    """Spark and others put marks beside the data, `_SUCCESS` and `.crc`, that are no data."""
    return not name.startswith((".", "_"))


def _natural(place: str) -> list[Any]:
    parts = re.split(r"(\d+)", place)
    return [int(part) if part.isdecimal() else part for part in parts]
