"""Long fits that can be broken off: what a part gave is kept until the fit is done again.

What is kept is found by what it depends on, so that it cannot be wrong, only missing: tepid's
version, the question with everything that was answered before it, and the size, the hash and the
place of the part. Another file, another option or another tepid simply finds nothing.
"""

import hashlib
import importlib.metadata
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, Protocol

from tepid import records
from tepid.engines.engine import Progress, Summary
from tepid.engines.portions import Portion, portions
from tepid.errors import InputError
from tepid.sources.block import Block, Part, Source


class ByParts(Protocol):
    """An engine that can sum some of the parts, one at a time."""

    @property
    def progress(self) -> Progress | None:
        """Whom to tell how far it is."""
        ...

    def each(
        self, of: Callable[[Block], Summary], source: Source, stage: str, wanted: list[int]
    ) -> Iterator[tuple[int, Summary | None]]:
        """The sum over each wanted part, as it is done."""
        ...


@dataclass(frozen=True)
class _Empty:
    """What a part without rows gave."""


@dataclass
class Checkpointed:
    """An engine that keeps in a folder what every part gave, and asks only for what is missing.

    `about` tells one fit from another: whatever the method was told besides the rows. The folder
    may be shared, and is never cleared; it can be deleted once the fit is done.

    The trap: a fit is resumed by doing it again, with the same arguments in the same order. A
    part that has changed since is read anew, and so is everything that depended on it.
    """

    engine: ByParts
    folder: Path
    about: str = ""
    found: int = 0
    asked: int = 0
    _state: str = ""
    _seen: dict[int, tuple[Part, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        version = importlib.metadata.version("tepid")
        self._state = _hashed(version, str(records.FORMAT), self.about)
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def progress(self) -> Progress | None:
        """Whom to tell how far it is."""
        return self.engine.progress

    def total(self, of: Callable[[Block], Summary], source: Source, stage: str) -> Summary:
        """The sum over all parts, added in their order, from what is kept and what is not."""
        shares = portions(source)
        if not shares:
            raise InputError(f"checkpoint must go with files, got {source.name} in memory")
        self._know(shares)
        names = [self._name(share, stage) for share in shares]
        parts = {place: part for place, name in enumerate(names) if (part := _kept(name))}
        self.found, self.asked = self.found + len(parts), self.asked + len(shares)
        wanted = [place for place in range(len(shares)) if place not in parts]
        for place, part in self.engine.each(of, source, stage, wanted):
            parts[place] = _Empty() if part is None else part
            records.save(parts[place], names[place])
        some = [part for _, part in sorted(parts.items()) if not isinstance(part, _Empty)]
        if not some:
            raise InputError(f"{source.name} must have at least one row, got none")
        total: Summary = reduce(add, some)
        self._state = _hashed(self._state, stage, records.digest(total))
        return total

    def _name(self, share: Portion, stage: str) -> Path:
        """Where the sum over a portion is kept."""
        own = [self._seen[id(part)][1] for part in _parts(share)]
        columns = [getattr(share.source, name) for name in ("labels", "weight", "groups")]
        loose = [records.digest(c) if hasattr(c, "dtype") else type(c).__name__ for c in columns]
        return self.folder / f"{_hashed(self._state, stage, str(share.start), *own, *loose)}.part"

    def _know(self, shares: list[Portion]) -> None:
        """Hash the parts that were not seen before; they are kept, so that ids stay theirs."""
        parts = [part for share in shares for part in _parts(share) if id(part) not in self._seen]
        for part in parts:
            if part.digest is None:
                raise InputError(
                    f"checkpoint must go with files, got {part.name}, which is no file"
                )
        with ThreadPoolExecutor() as pool:
            digests = pool.map(lambda part: part.digest and part.digest(), parts)
            self._seen |= {id(p): (p, str(d)) for p, d in zip(parts, digests, strict=True)}


def _parts(share: Portion) -> list[Part]:
    return [share.part, *(peer.parts[0] for peer in share.source.peers)]


def _kept(path: Path) -> Any:
    """What a file holds; nothing if it is not there or not whole, and then it is made again."""
    try:
        return records.unpacked(path.read_bytes())
    except records.DAMAGE:
        return None


def _hashed(*texts: str) -> str:
    whole = "\n".join(f"{len(text)} {text}" for text in texts)
    return hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()
