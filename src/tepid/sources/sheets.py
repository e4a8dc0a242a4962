"""Tables of text whose labels, weights and groups come with the logits, row by row."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from tepid import arrays
from tepid.arrays import Array, Int64
from tepid.errors import RowError
from tepid.sources import tables
from tepid.sources.block import Block
from tepid.sources.columns import LABELS
from tepid.sources.shard import Look, Shard, apart


def look(shard: Shard) -> Look:
    """What the first line says."""
    form, _ = _formed(shard)
    width = form.width if form.columns is None else len(form.columns)
    names = form.names if form.header else []
    estimate = None if shard.filter else tables.estimated_rows(shard.place)
    return Look(
        max(width, 2),
        "floating-point numbers",  # as which text is read
        tuple(names[i] for i in form.columns or range(len(names))),
        any(name.lower() in LABELS for name in names),
        estimate=estimate,
        binary=width == 1,
    )


def blocks(shard: Shard, rows: int) -> Iterator[Block]:
    """The rows that are wanted, each block with where its rows are in the file."""
    form, beside = _formed(shard)
    start = 0
    for first, text in tables.portions(shard.place, form, rows):
        at = first + _kept(shard, form, text, first)
        lines = [text[row - first] for row in at]
        if not lines:
            continue
        try:
            block = _block(form, lines, beside)
        except RowError as error:
            raise RowError(error.name, error.must, error.got, int(at[error.row])) from None
        yield block._replace(start=start, at=at if shard.filter else first)
        start += len(lines)


def _formed(shard: Shard) -> tuple[tables.Form, dict[str, str]]:
    plain = tables.formed(shard.place, "", "logits", (), shard.name)
    aside, beside = apart(shard, plain.names if plain.header else ())
    form = tables.formed(shard.place, shard.fragment, "logits", aside, shard.name)
    return form, beside


def _kept(shard: Shard, form: tables.Form, text: list[str], first: int) -> Int64:
    condition = shard.condition
    if condition is None:
        return np.arange(len(text))
    columns = {
        name: np.array(tables.texts(form, text, form.names.index(name), first), object)
        for name in condition.names
    }
    try:
        return np.flatnonzero(condition.kept(columns))
    except RowError as error:
        raise error.moved(first, f"filter of {shard.name}") from None


def _block(form: tables.Form, lines: list[str], beside: dict[str, str]) -> Block:
    columns = list(range(form.width)) if form.columns is None else form.columns
    numeric = [role for role in ("labels", "weight") if role in beside]
    more = [form.names.index(beside[role]) for role in numeric]
    wide = dataclasses.replace(form, columns=[*columns, *more])
    numbers = tables.numbers(wide, lines, 0)
    found: dict[str, Array] = {role: numbers[:, len(columns) + i] for i, role in enumerate(numeric)}
    groups: Any = None
    if "groups" in beside:
        cells = tables.texts(form, lines, form.names.index(beside["groups"]), 0)
        groups = arrays.group_column(np.array(cells, str))
    return Block(
        numbers[:, : len(columns)], found.get("labels"), found.get("weight"), 0, form.name, groups
    )
