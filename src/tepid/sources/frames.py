"""Data frames in memory, through narwhals: pandas, Polars, Arrow tables, DuckDB and others."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tepid import validation
from tepid.errors import RowError, reading
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
            rows = wrapped[first : first + size]
            try:
                batch = _to_batch(rows, self.columns)
            except RowError as error:
                raise error.moved(first, self.name if error.name == "logits" else None) from None
            yield batch._replace(start=first, name=self.name, row=first)

    def select(self, keep: frozenset[str]) -> "FramePart":
        """The same rows with fewer columns."""
        return dataclasses.replace(self, columns=self.columns.select(keep))


def _to_batch(frame: Any, columns: Columns) -> Batch:
    logits = validation.as_array(frame_matrix(frame, columns))
    native = frame.to_native()
    beside: dict[str, Any] = {}
    for role, name in columns.beside.items():
        if is_arrow(native):
            values = native.column(name)
        elif role in ("labels", "weight") and frame[name].dtype.is_numeric():
            values = column_values(frame.select(name)).reshape(-1)
        else:
            values = frame[name].to_numpy()
        beside[role] = validation.side_column(values, ARGUMENTS[role])
    return Batch(logits, **beside)
