"""Thread-pool engine; the kernels release the GIL."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from operator import index

from tepid import kernels
from tepid.engines.engine import Progress, Summary, Total, finish, summarize
from tepid.errors import InputError
from tepid.shapes import rows_per_batch
from tepid.sources.batch import Batch
from tepid.sources.source import Source

ENVIRONMENT = "TEPID_THREADS"
_MOST = 256
# Below this, starting a thread costs more than the work it would take over.
_LOGITS_FOR_TWO = 1 << 17

_Waiting = deque[tuple[Batch, Future[Total]]]


@dataclass(frozen=True)
class Threads:
    """Threads on this machine: `count`, else `TEPID_THREADS`, else one per processor.

    `progress` is called after each batch.
    """

    count: int | None = None
    progress: Progress | None = None

    def total(self, of: Callable[[Batch], Summary], source: Source, stage: str) -> Summary:
        """The sum of `of(batch)` over all batches, added in the order of the rows."""
        summary: Summary = finish(self._sum(of, source, stage), source)
        return summary

    def _sum(self, of: Callable[[Batch], Summary], source: Source, stage: str) -> Total | None:
        rows = source.rows
        threads = self._worthwhile(rows, source.classes)
        size = rows_per_batch(source.classes or 64)
        if rows is not None:
            size = max(1, min(size, -(-rows // threads)))
        total: Total | None = None
        done = 0
        with kernels.expecting((rows or 0) * (source.classes or 2) / threads):
            for batch, part in _map(of, source.batches(size, allow_empty=True), threads):
                total = part if total is None else total + part
                if self.progress:
                    done += len(batch.logits)
                    self.progress(stage, done, rows)
        return total

    def _worthwhile(self, rows: int | None, classes: int | None) -> int:
        threads = self.threads  # raises before anything is read if it is no number
        size = None if rows is None else rows * (classes or 2)
        return 1 if size is not None and size < _LOGITS_FOR_TWO else threads

    @property
    def threads(self) -> int:
        """The number of threads."""
        if self.count is not None:
            return _positive("threads", self.count)
        given = os.environ.get(ENVIRONMENT)
        if given:
            return _positive(ENVIRONMENT, given)
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )


def _map(
    of: Callable[[Batch], Summary], batches: Iterator[Batch], threads: int
) -> Iterator[tuple[Batch, Total]]:
    """`of` of every batch, in order; the calling thread takes a batch when the others have enough.

    Few batches are in flight at once, so that memory does not grow with the data.
    """
    waiting: _Waiting = deque()
    try:
        for batch in batches:
            waiting.append((batch, _start(of, batch, waiting, threads - 1)))
            # A starved thread must not let the batches behind its own pile up.
            while waiting and (waiting[0][1].done() or len(waiting) > 8 * threads):
                done, future = waiting.popleft()
                yield done, future.result()
        _take_over(of, waiting)
        for done, future in waiting:
            yield done, future.result()
    finally:
        for _, future in waiting:
            future.cancel()


def _start(
    of: Callable[[Batch], Summary], batch: Batch, waiting: _Waiting, helpers: int
) -> Future[Total]:
    if sum(not future.done() for _, future in waiting) < 2 * helpers:
        return _pool(helpers, os.getpid()).submit(summarize, of, batch)
    return _run(of, batch)


def _take_over(of: Callable[[Batch], Summary], waiting: _Waiting) -> None:
    for position, (batch, future) in enumerate(waiting):
        if future.cancel():  # no thread has begun it
            waiting[position] = (batch, _run(of, batch))


def _run(of: Callable[[Batch], Summary], batch: Batch) -> Future[Total]:
    future: Future[Total] = Future()
    try:
        future.set_result(summarize(of, batch))
    except InputError as error:  # raised when its turn comes, so that the first bad row is named
        future.set_exception(error)
    return future


@lru_cache(maxsize=8)
def _pool(helpers: int, process: int) -> ThreadPoolExecutor:  # noqa: ARG001  # threads do not fork
    """Threads that stay between the passes of a fit; starting them takes longer than a pass."""
    return ThreadPoolExecutor(helpers, thread_name_prefix="tepid")


def _positive(name: str, value: int | str) -> int:
    try:
        count = int(value) if isinstance(value, str) else index(value)
    except (ValueError, TypeError):
        count = 0
    if not 1 <= count <= _MOST:
        raise InputError(f"{name} must be a whole number in 1 to {_MOST}, got {value!r}")
    return count
