"""Threads on this machine; the kernels release the GIL."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from tepid.arrays import InputError, RowError
from tepid.sources.block import Block, Source, located


class Adds(Protocol):
    """A summary."""

    def __add__(self, other: Self, /) -> Self: ...


Summary = TypeVar("Summary", bound=Adds)
# Called with what is being done, how many rows are done, and how many there are if that is known.
Progress = Callable[[str, int, int | None], None]

ENVIRONMENT = "TEPID_THREADS"
# One block: large against the cost of a call, small against memory.
_LOGITS_PER_BLOCK = 1 << 20
# Below this, starting a thread costs more than the work it would take over.
_LOGITS_FOR_TWO = 1 << 15


@dataclass(frozen=True)
class Threads:
    """How many threads, by default `TEPID_THREADS` or one per processor, and whom to tell."""

    count: int | None = None
    progress: Progress | None = None

    def total(self, of: Callable[[Block], Summary], source: Source, stage: str) -> Summary:
        """The sum of `of(block)` over all blocks, added in the order of the rows."""
        threads = self._threads()
        rows = _rows_per_block(source, threads)
        blocks = source.blocks(rows)
        size = None if source.rows is None else source.rows * (source.classes or 2)
        if threads == 1 or (size is not None and size < _LOGITS_FOR_TWO):
            results: Iterator[tuple[Block, Summary]] = ((b, _of(of, b)) for b in blocks)
        else:
            results = _mapped(of, blocks, threads)
        total = None
        for block, part in results:
            total = part if total is None else total + part
            if self.progress:
                self.progress(stage, block.start + len(block.logits), source.rows)
        if total is None:  # the source refuses to be empty before this can happen
            raise InputError(f"{source.name} must have at least one row, got none")
        return total

    def _threads(self) -> int:
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
    rows = max(64, _LOGITS_PER_BLOCK // (source.classes or 64))
    return rows if source.rows is None else max(1, min(rows, -(-source.rows // threads)))


def _mapped(
    of: Callable[[Block], Summary], blocks: Iterator[Block], threads: int
) -> Iterator[tuple[Block, Summary]]:
    # Few blocks are in flight at once, so that memory does not grow with the data.
    with ThreadPoolExecutor(threads, thread_name_prefix="tepid") as pool:
        waiting: deque[tuple[Block, Future[Summary]]] = deque()
        try:
            for block in blocks:
                waiting.append((block, pool.submit(_of, of, block)))
                if len(waiting) > threads + 1:
                    done, future = waiting.popleft()
                    yield done, future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, future.result()
        finally:
            for _, future in waiting:
                future.cancel()


def _of(of: Callable[[Block], Summary], block: Block) -> Summary:
    try:
        return of(block)
    except RowError as error:
        raise located(error, block) from None


def _positive(name: str, value: int | str) -> int:
    try:
        count = int(value)
    except ValueError:
        count = 0
    if count < 1:
        raise InputError(f"{name} must be a whole number above zero, got {value!r}")
    return count
