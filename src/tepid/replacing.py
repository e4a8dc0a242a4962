"""Files that appear whole or not at all."""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tepid.errors import InputError


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Write where nobody sees it, then put it in the place of the file: a crash leaves the old one.

    On Linux what is written has no name before it is whole, so that even `kill -9` leaves nothing
    half-written. Elsewhere, and on a file system that cannot do so, it is a hidden `.tmp` beside
    the file, which only `kill -9` leaves. A link is followed, and what is no ordinary file, such as
    a device, is refused.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise InputError(f"output must be a file, got {path}")
    if not target.parent.is_dir():
        raise InputError(f"output must be in a folder that exists, got {path}")
    nameless = _nameless(target.parent)
    if nameless is None:
        with _renamed(target) as file:
            yield file
        return
    with os.fdopen(nameless, "wb") as file:
        yield file
        file.flush()
        _name(nameless, target)


@contextlib.contextmanager
def _renamed(target: Path) -> Iterator[IO[bytes]]:
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _nameless(folder: Path) -> int | None:
    """A new file in a folder that nobody can see; None where the system has no such thing."""
    if not hasattr(os, "O_TMPFILE") or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    except OSError:  # a file system without it, or a folder that refuses and will say so again
        return None


def _name(file: int, target: Path) -> None:
    """Give a whole file its name.

    A link never overwrites, so over another file it takes a second name, by which it is renamed.
    What already has that name is as whole: its writer is at this very place, or was killed here.
    It is put in its place first, by whoever comes.
    """
    if _linked(file, target):
        return
    digest = hashlib.blake2b(target.name.encode("utf-8", "surrogateescape"), digest_size=8)
    second = target.with_name(f".{target.name[:100]}.{digest.hexdigest()}.tmp")
    there = False
    while not there:
        there = _linked(file, second)
        with contextlib.suppress(FileNotFoundError):  # another writer has done it
            second.replace(target)


def _linked(file: int, name: Path) -> bool:
    folder = os.open(name.parent, os.O_PATH)
    try:  # without a folder Python would link the link in /proc and not the file
        os.link(f"/proc/self/fd/{file}", name.name, dst_dir_fd=folder)
    except FileExistsError:
        return False
    finally:
        os.close(folder)
    return True
