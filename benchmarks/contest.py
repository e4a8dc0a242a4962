"""The contestants of `speed`, and how they take turns."""

import math
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import peers
from softmax import softmax_pass

import tepid

THREADS = 2
PEERS = {
    "scikit-learn": peers.scikit_learn,
    "probmetrics": peers.probmetrics,
    "torch L-BFGS": peers.torch_lbfgs,
}
FIT, LABELLED, UNIT = "tepid.uts", "tepid.temperature_scaling", "softmax pass"
# Idle workers of a peer's thread pool go on spinning for a while.
PAUSE = 0.02


@dataclass(frozen=True)
class Size:
    """A problem, how often it is timed, and how many times faster than each peer tepid must be."""

    rows: int
    classes: int
    peer_turns: int
    calls: int
    floor: tuple[int, int, int]
    goal: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{self.rows:,}×{self.classes}"


SIZES = (
    Size(10_000, 10, 15, 3, (12, 6, 2), (20, 10, 3)),
    Size(10_000, 100, 10, 3, (15, 5, 2), (25, 8, 3)),
    Size(50_000, 1000, 3, 1, (30, 30, 7), (50, 50, 10)),
)


class Stopwatch:
    """An engine that notes how long each pass over the data took."""

    def __init__(self) -> None:
        self.passes: list[tuple[str, float]] = []

    def total(self, of: Callable[[Any], Any], source: Any, stage: str) -> Any:
        """What tepid's threads do, timed."""
        start = time.perf_counter()
        result = tepid.Threads(THREADS).total(of, source, stage)
        self.passes.append((stage, time.perf_counter() - start))
        return result


def label_free(z: Any) -> tuple[float, list[tuple[str, float]]]:
    """The fit that is measured: its temperature, and the passes it made."""
    watch = Stopwatch()
    return tepid.uts(z, engine=watch).value, watch.passes


def contestants(z: Any, y: Any, pool: Executor) -> dict[str, Callable[[], Any]]:
    """Everything that is timed, by name."""
    engine = tepid.Threads(THREADS)
    return {
        FIT: lambda: label_free(z),
        LABELLED: lambda: tepid.temperature_scaling(z, y, engine=engine).value,
        UNIT: lambda: softmax_pass(z, pool, THREADS),
        **{name: lambda fit=fit: fit(z, y) for name, fit in PEERS.items()},
    }


def timed(
    calls: dict[str, Callable[[], Any]], rounds: int, size: Size
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of every call and each one's fastest answer; peers join in every few rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    answers: dict[str, Any] = {}
    rest = math.ceil(rounds / size.peer_turns)
    for turn in range(rounds):
        for name, call in calls.items():
            if name in PEERS and turn % rest:
                continue
            time.sleep(PAUSE)
            for _ in range(size.calls):
                start = time.perf_counter()
                answer = call()
                seconds[name].append(time.perf_counter() - start)
                if seconds[name][-1] == min(seconds[name]):
                    answers[name] = answer
    return seconds, answers
