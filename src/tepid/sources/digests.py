"""What tells whether a file has changed: its size, its content's hash, and what is read of it."""

import hashlib
import os
from pathlib import Path

from tepid.sources import places, remote
from tepid.sources.shard import Shard

_PORTION = 1 << 20


def digest(shard: Shard) -> str:
    """The size and the SHA-256 of a file and of those beside it, with what is read of them."""
    others = [where for where in shard.columns.values() if not where.startswith("#")]
    total = hashlib.sha256(repr(shard).encode())
    size = 0
    for place in [shard.place, *(places.named(other)[0] for other in others)]:
        for file in _files(place):
            size += _add(total, file)
    return f"{size}:{total.hexdigest()}"


def _files(place: str) -> list[str]:
    if remote.is_url(place) or not Path(place).is_dir():
        return [place]
    return sorted(os.path.join(root, n) for root, _, names in os.walk(place) for n in names)  # noqa: PTH118


def _add(total: "hashlib._Hash", place: str) -> int:
    if remote.is_url(place):  # its content would have to be fetched for it
        total.update(remote.fingerprint(place).encode())
        return 0
    size = 0
    with Path(place).open("rb") as file:
        while portion := file.read(_PORTION):
            total.update(portion)
            size += len(portion)
    return size
