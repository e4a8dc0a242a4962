"""Data frames in memory, through narwhals: pandas, Polars, Arrow tables, DuckDB and others."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tepid import validation
from tepid.errors import InputError, RowError, reading
from tepid.sources.batch import Batch
from tepid.sources.source import Source, from_table
from tepid.tables import (
    ARGUMENTS,
    Columns,
    Holds,
    check_where,
    choose_columns,
    column_values,
    frame_kinds,
    frame_matrix,
    is_arrow,
    with_text_names,
)


def open_frame(
    data: Any,
    beside: Mapping[str, str],
    columns: Any,
    where: Any = None,
    name: str = "logits",
) -> Source:
    """A source over a data frame; only the columns that are wanted are collected."""
    frame = with_text_names(data)
    with reading(name):
        import narwhals as nw  # noqa: PLC0415  # only where a frame is passed

        wrapped = nw.from_native(frame)
        kinds = frame_kinds(wrapped.collect_schema(), frame)
        chosen = choose_columns(kinds, beside, columns, name)
        if isinstance(where, Mapping):
            check_where(where, kinds, name)
            wrapped = wrapped.filter(_conditions(where, kinds))
        elif where is not None:
            wrapped = nw.from_native(_filtered(frame, where))
        wrapped = wrapped.select(chosen.every)
        if isinstance(wrapped, nw.LazyFrame):
            wrapped = wrapped.collect()
        native = wrapped.to_native()
        if hasattr(native, "validate"):
            native.validate(full=True)
    part = FramePart(native, chosen, name)
    return from_table((part,), name, chosen, classes=_classes(part), shape=(part.rows,))


def _classes(part: "FramePart") -> int | None:
    if not part.columns.lists:
        return part.columns.classes
    first = next(part.batches(1), None)
    return None if first is None else max(2, first.logits.shape[1])


def _filtered(frame: Any, where: Any) -> Any:
    if not is_arrow(frame):
        kind = type(where).__name__
        raise InputError(f"where must map columns to values for a data frame, got {kind}")
    return frame.filter(where)


def _conditions(where: Mapping[str, Any], kinds: Mapping[str, Holds]) -> Any:
    import narwhals as nw  # noqa: PLC0415  # only where a frame is passed

    terms = []
    for name, value in where.items():
        terms.append(nw.col(name) == (_number(value, name) if kinds[name] == "number" else value))
    return terms


def _number(value: Any, name: str) -> Any:
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(value)
    raise InputError(f"where must compare {name} with a number, got {value!r}")


@dataclass(frozen=True, eq=False)
class FramePart:
    """A data frame in memory that holds the wanted columns and no others."""

    frame: Any
    columns: Columns
    name: str = "logits"
    portable: bool = field(default=False, init=False)

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
