"""Dask arrays and data frames: every partition is a part. Nothing here imports Dask by itself."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tepid import validation
from tepid.errors import InputError
from tepid.sources import paths
from tepid.sources.attached import AttachedPart
from tepid.sources.batch import ArrayPart, Batch, Part, mismatch
from tepid.sources.frames import FramePart
from tepid.sources.source import Source, from_table
from tepid.tables import ARGUMENTS, Columns, choose_columns, frame_kinds, holds_lists


def is_dask(data: object) -> bool:
    """Whether this is a Dask collection."""
    return hasattr(data, "__dask_graph__") and hasattr(data, "to_delayed")


@dataclass(frozen=True, eq=False)
class DaskPart(Part):
    """A partition of a Dask collection.

    `delayed` maps roles to delayed arrays, or is one delayed data frame with these `columns`.
    """

    name: str
    delayed: Any
    rows: int | None = None
    columns: Columns | None = None
    portable = True

    def batches(self, size: int) -> Iterator[Batch]:
        """Compute the partition, in this process, and yield its rows."""
        import dask  # noqa: PLC0415  # only where a collection is passed

        (value,) = dask.compute(self.delayed)
        return self.computed(value).batches(size)

    def computed(self, value: Any) -> Part:
        """The part with the value of its partition in place of the task."""
        if self.columns is not None:
            return FramePart(value, self.columns, self.name)
        beside = {
            role: validation.side_column(column, ARGUMENTS[role]).reshape(-1)
            for role, column in value.items()
            if role != "logits"
        }
        return AttachedPart((ArrayPart(validation.as_array(value["logits"]), self.name),), beside)

    def select(self, keep: frozenset[str]) -> "DaskPart":
        """The same partition with fewer columns; the task of a frame still computes them."""
        if self.columns is not None:
            chosen = self.columns.select(keep)
            return dataclasses.replace(self, columns=chosen, delayed=self.delayed[chosen.every])
        wanted = {role: task for role, task in self.delayed.items() if role in keep | {"logits"}}
        return dataclasses.replace(self, delayed=wanted)


def open_dask(
    data: Any, beside: Mapping[str, Any], columns: Any, class_axis: int | None
) -> tuple[Source, dict[str, Any]]:
    """A source over a Dask array or data frame, and what must still be attached to it.

    Columns of a frame are named. Those beside an array are Dask arrays, or arrays in memory, which
    are returned.
    """
    if class_axis not in (None, 1, -1):
        raise InputError(f"class_axis must be left out for a Dask collection, got {class_axis}")
    if hasattr(data, "columns"):
        named, rest = paths.split_names(beside)
        wrong = next((role for role, given in rest.items() if is_dask(given)), None)
        if wrong is not None:
            raise InputError(
                f"{ARGUMENTS[wrong]} must name a column of the Dask frame, got a collection"
            )
        return _open_frame(data, named, columns), rest
    if not hasattr(data, "chunks"):
        kind = type(data).__name__
        raise InputError(f"logits must be a Dask array or data frame, got {kind}")
    if columns is not None:
        raise InputError("columns must go with a table, got an array")
    lazy = {role: given for role, given in beside.items() if is_dask(given)}
    rest = {role: given for role, given in beside.items() if role not in lazy}
    return _open_array(data, lazy), rest


def _open_array(data: Any, beside: Mapping[str, Any]) -> Source:
    if data.ndim not in (1, 2):
        raise InputError(f"logits must have two dimensions, got shape {data.shape}")
    if data.ndim == 2:
        data = data.rechunk({1: -1})
    lengths = data.chunks[0]
    tasks = {"logits": data.to_delayed().ravel()}
    for role, column in beside.items():
        tasks[role] = _aligned(column, ARGUMENTS[role], lengths)
    parts = tuple(
        DaskPart(
            f"partition {position}",
            {role: chunks[position] for role, chunks in tasks.items()},
            None if math.isnan(rows) else int(rows),
        )
        for position, rows in enumerate(lengths)
    )
    binary = data.ndim == 1 or data.shape[1] == 1
    classes = 2 if binary else int(data.shape[1])
    return Source(parts, "logits", classes, frozenset(beside), binary=binary)


def _aligned(column: Any, name: str, lengths: tuple[Any, ...]) -> Any:
    """The chunks of a column, cut where those of the logits are."""
    if hasattr(column, "to_dask_array"):  # a series
        column = column.to_dask_array()
    column = column.reshape(-1) if column.ndim > 1 else column
    unknown = any(math.isnan(count) for count in (*lengths, *column.chunks[0]))
    if unknown and len(column.chunks[0]) != len(lengths):
        got = f"{len(column.chunks[0])} chunks for {len(lengths)}"
        raise InputError(f"{name} must have the chunks of the logits, got {got}")
    if not unknown:
        if len(column) != sum(lengths):
            raise mismatch(name, sum(lengths), len(column))
        column = column.rechunk((lengths,))
    return column.to_delayed().ravel()


def _open_frame(data: Any, beside: Mapping[str, str], columns: Any) -> Source:
    import narwhals as nw  # noqa: PLC0415  # only where a frame is passed

    if not all(isinstance(name, str) for name in data.columns):
        data = data.rename(columns=str)
    kinds = frame_kinds(nw.from_native(data).collect_schema())
    objects = [name for name, form in data.dtypes.items() if form == "object"]
    if objects:  # only the values tell lists from text
        first = data[objects].head(1, npartitions=-1)
        kinds |= {name: "list" for name in objects if holds_lists(first[name])}
    chosen = choose_columns(kinds, beside, columns, "logits")
    parts = tuple(
        DaskPart(f"partition {position}", task, columns=chosen)
        for position, task in enumerate(data[chosen.every].to_delayed())
    )
    return from_table(parts, "logits", chosen)
