"""Data frames in memory, through narwhals: pandas, Polars, Arrow tables, DuckDB and others."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tepid import validation
from tepid.errors import reading
from tepid.sources.batch import Batch, Part
from tepid.sources.source import Source, from_table
from tepid.tables import (
    ARGUMENTS,
    Columns,
    collect_columns,
    column_values,
    frame_matrix,
    is_arrow,
)


def open_frame(data: Any, beside: Mapping[str, str], columns: Any, where: Any = None) -> Source:
    """A source over a data frame; only the columns that are wanted are collected."""
    name = "logits"
    with reading(name):
        frame, chosen = collect_columns(data, beside, columns, where, name)
        if hasattr(frame, "validate"):
            frame.validate(full=True)
    part = FramePart(frame, chosen)
    classes = chosen.classes
    if chosen.lists:
        first = next(part.batches(1), None)
        classes = None if first is None else max(2, first.logits.shape[1])
    return from_table((part,), name, chosen, classes=classes, shape=(part.rows,))


@dataclass(frozen=True, eq=False)
class FramePart(Part):
    """A data frame in memory that holds the wanted columns and no others."""

    frame: Any
    columns: Columns
    name: str = "logits"

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.frame)

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the rows as arrays."""
        import narwhals as nw  # noqa: PLC0415  # only where a frame is passed

        wrapped = nw.from_native(self.frame, eager_only=True)
        for first in range(0, len(self.frame), size):
            batch = Batch(None, start=first, name=self.name, row=first)
            with batch.locating():
                values = _values(wrapped[first : first + size], self.columns)
            yield batch._replace(**values)

    def select(self, keep: frozenset[str]) -> "FramePart":
        """The same rows with fewer columns."""
        return dataclasses.replace(self, columns=self.columns.select(keep))


def _values(frame: Any, columns: Columns) -> dict[str, Any]:
    values = {"logits": validation.as_array(frame_matrix(frame, columns))}
    native = frame.to_native()
    for role, name in columns.beside.items():
        if is_arrow(native):
            column = native.column(name)
        elif role in ("labels", "weight") and frame[name].dtype.is_numeric():
            column = column_values(frame.select(name)).reshape(-1)
        else:
            column = frame[name].to_numpy()
        values[role] = validation.side_column(column, ARGUMENTS[role])
    return values
