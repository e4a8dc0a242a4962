"""Spark engine: `mapInArrow` sums each partition where it is; summaries are added as a tree."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

try:
    from py4j.protocol import Py4JError
    from pyspark import TaskContext
    from pyspark.errors import PySparkException
except ImportError:
    raise ImportError("tepid.engines.spark needs PySpark: pip install 'tepid[spark]'") from None

from tepid.engines.engine import Progress, Summary, Total, add_up, finish, summarize_all
from tepid.engines.threads import Threads
from tepid.errors import InputError
from tepid.shapes import rows_per_batch
from tepid.sources.batch import Batch
from tepid.sources.beside import Beside, leaves, map_leaves
from tepid.sources.source import Source
from tepid.sources.spark import RecordPart, SparkPart
from tepid.tables import needs_arrow

# The number of summaries that one task adds.
_FAN = 16
# Rows of a partition are numbered from a multiple of this, since those before are not counted.
_APART = 1 << 40
_SCHEMA = "summary binary, suspicious boolean, refused string"


@dataclass(frozen=True)
class Spark:
    """An engine on the Spark session that a source's data frame belongs to.

    Rows that are in this process are summed here, by threads.
    """

    progress: Progress | None = None

    def total(self, of: Callable[[Batch], Summary], source: Source, stage: str) -> Summary:
        """The sum of `of(batch)` over all partitions; one job, whatever the number of rows."""
        part: Any = source.parts[0]
        inside = leaves(part)
        if not any(isinstance(leaf, SparkPart) for leaf in inside):
            return Threads(progress=self.progress).total(of, source, stage)
        if isinstance(part, Beside):
            raise InputError("labels, weights, groups and other models must be columns in Spark")
        frame = inside[0].frame
        bare = map_leaves(part, lambda leaf: SparkPart(None, leaf.columns))
        described = source.replaced(parts=(), spool=None)
        work = partial(_summed, of=of, part=bare, source=described)
        try:
            sums = frame.mapInArrow(work, _SCHEMA)
            count = _partitions(frame)
            while count > _FAN:
                count = -(-count // _FAN)
                sums = sums.repartition(count).mapInArrow(_added, _SCHEMA)
            rows = [row.asDict() for row in sums.collect()]
        except (PySparkException, Py4JError, OSError) as error:
            # The cause has Spark's own traceback.
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            raise InputError(f"Spark must finish its job, got {reason:.200}") from error
        summary: Summary = finish(_total(rows), source)
        if self.progress:
            self.progress(stage, 0, None)
        return summary


def _partitions(frame: Any) -> int:
    try:
        return int(frame.rdd.getNumPartitions())
    except Exception:  # noqa: BLE001  # Spark Connect has no RDD; one level of adding is enough
        return _FAN + 1


def _summed(
    records: Iterable[Any], of: Callable[[Batch], Any], part: Any, source: Source
) -> Iterator[Any]:
    """The sum over one partition, in Spark. An error about the data is a value: no retry helps."""
    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    name = f"partition {number}"
    there = map_leaves(part, lambda leaf: RecordPart(records, leaf.columns, name))
    try:
        batches = there.batches(rows_per_batch(source.classes or 64))
        total = summarize_all(of, source.checked(batches, number * _APART))
    except InputError as error:
        yield _sent(None, str(error))
        return
    if total is not None:
        yield _sent(total)


def _added(batches: Iterable[Any]) -> Iterator[Any]:
    """The sum of some partitions' sums, in Spark."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    try:
        total = _total(rows)
    except InputError as error:
        yield _sent(None, str(error))
        return
    if total is not None:
        yield _sent(total)


def _total(rows: list[dict[str, Any]]) -> Total | None:
    """The sum of rows that `_sent` made; raises the first error among them."""
    refused = next((row["refused"] for row in rows if row["refused"] is not None), None)
    if refused is not None:
        raise InputError(refused)
    # Our own tasks of this job pickled them: the same trust as the functions that Spark pickles.
    return add_up(Total(pickle.loads(bytes(row["summary"])), row["suspicious"]) for row in rows)


def _sent(total: Total | None, refused: str | None = None) -> Any:
    pa = needs_arrow()
    summary = None if total is None else pickle.dumps(total.summary)
    suspicious = None if total is None else total.suspicious
    return pa.record_batch(
        [
            pa.array([summary], pa.binary()),
            pa.array([suspicious]),
            pa.array([refused], pa.string()),
        ],
        ["summary", "suspicious", "refused"],
    )
