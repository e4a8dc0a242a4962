"""Blocks that are read while the ones before them are worked on."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
_END = object()


def reading_ahead(items: Iterator[Item], depth: int = 2) -> Iterator[Item]:
    """The same items in the same order, up to `depth` of them made on a thread before their turn.

    What making them raises comes in its place. Closing this ends the thread after the item that it
    is at; it is not waited for, since the one who closes may be the thread itself, collecting.

    >>> list(reading_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="tepid-ahead")
    try:
        waiting = deque(pool.submit(next, items, _END) for _ in range(depth))
        while (item := waiting.popleft().result()) is not _END:
            waiting.append(pool.submit(next, items, _END))
            yield item  # type: ignore[misc]  # what is not the end is an item
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def ahead(read: Callable[[int], Iterator[Any]], rows: int) -> Iterator[Any]:
    """What `read(rows)` yields, read ahead."""
    return reading_ahead(read(rows))
