"""Blocks that are read while the ones before them are worked on."""

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")


class _End:
    """What comes last: nothing more, or what went wrong."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def reading_ahead(items: Iterator[Item], depth: int = 2) -> Iterator[Item]:
    """The same items in the same order, up to `depth` of them made on a thread before their turn.

    What making them raises comes in its place, and closing this ends the thread.

    >>> list(reading_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    ready: queue.Queue[Any] = queue.Queue(depth)
    stopped = threading.Event()
    thread = threading.Thread(
        target=_read, args=(items, ready, stopped), name="tepid reading ahead", daemon=True
    )
    thread.start()
    try:
        while not isinstance(item := ready.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stopped.set()
        _drain(ready)
        thread.join()


def _read(items: Iterator[Any], ready: "queue.Queue[Any]", stopped: threading.Event) -> None:
    end = _End()
    try:
        for item in items:
            ready.put(item)
            if stopped.is_set():
                break
    except BaseException as error:  # noqa: BLE001  # raised where the items are wanted
        end = _End(error)
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()
    if not stopped.is_set():
        ready.put(end)


def _drain(ready: "queue.Queue[Any]") -> None:
    """Make room, so that a thread that waits for it sees that it was stopped."""
    while True:
        try:
            ready.get_nowait()
        except queue.Empty:
            return


def ahead(read: Callable[[int], Iterator[Any]], rows: int) -> Iterator[Any]:
    """What `read(rows)` yields, read ahead."""
    return reading_ahead(read(rows))
