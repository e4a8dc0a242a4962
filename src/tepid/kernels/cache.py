"""Where numba keeps what it compiled, found without importing numba, which takes most of a second.

numba writes, per function, an index `module.function-line.py311.nbi` and data files beside it, into
the first of these folders that can be written: below `NUMBA_CACHE_DIR`, `__pycache__` beside the
source, or a folder of the user.
"""

import hashlib
import os
import pickletools
import sys
from collections.abc import Iterator
from pathlib import Path

_SOURCES = Path(__file__).parent / "compiled"


def is_cached(module: str, function: str, numba: str | None) -> bool:
    """Whether numba will write to a folder that has an index of this version of numba.

    It may still be of another processor, so that numba compiles after all.
    """
    into = folder()
    if into is None or numba is None:
        return False
    try:
        changed = (_SOURCES / f"{module}.py").stat().st_mtime
        for path in into.glob(f"{module}.{function}-*{_version()}*.nbi"):
            with path.open("rb") as file:
                known = numba.encode() in file.read(100)  # the version is the first thing in it
            if known and path.stat().st_mtime >= changed:
                return True
    except OSError:  # imported from an archive, or deleted meanwhile
        pass
    return False


def damaged(module: str) -> Path | None:
    """A file of this module that cannot be read to its end."""
    return next(damaged_files(module), None)


def damaged_files(module: str = "*") -> Iterator[Path]:
    """The files of numba's cache that end too early or are no pickles."""
    for path in _files(f"{module}.*{_version()}*.nb[ic]"):
        if not _is_whole(path):
            yield path


def _is_whole(path: Path) -> bool:
    """Whether a file is two pickles, the version and the rest; nothing in them is executed."""
    try:
        with path.open("rb") as file:
            for _ in range(2 if path.suffix == ".nbi" else 1):
                for _ in pickletools.genops(file):
                    pass
    except (ValueError, OSError, IndexError, UnicodeError):
        return False
    return True


def folder() -> Path | None:
    """The folder that numba will write to, or None if it can write to none."""
    for candidate in _folders():
        parent = candidate
        while not parent.exists() and parent != parent.parent:
            parent = parent.parent
        if parent.is_dir() and os.access(parent, os.W_OK):
            return candidate
    return None


def _files(pattern: str) -> Iterator[Path]:
    for candidate in _folders():
        yield from sorted(candidate.glob(pattern))


def _folders() -> Iterator[Path]:
    # As in numba/core/caching.py.
    below = f"{_SOURCES.name}_{hashlib.sha1(os.fsencode(_SOURCES.absolute())).hexdigest()}"
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        yield Path(given) / below
    yield _SOURCES / "__pycache__"
    yield _user_folder() / below


def _user_folder() -> Path:
    # Path.home() raises for a user without a home, as in some containers.
    home = Path(os.path.expanduser("~"))  # noqa: PTH111
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home)) / "numba" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "numba"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "numba"


def _version() -> str:
    return f".py{sys.version_info.major}{sys.version_info.minor}"
