"""Files that appear whole or not at all."""

import contextlib
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
    behind. Elsewhere, and on a file system that cannot do so, it is a hidden `.tmp` beside the
    file, which only `kill -9` leaves. A link is followed, and what is no ordinary file, such as a
    device, is refused.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise InputError(f"output must be a file, got {path}")
    if not target.parent.is_dir():
        raise InputError(f"output must be in a folder that exists, got {path}")
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    nameless = _nameless(target.parent)
    try:
        with temporary.open("xb") if nameless is None else os.fdopen(nameless, "wb") as file:
            yield file
            if nameless is not None:
                file.flush()
                _name(nameless, target, temporary)
        if nameless is None:
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


def _name(file: int, target: Path, temporary: Path) -> None:
    """Give a file its name; over another it must be renamed, since a link never overwrites."""
    try:
        _link(file, target)
    except FileExistsError:
        _link(file, temporary)
        temporary.replace(target)


def _link(file: int, name: Path) -> None:
    folder = os.open(name.parent, os.O_PATH)
    try:  # without a folder Python links the link in /proc and not the file
        os.link(f"/proc/self/fd/{file}", name.name, dst_dir_fd=folder)
    finally:
        os.close(folder)
