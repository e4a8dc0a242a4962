"""Spark's data frames as sources. Rows stay in Spark; what leaves it is asked for batch by batch.

Nothing of Spark is imported before somebody passes one of its frames.
"""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tepid import arrays, shapes
from tepid.errors import InputError, RowError
from tepid.sources import listed
from tepid.sources.block import Block, Carried, Source
from tepid.sources.columns import Chosen, choose
from tepid.sources.extras import needed

_FRACTIONS = ("float", "double")


@dataclass(frozen=True)
class SparkRows:
    """A frame of the columns that are wanted, and what they are."""

    frame: Any
    chosen: Chosen
    probabilities: bool = False


def is_spark(data: object) -> bool:
    """Whether this is a data frame of Spark, of the classic kind or of Spark Connect."""
    return type(data).__module__.startswith("pyspark.sql") and hasattr(data, "mapInArrow")


def from_spark(
    frame: Any,
    *,
    labels: Any = None,
    weight: Any = None,
    groups: Any = None,
    probabilities: bool = False,
) -> Source:
    """A source over a frame with an array column `logits` or a column of fractions per class.

    Labels, weights and groups are named columns: rows in Spark have no order by which an array
    beside them could be cut. The trap: every pass computes the frame again, so one that is
    sampled or shuffled without a seed must be cached first.
    """
    wanted = {"labels": labels, "weight": weight, "groups": groups}
    for name, column in wanted.items():
        if column is not None and not isinstance(column, str):
            kind = type(column).__name__
            raise InputError(f"{name} must name a column of the Spark frame, got {kind}")
    chosen = choose({name: _kind(form) for name, form in frame.dtypes}, wanted)
    own = frame.select(*(f"`{name}`" for name in (*chosen.logits, *chosen.beside.values())))
    rows = SparkRows(own, chosen, probabilities)
    columns = {name: Carried(partial(_whole, rows, name)) for name in chosen.beside}
    return Source(
        partial(_read, rows),
        classes=None if chosen.lists else max(len(chosen.logits), 2),
        frame=rows,
        **columns,  # type: ignore[arg-type]  # labels, weight, groups
    )


def blocks_of(batches: Iterable[Any], rows: SparkRows, name: str) -> Iterator[Block]:
    """The record batches of a partition as blocks, numbered from its first row."""
    start = 0
    for batch in batches:
        try:
            columns = _columns(batch, rows)
        except RowError as error:
            raise error.moved(start, name if error.name == "logits" else None) from None
        logits = columns.pop("logits")
        size = shapes.rows_per_block(shapes.class_count(logits)) if len(logits) else 1
        for first in range(0, len(logits), size):
            beside = {kind: c[first : first + size] for kind, c in columns.items()}
            at = start + first
            block = Block(logits[first : first + size], None, None, at, name, at=at)
            yield block._replace(**beside)
        start += len(logits)


def _kind(form: str) -> str:
    """Spark's name of a type as NumPy's kind; `l` for lists of numbers."""
    if form.startswith("array<"):
        return "l"
    return "f" if form in _FRACTIONS or form.startswith("decimal") else "O"


def _columns(batch: Any, rows: SparkRows) -> dict[str, Any]:
    logits = listed.matrix(batch, rows.chosen.logits, "logits")
    columns = {"logits": arrays.logits_of(logits) if rows.probabilities else logits}
    for kind, name in rows.chosen.beside.items():
        values = listed.values(batch.column(name))
        columns[kind] = arrays.group_column(values) if kind == "groups" else values
    return columns


def _read(rows: SparkRows, _: int) -> Iterator[Block]:
    """The rows in this process, as Spark hands them out; each partition comes as it was sent."""
    ipc = needed("pyarrow", "spark").ipc
    sent = rows.frame.mapInArrow(_written, "batch binary")
    for row in sent.toLocalIterator():
        yield from blocks_of(ipc.open_stream(io.BytesIO(row["batch"])), rows, "logits")


def _written(batches: Iterable[Any]) -> Iterator[Any]:
    """Record batches as bytes, one to a row; runs in Spark."""
    pa = needed("pyarrow", "spark")
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["batch"])


def _whole(rows: SparkRows, kind: str) -> Any:
    columns = [getattr(block, kind) for block in _read(rows, 0)]
    return np.concatenate(columns) if columns else np.zeros(0)


def probabilities_expression(temperature: float, logits: str = "logits") -> str:
    """An expression of Spark SQL that turns an array column of logits into probabilities.

    Spark computes it by itself, without Python: `frame.selectExpr("*", f"{…} AS probabilities")`.

    >>> print(probabilities_expression(2.0, "z"))
    transform(transform(z, x -> exp((x - array_max(z)) / 2.0D)), e -> e / aggregate(...))
    """
    power = f"transform({logits}, x -> exp((x - array_max({logits})) / {temperature!r}D))"
    total = f"aggregate({power}, 0D, (sum, e) -> sum + e)"
    return f"transform({power}, e -> e / {total})"
