"""Spark: `mapInArrow` sums each partition where it is, and the summaries are added as a tree."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

from pyspark import TaskContext

from tepid import records
from tepid.engines.engine import Progress, Summary
from tepid.engines.portions import blamed, numbered
from tepid.engines.threads import Threads
from tepid.errors import InputError
from tepid.sources.block import Block, Carried, Source
from tepid.sources.extras import needed
from tepid.sources.frames import SparkRows, blocks_of

# How many summaries one task adds, and how many partitions there may be before a tree is worth it.
_FAN = 16
# Rows of a partition are numbered from a multiple of this: those before it are not counted.
_APART = 1 << 40
_SCHEMA = "summary binary"


@dataclass(frozen=True)
class Spark:
    """An engine on the Spark session that a source's data frame belongs to.

    Rows that are in this process are summed here, by threads.
    """

    progress: Progress | None = None

    def total(self, of: Callable[[Block], Summary], source: Source, stage: str) -> Summary:
        """The sum of `of(block)` over all partitions; one job, whatever the number of rows."""
        if source.frame is None:
            return Threads(progress=self.progress).total(of, source, stage)
        _refuse_beside(source)
        rows: SparkRows = source.frame
        form = SparkRows(None, rows.chosen, rows.probabilities)
        parts = rows.frame.mapInArrow(partial(_summed, of=of, rows=form), _SCHEMA)
        count = _partitions(rows.frame)
        while count > _FAN:
            count = -(-count // _FAN)
            parts = parts.repartition(count).mapInArrow(_added, _SCHEMA)
        some = [_accepted(records.unpacked(bytes(row["summary"]))) for row in parts.collect()]
        if not some:
            raise InputError(f"{source.name} must have at least one row, got none")
        total: Summary = reduce(add, some)
        if self.progress:
            self.progress(stage, source.expected or 0, source.expected)
        return total


@dataclass(frozen=True)
class _Refused:
    """What is wrong with a partition. It comes back as a value: trying again would not help."""

    sentence: str


def _refuse_beside(source: Source) -> None:
    """Rows in Spark have no order, so that nothing can lie beside them."""
    columns = {"labels": source.labels, "sample_weight": source.weight, "groups": source.groups}
    for name, column in columns.items():
        if column is not None and not isinstance(column, Carried):
            raise InputError(f"{name} must be a column of the Spark frame, got an array beside it")
    if source.peers:
        raise InputError("others must be read with the logits, got peers of rows in Spark")


def _partitions(frame: Any) -> int:
    try:
        return int(frame.rdd.getNumPartitions())
    except Exception:  # noqa: BLE001  # Spark Connect has no RDD; one level of adding is enough
        return _FAN + 1


def _summed(batches: Iterable[Any], of: Callable[[Block], Any], rows: SparkRows) -> Iterator[Any]:
    """The sum over one partition, in Spark."""
    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    total: Any = None
    try:
        blocks = blocks_of(batches, rows, f"partition {number}")
        for block in numbered(blocks, number * _APART):
            part = blamed(of, block)
            total = part if total is None else total + part
    except InputError as error:
        total = _Refused(str(error))
    if total is not None:
        yield _sent(total)


def _added(batches: Iterable[Any]) -> Iterator[Any]:
    """The sum of some partitions' sums, in Spark; a refusal outweighs them."""
    some = [records.unpacked(data.as_py()) for batch in batches for data in batch.column("summary")]
    refused = [part for part in some if isinstance(part, _Refused)]
    if refused or some:
        yield _sent(refused[0] if refused else reduce(add, some))


def _sent(value: Any) -> Any:
    pa = needed("pyarrow", "spark")
    return pa.record_batch([pa.array([records.packed(value)], pa.binary())], ["summary"])


def _accepted(part: Any) -> Any:
    if isinstance(part, _Refused):
        raise InputError(part.sentence)
    return part
