"""A source of several parts: files of one folder, partitions of one collection."""

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
    carrying: Collection[str] = (),
    estimate: int | None = None,
) -> Source:
    """The rows of all parts, in order; `carrying` names the columns that come with the blocks.

    They are some of `labels`, `weight` and `groups`.
    """
    counts = [part.rows for part in parts]
    labels, weight, groups = (
        Carried(partial(_whole, parts, column)) if column in carrying else None
        for column in ("labels", "weight", "groups")
    )
    return Source(
        partial(_read, parts),
        name,
        rows=None if None in counts else sum(count or 0 for count in counts),
        classes=classes,
        labels=labels,
        weight=weight,
        groups=groups,
        estimate=estimate,
        parts=parts,
    )


def mapped(part: Part, change: Callable[[Block], Block]) -> Part:
    """The same part with every block changed."""
    return Part(part.name, partial(_changed, part, change), part.rows)


def _read(parts: tuple[Part, ...], rows: int) -> Iterator[Block]:
    for part in parts:
        for block in part.read(rows):
            if len(block.logits):
                yield block._replace(at=block.start)


def _changed(part: Part, change: Callable[[Block], Block], rows: int) -> Iterator[Block]:
    for block in part.read(rows):
        yield change(block)


def _whole(parts: tuple[Part, ...], column: str) -> Any:
    columns = [getattr(block, column) for block in _read(parts, 1 << 16)]
    return np.concatenate(columns) if columns else np.zeros(0)
