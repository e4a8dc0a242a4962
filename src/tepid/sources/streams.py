"""Bytes and lines of text from a file, here or behind a URL, compressed or not."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from tepid.errors import InputError
from tepid.sources import places, remote
from tepid.sources.extras import needed

# What the readers of damaged files raise.
DAMAGE = (
    ValueError, EOFError, OSError, KeyError, RuntimeError, OverflowError, MemoryError, zlib.error,
    lzma.LZMAError,
)  # fmt: skip


def opened(place: str) -> IO[bytes]:
    """The file, to be read in order."""
    return remote.streamed(place) if remote.is_url(place) else Path(place).open("rb")


def seekable(place: str) -> IO[bytes]:
    """The file, to be read here and there."""
    return remote.seekable(place) if remote.is_url(place) else Path(place).open("rb")


def lines(place: str, name: str) -> Iterator[str]:
    """The lines of a text that are not blank; what it is compressed by is undone."""
    try:
        with opened(place) as file, _plain(place, file) as plain:
            text = io.TextIOWrapper(plain, encoding="utf-8-sig")
            yield from (line for line in text if line.strip())
    except UnicodeDecodeError:
        raise InputError(f"{name} must be a table of text, got other bytes") from None
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(f"{name} must be whole, got a damaged file ({error})") from None


def _plain(place: str, file: IO[bytes]) -> Any:
    openers: dict[str, Callable[[IO[bytes]], Any]] = {
        ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zst": _zstandard,
    }  # fmt: skip
    for ending, opener in openers.items():
        if places.suffix(place).endswith(ending):
            return opener(file)
    return file


def _zstandard(file: IO[bytes]) -> Any:
    return needed("pyarrow", "parquet").CompressedInputStream(file, "zstd")


def exactly(file: IO[bytes], size: int) -> bytes:
    """So many bytes, or as many as there are; a stream may hand them out in small portions."""
    portions = []
    while size > 0 and (portion := file.read(size)):
        portions.append(portion)
        size -= len(portion)
    return b"".join(portions)
