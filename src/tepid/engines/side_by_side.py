"""Several parts read at once: where files have to be decoded or fetched, one reader is too slow."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Lock

from tepid.engines.engine import Summary
from tepid.engines.portions import Portion, summed
from tepid.sources.block import Block


def side_by_side(
    of: Callable[[Block], Summary],
    shares: list[Portion],
    threads: int,
    told: Callable[[int], None],
) -> Iterator[Summary | None]:
    """The sum over each portion in their order, every one read and summed by one thread.

    What is wrong with a portion is raised when its turn comes, so that the first bad row is named
    whichever thread was faster. `told` hears how many rows are done.
    """
    progress = _Done(told)
    waiting: deque[Future[Summary | None]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="tepid-part")
    try:
        for share in shares:
            waiting.append(pool.submit(summed, of, share, progress.add))
            # A part that takes long must not let the sums of those behind it pile up.
            if len(waiting) >= 4 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        progress.stopped.set()
        pool.shutdown(wait=False, cancel_futures=True)  # they end after the block that they are at


class _Stopped(Exception):  # noqa: N818  # nothing is wrong
    """Nobody wants the sum any more."""


class _Done:
    """How many rows are done by all threads together; ends them once it is `stopped`."""

    def __init__(self, told: Callable[[int], None]) -> None:
        self.told, self.rows = told, 0
        self.stopped, self.lock = Event(), Lock()

    def add(self, block: Block) -> None:
        if self.stopped.is_set():
            raise _Stopped
        with self.lock:
            self.rows += len(block.logits)
            self.told(self.rows)
