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
    """How a process came to its end."""

    KILLED = "killed"
    DONE = "done"
    FAILED = "failed"


@dataclass
class Account:
    """How often each thing was done to each victim, what was checked, and what was wrong."""

    done: Counter[tuple[str, str]] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, str]] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """How many kills and faults there were."""
        return self.done.total()

    def did(self, victim: str, what: str) -> None:
        """Count a kill or a fault."""
        self.done[victim, what] += 1

    def check(self, victim: str, sentence: str, *, holds: bool) -> None:
        """Count what was looked at, and keep what does not hold."""
        self.checks[victim] += 1
        if not holds:
            self.wrong.append((victim, sentence))

    def check_folder(self, victim: str, folder: Path, names: set[str]) -> None:
        """Count and remove temporary files that killed writers left; no other file may be there."""
        for path in folder.iterdir():
            if path.name not in names:
                hidden = path.name.startswith(".") and path.name.endswith(".tmp")
                self.check(victim, f"{path.name} is left and is no temporary file", holds=hidden)
                self.left[victim] += 1
                path.unlink()


def killed(job: Callable[[], None], moment: float) -> End:
    """Run a job in a process of its own and kill it after so many seconds."""
    child = os.fork()
    if child == 0:
        _ended(job)
    time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    return _end(child)


def finished(job: Callable[[], None]) -> tuple[End, float]:
    """Run a job in a process of its own to its end, and say how long it took."""
    start = time.perf_counter()
    child = os.fork()
    if child == 0:
        _ended(job)
    return _end(child), time.perf_counter() - start


def _ended(job: Callable[[], None]) -> None:
    try:
        job()
    except BaseException:  # noqa: BLE001  # a forked process must never return
        if "CHAOS_TELLS" in os.environ:
            traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _end(child: int) -> End:
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return End.KILLED
    return End.DONE if os.WEXITSTATUS(status) == 0 else End.FAILED
