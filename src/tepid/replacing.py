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
    """Write under a temporary name beside the file, then rename: a crash leaves the old file whole.

    A link is followed, and what is no ordinary file, such as a device, is refused.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise InputError(f"output must be a file, got {path}")
    if not target.parent.is_dir():
        raise InputError(f"output must be in a folder that exists, got {path}")
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
