"""Files behind URLs, through fsspec: `s3://`, `gs://`, `http://`, `memory://` and others."""

import io
import re
import weakref
from typing import IO, Any

from tepid.errors import InputError
from tepid.sources.extras import needed

_EXTRA = "remote"


def is_url(place: str) -> bool:
    """Whether it is a URL, or several that fsspec chains."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://|[a-z]+::", place) is not None


def link(place: str) -> str:
    """Of URLs that are chained the one that names the file; `zip://a.npy::s3://b.zip` is a.npy."""
    links = place.split("::")
    return next((one for one in links if "://" in one), links[-1])


def streamed(place: str) -> IO[bytes]:
    """The file, to be read from its start to its end."""
    system, path = _system(place)
    # A web server need not know how to send a part of a file; what comes in order needs no part.
    options = {"block_size": 0} if _is_web(place) else {}
    return _opened(system, path, place, options)


def seekable(place: str) -> IO[bytes]:
    """The file, to be read here and there; from a server that sends no parts, all of it."""
    system, path = _system(place)
    file = _opened(system, path, place, {})
    if not _is_web(place):
        return file
    try:
        file.seek(-1, io.SEEK_END)
        file.read(1)
        file.seek(0)
    except (ValueError, OSError):
        file.close()
        return io.BytesIO(system.cat_file(path))
    return file


def matching(pattern: str) -> list[str]:
    """Every file that a pattern names."""
    system, path = _system(pattern)
    return [_url(system, found, pattern) for found in _asked(system.glob, path, pattern)]


def inside(folder: str) -> list[str]:
    """Every file in a folder and those below it."""
    system, path = _system(folder)
    return [_url(system, found, folder) for found in _asked(system.find, path, folder)]


def fingerprint(place: str) -> str:
    """What the far side says of a file, such as its size and when it changed."""
    system, path = _system(place)
    try:
        return str(sorted((str(k), str(v)) for k, v in system.info(path).items()))
    except Exception as error:  # noqa: BLE001  # every driver has errors of its own
        raise _refused(place, error) from None


def _url(system: Any, found: str, asked: str) -> str:
    """What was found as a URL, by the same chain as what was asked for."""
    first, chain, rest = asked.partition("::")
    if not chain:
        return str(system.unstrip_protocol(found))
    if "://" in first:  # an archive, whose own place is the rest
        return f"{first.partition('://')[0]}://{found.lstrip('/')}::{rest}"
    return f"{first}::{_url(system, found, rest)}"


def _is_web(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def _system(place: str) -> tuple[Any, str]:
    fsspec = needed("fsspec", _EXTRA)
    try:
        system, path = fsspec.core.url_to_fs(place)
    except ImportError as error:  # says which driver the protocol needs
        raise InputError(
            f"{place} must have its driver, got none ({error}); "
            f"pip install 'tepid[{_EXTRA}]' brings that of http"
        ) from None
    except ValueError as error:
        raise InputError(f"{place} must be of a protocol that fsspec knows, got {error}") from None
    except Exception as error:  # noqa: BLE001  # an archive is opened here
        raise _refused(place, error) from None
    return system, path


def _asked(question: Any, path: str, place: str) -> list[str]:
    try:
        return list(question(path))
    except FileNotFoundError:
        return []
    except Exception as error:  # noqa: BLE001  # every driver has errors of its own
        raise _refused(place, error) from None


def _opened(system: Any, path: str, place: str, options: dict[str, Any]) -> IO[bytes]:
    try:
        file: IO[bytes] = system.open(path, "rb", **options)
    except Exception as error:  # noqa: BLE001  # every driver has errors of its own
        raise _refused(place, error) from None
    weakref.finalize(file, id, system)  # an archive is closed when nobody holds its system
    return file


def _refused(place: str, error: Exception) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"{place} must exist, got no such file")
    return InputError(f"{place} must be readable, got {type(error).__name__} ({error})")
