"""The parts of a source, each with its place among the rows and its share of every column."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from tepid.engines.engine import Summary
from tepid.errors import InputError, RowError
from tepid.shapes import rows_per_block
from tepid.sources.block import UNCOUNTED, Block, Carried, Part, Source, located
from tepid.sources.parts import carrying, from_parts

# So many blocks at once: between two of them, threads that each read a part wait for each other.
_BLOCKS = 2
# What a column is called to people, where that is not its name here.
_SAID = {"weight": "sample_weight"}


@dataclass(frozen=True)
class Portion:
    """A source of one part, which begins at row `start` of the whole."""

    source: Source
    start: int

    @property
    def part(self) -> Part:
        """The part itself."""
        return self.source.parts[0]


def portions(source: Source) -> list[Portion]:
    """A portion for each part of a source.

    Columns that do not come with the parts can only be cut where their rows are counted.
    """
    counts = [part.rows for part in source.parts]
    loose = _loose(source)
    if None in counts and (loose or source.peers):
        at = source.parts[counts.index(None)].name
        raise InputError(
            f"labels, weights, groups and peers must come with parts whose rows are counted, "
            f"got {at}, whose are not"
        )
    lengths = [UNCOUNTED if count is None else count for count in counts]
    starts = [min(start, UNCOUNTED) for start in (0, *accumulate(lengths))]
    _check_columns(loose, counts)
    return [
        _portion(source, place, start)
        for place, start in zip(range(len(counts)), starts, strict=False)
    ]


def is_counted(source: Source) -> bool:
    """Whether it has parts, and the number of every row is known before it is read."""
    return bool(source.parts) and all(part.rows is not None for part in source.parts)


def _check_columns(columns: dict[str, Any], counts: list[int | None]) -> None:
    rows = sum(count or 0 for count in counts)
    for name, column in columns.items():
        if len(column) != rows:
            said, got = _SAID.get(name, name), len(column)
            raise InputError(f"{said} must have one entry for each of the {rows} rows, got {got}")


def _loose(source: Source) -> dict[str, Any]:
    """The columns that lie beside the parts, and have to be cut."""
    columns = {"labels": source.labels, "weight": source.weight, "groups": source.groups}
    return {
        name: column
        for name, column in columns.items()
        if column is not None and not isinstance(column, Carried)
    }


def _portion(source: Source, place: int, start: int) -> Portion:
    part = source.parts[place]
    own = from_parts((part,), name=source.name, classes=source.classes, columns=carrying(source))
    stop = start + (part.rows or 0)
    cut = {name: column[start:stop] for name, column in _loose(source).items()}
    peers = tuple(_peer(peer, place, part) for peer in source.peers)
    return Portion(dataclasses.replace(own, peers=peers, **cut), start)


def _peer(peer: Source, place: int, part: Part) -> Source:
    rows = peer.parts[place].rows if place < len(peer.parts) else None
    if rows != part.rows:
        raise InputError(
            f"{peer.name} must be cut into parts as the logits are, "
            f"got {rows} rows beside the {part.rows} of {part.name}"
        )
    return from_parts((peer.parts[place],), name=peer.name, classes=peer.classes)


def summed(
    of: Callable[[Block], Summary],
    portion: Portion,
    done: Callable[[Block], None] = lambda _: None,
) -> Summary | None:
    """The sum over one portion, in the order of its rows; None of no rows.

    `done` hears of each block.
    """
    total = None
    rows = _BLOCKS * rows_per_block(portion.source.classes or 64)
    for block in numbered(portion.source.blocks(rows, some=False), portion.start):
        part = blamed(of, block)
        total = part if total is None else total + part
        done(block)
    return total


def numbered(blocks: Iterator[Block], start: int) -> Iterator[Block]:
    """Blocks of a portion, numbered as rows of the whole."""
    for block in blocks:
        yield block._replace(start=block.start + start) if start else block


def blamed(of: Callable[[Block], Summary], block: Block) -> Summary:
    """`of` of a block; a row that cannot be used is named by its place in its part or source."""
    try:
        return of(block)
    except RowError as error:
        raise located(error, block) from None
