"""Dask's arrays and data frames as sources: every partition is a part.

Nothing of Dask is imported before somebody passes one of its collections.
"""

import dataclasses
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from tepid import arrays, shapes
from tepid.errors import InputError, RowError
from tepid.sources.block import Block, Part, Source
from tepid.sources.columns import Chosen, choose, of_table
from tepid.sources.parts import from_parts


def is_dask(data: object) -> bool:
    """Whether this is one of Dask's collections."""
    return hasattr(data, "__dask_graph__") and hasattr(data, "to_delayed")


def from_dask(
    logits: Any, *, labels: Any = None, weight: Any = None, groups: Any = None, axis: Any = None
) -> Source:
    """A source over a Dask array (n, k) or a data frame; columns as Dask arrays or names.

    Columns of a frame are named; those beside an array are arrays too, in Dask or in memory.
    """
    if axis not in (None, 1, -1):
        raise InputError(f"class_axis must be left out for Dask's collections, got {axis}")
    columns = {"labels": labels, "weight": weight, "groups": groups}
    if hasattr(logits, "columns"):
        return _from_frame(logits, columns)
    if not hasattr(logits, "chunks"):
        kind = type(logits).__name__
        raise InputError(f"logits must be a Dask array or data frame, got a {kind}")
    return _from_array(logits, columns)


def logarithms(part: Part) -> Part:
    """A lazy part of probabilities as one of logits."""
    lazy = _delayed(_logarithm)(part.lazy, part.name)
    return dataclasses.replace(part, read=partial(_computed, part.name, lazy), lazy=lazy)


def _logarithm(columns: dict[str, Any], name: str) -> dict[str, Any]:
    try:
        return columns | {"logits": arrays.logits_of(columns["logits"])}
    except RowError as error:
        raise error.moved(0, name) from None


def arrived(part: Part, columns: dict[str, Any]) -> Part:
    """A part whose columns have been computed."""
    return Part(part.name, partial(_blocks, part.name, columns), len(columns["logits"]))


def _from_array(logits: Any, columns: dict[str, Any]) -> Source:
    if logits.ndim not in (1, 2):
        raise InputError(f"logits must have two dimensions, got shape {logits.shape}")
    if logits.ndim == 2:
        logits = logits.rechunk({1: -1})
    lengths = logits.chunks[0]
    lazy = {"logits": logits.to_delayed().ravel()}
    loose = {}
    for name, column in columns.items():
        if column is None:
            continue
        if is_dask(column):
            lazy[name] = _aligned(column, name, lengths)
        else:
            loose[name] = _loose(name, column)
    parts = tuple(
        _part(f"partition {i}", {name: chunks[i] for name, chunks in lazy.items()}, rows)
        for i, rows in enumerate(lengths)
    )
    classes = 2 if logits.ndim == 1 or logits.shape[1] == 1 else int(logits.shape[1])
    beside = [name for name in lazy if name != "logits"]
    return dataclasses.replace(from_parts(parts, classes=classes, columns=beside), **loose)


def _aligned(column: Any, name: str, lengths: tuple[Any, ...]) -> Any:
    """The chunks of a column, cut where those of the logits are."""
    unknown = any(math.isnan(n) for n in (*lengths, *column.chunks[0]))
    if unknown and len(column.chunks[0]) != len(lengths):
        got = f"{len(column.chunks[0])} chunks for {len(lengths)}"
        raise InputError(f"{name} must be cut into chunks as the logits are, got {got}")
    if not unknown:
        if len(column) != sum(lengths):
            rows = sum(lengths)
            raise InputError(
                f"{name} must have one entry for each of the {rows} rows, got {len(column)}"
            )
        column = column.rechunk((lengths,))
    return column.to_delayed().ravel()


def _loose(name: str, column: Any) -> Any:
    if name == "groups":
        return arrays.group_column(column)
    return arrays.as_array(column, name).reshape(-1)


def _from_frame(frame: Any, columns: dict[str, Any]) -> Source:
    kinds = {name: getattr(kind, "kind", "O") for name, kind in frame.dtypes.items()}
    chosen = choose(kinds, columns)
    take = _delayed(of_table)
    parts = tuple(
        Part(f"partition {i}", partial(_computed, f"partition {i}", lazy), lazy=lazy)
        for i, lazy in enumerate(take(part, chosen) for part in frame.to_delayed())
    )
    return from_parts(parts, classes=_width(chosen), columns=list(chosen.beside))


def _width(chosen: Chosen) -> int | None:
    """How many classes a frame has, where its columns are the classes and not lists of them."""
    return None if chosen.lists else max(len(chosen.logits), 2)


def _part(name: str, lazy: dict[str, Any], rows: Any) -> Part:
    together = _delayed(dict)(**lazy)
    known = None if math.isnan(rows) else int(rows)
    return Part(name, partial(_computed, name, together), known, lazy=together)


def _delayed(function: Any) -> Any:
    from dask.delayed import delayed  # noqa: PLC0415  # only where it is in use

    return delayed(function, pure=False)


def _computed(name: str, lazy: Any, rows: int) -> Iterator[Block]:
    yield from _blocks(name, lazy.compute(), rows)


def _blocks(name: str, columns: dict[str, Any], rows: int) -> Iterator[Block]:
    logits = np.asarray(columns["logits"])
    size = min(rows, shapes.rows_per_block(shapes.class_count(logits)))
    for start in range(0, len(logits), size):
        stop = start + size
        beside = {name: c[start:stop] for name, c in columns.items() if name != "logits"}
        yield Block(logits[start:stop], None, None, start, name)._replace(**beside)
