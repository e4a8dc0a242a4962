"""Processes that are killed at a given moment, and the record of faults and findings."""

import os
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class End(Enum):
    """How a process ended."""

    KILLED = "killed"
    DONE = "done"
    FAILED = "failed"


@dataclass
class Findings:
    """The faults of each target, the checks after them, and the checks that failed."""

    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[str, str]] = field(default_factory=list)
    leftovers: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """The number of faults."""
        return self.faults.total()

    def count(self, target: str, fault: str) -> None:
        """Count a fault."""
        self.faults[target, fault] += 1

    def check(self, target: str, sentence: str, *, holds: bool) -> None:
        """Count a check, and keep it if it fails."""
        self.checks[target] += 1
        if not holds:
            self.failed.append((target, sentence))

    def check_folder(self, target: str, folder: Path, names: set[str]) -> None:
        """Remove and count temporary files of killed writers; no other new file may exist."""
        for path in folder.iterdir():
            if path.name not in names:
                hidden = path.name.startswith(".") and path.name.endswith(".tmp")
                self.check(target, f"{path.name} is a temporary file", holds=hidden)
                self.leftovers[target] += 1
                path.unlink()


def run_and_kill(job: Callable[[], None], moment: float) -> End:
    """Run a job in a process of its own and kill it with -9 after a time in seconds."""
    child = os.fork()
    if child == 0:
        _run(job)
    time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    return _wait(child)


def run_to_end(job: Callable[[], None]) -> tuple[End, float]:
    """Run a job in a process of its own; how it ended, and after how many seconds."""
    start = time.perf_counter()
    child = os.fork()
    if child == 0:
        _run(job)
    return _wait(child), time.perf_counter() - start


def _run(job: Callable[[], None]) -> None:
    try:
        job()
    except BaseException:  # noqa: BLE001  # a forked process must never return
        if "CHAOS_TRACEBACK" in os.environ:
            traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _wait(child: int) -> End:
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return End.KILLED
    return End.DONE if os.WEXITSTATUS(status) == 0 else End.FAILED
