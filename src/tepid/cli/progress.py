"""How far the work is, on a terminal and nowhere else."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

import tepid

# Work that is done sooner shows no bar, which would only flash.
_PATIENCE = 1.5


@dataclass
class _Stage:
    """One line of the progress: when it was first heard of, and how many rows were done by then."""

    task: TaskID
    since: float
    first: int
    done: int


@contextlib.contextmanager
def working(threads: int | None) -> Iterator["tepid.Threads"]:
    """An engine whose progress is drawn, with rate and time left, if it takes a while."""
    if not sys.stderr.isatty():
        yield tepid.Threads(threads)
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    # By a clock of its own, so that a first run that compiles kernels is not silent either.
    timer = threading.Timer(_PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield tepid.Threads(threads, _reporter(bar))
    finally:
        timer.cancel()
        timer.join()
        if bar.live.is_started:
            bar.stop()


def _reporter(bar: Progress) -> "tepid.engines.Progress":
    preparing = bar.add_task("preparing", total=None, rate="")
    stages: dict[str, _Stage] = {}
    lock = threading.Lock()  # splits that run side by side report side by side

    def report(name: str, done: int, total: int | None) -> None:
        with lock:
            bar.update(preparing, visible=False)
            stage = stages.get(name)
            if stage is None or done < stage.done:  # new, or the same once more
                task = bar.add_task(name, total=total, rate="") if stage is None else stage.task
                stage = stages[name] = _Stage(task, time.monotonic(), done, done)
            stage.done = done
            bar.update(stage.task, completed=done, total=total, rate=_rate(stage))

    return report


def _rate(stage: _Stage) -> str:
    # The first batch also paid for reading the file's head and compiling.
    seconds, rows = time.monotonic() - stage.since, stage.done - stage.first
    return f"{rows / seconds:,.0f}/s" if rows and seconds else ""
