"""Spark engine: `mapInArrow` sums each partition where it is; summaries are added as a tree."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

try:
    from pyspark import TaskContext
except ImportError:
    raise ImportError("tepid.engines.spark needs PySpark: pip install 'tepid[spark]'") from None

from tepid.engines.engine import Progress, Summary, add_outcomes, finish, summarize_part
from tepid.engines.threads import Threads
from tepid.errors import InputError
from tepid.sources.attached import AttachedPart
from tepid.sources.batch import Batch
from tepid.sources.source import Source
from tepid.sources.spark import RecordPart, SparkPart, one_line_errors
from tepid.tables import needs_arrow

# The number of summaries that one task adds.
_FAN = 16
# Rows of a partition are numbered from a multiple of this, since those before are not counted.
_APART = 1 << 40
_SCHEMA = "outcome binary"


@dataclass(frozen=True)
class Spark:
    """An engine on the Spark session that a source's data frame belongs to.

    Rows that are in this process are summed here, by threads.
    """

    progress: Progress | None = None

    def total(self, of: Callable[[Batch], Summary], source: Source, stage: str) -> Summary:
        """The sum of `of(batch)` over all partitions; one job, whatever the number of rows."""
        part = source.parts[0]
        inside: list[Any] = part.leaves()
        if not any(isinstance(leaf, SparkPart) for leaf in inside):
            return Threads(progress=self.progress).total(of, source, stage)
        if isinstance(part, AttachedPart):
            raise InputError("labels, weights, groups and other models must be columns in Spark")
        frame = inside[0].frame
        bare = part.map_leaves(lambda _: SparkPart(None, inside[0].columns))
        described = source.replaced(parts=(), spool=None)
        work = partial(_summed, of=of, part=bare, source=described)
        with one_line_errors():
            sums = frame.mapInArrow(work, _SCHEMA)
            count = _partitions(frame)
            while count > _FAN:
                count = -(-count // _FAN)
                sums = sums.repartition(count).mapInArrow(_added, _SCHEMA)
            rows = sums.collect()
        outcomes = (_loaded(row["outcome"]) for row in rows)
        summary: Summary = finish(add_outcomes(outcomes), source)
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
    """The sum over one partition, in Spark."""
    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    name = f"partition {number}"
    there = part.map_leaves(lambda leaf: RecordPart(records, leaf.columns, name))
    yield _sent(summarize_part(of, source, there.batches, number * _APART))


def _added(batches: Iterable[Any]) -> Iterator[Any]:
    """The sum of some partitions' sums, in Spark."""
    outcomes = (_loaded(sent) for batch in batches for sent in batch.column(0).to_pylist())
    yield _sent(add_outcomes(outcomes))


def _sent(outcome: Any) -> Any:
    pa = needs_arrow()
    return pa.record_batch([pa.array([pickle.dumps(outcome)], pa.binary())], ["outcome"])


def _loaded(sent: bytes) -> Any:
    # Our own tasks of this job pickled it: the same trust as the functions that Spark pickles.
    return pickle.loads(bytes(sent))
