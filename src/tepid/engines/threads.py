"""Threads on this machine; the kernels release the GIL."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from operator import index

from tepid.engines.engine import Progress, Summary
from tepid.engines.portions import blamed, is_counted, numbered, portions
from tepid.engines.side_by_side import side_by_side
from tepid.errors import InputError
from tepid.shapes import rows_per_block
from tepid.sources.block import Block, Source
from tepid.sources.parts import finer

Waiting = deque[tuple[Block, Future[Summary]]]

ENVIRONMENT = "TEPID_THREADS"
_MOST = 256
# Below this, starting a thread costs more than the work it would take over.
_LOGITS_FOR_TWO = 1 << 17
# Smaller files, on the average, are read as fast by one thread as by several.
_LOGITS_PER_PART = 1 << 20


@dataclass(frozen=True)
class Threads:
    """How many threads, by default `TEPID_THREADS` or one per processor, and whom to tell."""

    count: int | None = None
    progress: Progress | None = None

    def total(self, of: Callable[[Block], Summary], source: Source, stage: str) -> Summary:
        """The sum of `of(block)` over all blocks, added in the order of the rows."""
        apart = source.decoded and is_counted(source) and not source.peers
        total = (self._sum_of_parts if apart else self._sum)(of, source, stage)
        if total is None:
            raise InputError(f"{source.name} must have at least one row, got none")
        return total

    def _sum_of_parts(
        self, of: Callable[[Block], Summary], source: Source, stage: str
    ) -> Summary | None:
        threads, fine = self._worthwhile(source), finer(source)
        rows, largest = source.rows or 0, max(part.rows or 0 for part in fine.parts)
        small = rows * (source.classes or 2) < _LOGITS_PER_PART * len(fine.parts)
        if threads == 1 or small or 2 * largest > rows:
            return self._sum(of, source, stage)  # one thread reads, the others sum

        def told(rows: int) -> None:
            if self.progress:
                self.progress(stage, rows, source.expected)

        total = None
        for part in side_by_side(of, portions(fine), threads, told):
            if part is not None:
                total = part if total is None else total + part
        return total

    def _sum(
        self, of: Callable[[Block], Summary], source: Source, stage: str, start: int = 0
    ) -> Summary | None:
        threads = self._worthwhile(source)
        total = None
        blocks = numbered(source.blocks(_rows_per_block(source, threads), some=False), start)
        for block, part in _mapped(of, blocks, threads):
            total = part if total is None else total + part
            if self.progress:
                self.progress(stage, block.start + len(block.logits), source.expected)
        return total

    def each(
        self, of: Callable[[Block], Summary], source: Source, stage: str, wanted: list[int]
    ) -> Iterator[tuple[int, Summary | None]]:
        """The sum over each wanted part of a source, one part after the other; None of no rows."""
        shares = portions(source)
        for place in wanted:
            yield place, self._sum(of, shares[place].source, stage, shares[place].start)

    def _worthwhile(self, source: Source) -> int:
        """How many threads a source is worth."""
        threads = self.threads  # refused before anything is read, if it is no number
        size = None if source.rows is None else source.rows * (source.classes or 2)
        return 1 if size is not None and size < _LOGITS_FOR_TWO else threads

    @property
    def threads(self) -> int:
        """How many threads there are."""
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


def _rows_per_block(source: Source, threads: int) -> int:
    rows = rows_per_block(source.classes or 64)
    return rows if source.rows is None else max(1, min(rows, -(-source.rows // threads)))


def _mapped(
    of: Callable[[Block], Summary], blocks: Iterator[Block], threads: int
) -> Iterator[tuple[Block, Summary]]:
    """`of` of every block, in order; the calling thread takes a block when the others have enough.

    Few blocks are in flight at once, so that memory does not grow with the data.
    """
    waiting: Waiting[Summary] = deque()
    try:
        for block in blocks:
            waiting.append((block, _begun(of, block, waiting, threads - 1)))
            # A thread that is starved must not let the blocks behind its own pile up.
            while waiting and (waiting[0][1].done() or len(waiting) > 8 * threads):
                done, future = waiting.popleft()
                yield done, future.result()
        _take_over(of, waiting)
        for done, future in waiting:
            yield done, future.result()
    finally:
        for _, future in waiting:
            future.cancel()


def _begun(
    of: Callable[[Block], Summary], block: Block, waiting: Waiting[Summary], helpers: int
) -> Future[Summary]:
    if sum(not future.done() for _, future in waiting) < 2 * helpers:
        return _pool(helpers, os.getpid()).submit(blamed, of, block)
    return _done(of, block)


def _take_over(of: Callable[[Block], Summary], waiting: Waiting[Summary]) -> None:
    for i, (block, future) in enumerate(waiting):
        if future.cancel():  # nobody has begun it
            waiting[i] = (block, _done(of, block))


def _done(of: Callable[[Block], Summary], block: Block) -> Future[Summary]:
    future: Future[Summary] = Future()
    try:
        future.set_result(blamed(of, block))
    except InputError as error:  # told when its turn comes, so that the first bad row is named
        future.set_exception(error)
    return future


@lru_cache(maxsize=8)
def _pool(helpers: int, process: int) -> ThreadPoolExecutor:  # noqa: ARG001  # threads do not fork
    """Threads that wait for work between the passes of a fit; starting them takes longer."""
    return ThreadPoolExecutor(helpers, thread_name_prefix="tepid")


def _positive(name: str, value: int | str) -> int:
    try:
        count = int(value) if isinstance(value, str) else index(value)
    except (ValueError, TypeError):
        count = 0
    if not 1 <= count <= _MOST:
        raise InputError(f"{name} must be a whole number in 1 to {_MOST}, got {value!r}")
    return count
