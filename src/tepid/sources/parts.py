"""A source of several parts: files of one folder, partitions of one collection."""

import dataclasses
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import numpy as np

from tepid.sources.block import Block, Carried, Part, Source


def from_parts(
    parts: tuple[Part, ...],
    *,
    name: str = "logits",
    classes: int | None = None,
    columns: Collection[str] = (),
    estimate: int | None = None,
) -> Source:
    """The rows of all parts, in order; `columns` names those that come with the blocks.

    They are some of `labels`, `weight` and `groups`.
    """
    counts = [part.rows for part in parts]
    source = Source(
        reading(parts),
        name,
        rows=None if None in counts else sum(count or 0 for count in counts),
        classes=classes,
        estimate=estimate,
        parts=parts,
    )
    return dataclasses.replace(source, **carried(parts, columns))


def carried(parts: tuple[Part, ...], names: Collection[str]) -> dict[str, Any]:
    """The named columns as ones that come with the parts."""
    return {name: Carried(partial(_whole, parts, name)) for name in names}


def carrying(source: Source) -> list[str]:
    """The names of the columns that come with a source's blocks."""
    names = ("labels", "weight", "groups")
    return [name for name in names if isinstance(getattr(source, name), Carried)]


def reading(parts: tuple[Part, ...]) -> Callable[[int], Iterator[Block]]:
    """A function that reads the blocks of all parts afresh."""
    return partial(_read, parts)


def mapped(part: Part, change: Callable[[Block], Block]) -> Part:
    """The same part with every block changed."""
    told = None if part.digest is None else partial(_told, part.digest, change.__qualname__)
    pieces = tuple(mapped(piece, change) for piece in part.pieces)
    read = partial(_changed, part, change)
    return dataclasses.replace(part, read=read, digest=told, lazy=None, pieces=pieces)


def finer(source: Source) -> Source:
    """The same source in the smallest parts; with peers, which are cut alike, as it is."""
    if source.peers or not any(part.pieces for part in source.parts):
        return source
    parts = tuple(piece for part in source.parts for piece in part.pieces or (part,))
    return dataclasses.replace(source, parts=parts, read=reading(parts))


def _told(digest: Callable[[], str], change: str) -> str:
    return f"{change} {digest()}"


def _read(parts: tuple[Part, ...], rows: int) -> Iterator[Block]:
    for part in parts:
        for block in part.read(rows):
            if len(block.logits):
                yield block if block.at is not None else block._replace(at=block.start)


def _changed(part: Part, change: Callable[[Block], Block], rows: int) -> Iterator[Block]:
    for block in part.read(rows):
        yield change(block)


def _whole(parts: tuple[Part, ...], column: str) -> Any:
    columns = [getattr(block, column) for block in _read(parts, 1 << 16)]
    return np.concatenate(columns) if columns else np.zeros(0)
