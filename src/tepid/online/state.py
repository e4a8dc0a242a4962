"""The state of a monitor as a frozen value, and the functions that move it on."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from tepid.online.estimate import estimate_of
from tepid.online.reference import Reference
from tepid.online.rules import Rules
from tepid.online.sums import Sums

# The columns of a history.
ROW = (
    "chunk", "start", "end", "rows", "temperature", "estimated_temperature", "mean_confidence",
    "implied_accuracy", "lower", "upper", "drift", "alert",
)  # fmt: skip


@dataclass(frozen=True)
class Chunk:
    """A closed chunk, and the sums of the recent window when it closed.

    All are plain numbers, so that a history is a table of them. `estimate` is NaN where no
    temperature was asked for or found.
    """

    index: float
    start: float
    end: float
    rows: float
    weight: float
    squares: float
    confidence: float
    raw_confidence: float
    estimate: float

    def joined(self, other: "Chunk") -> "Chunk":
        """The same period as two replicas saw it."""
        sums = ("rows", "weight", "squares", "confidence", "raw_confidence")
        added = {name: getattr(self, name) + getattr(other, name) for name in sums}
        start, end = min(self.start, other.start), max(self.end, other.end)
        return dataclasses.replace(self, start=start, end=end, estimate=math.nan, **added)


class State(NamedTuple):
    """The open chunk, the recent window, what was counted, and the history.

    `start` and `end` are the times of the first and last batch of the open chunk, NaN while it is
    empty; `seen` counts the rows served, `kept` those that were looked at.
    """

    open: Sums
    recent: Sums
    start: float = math.nan
    end: float = math.nan
    seen: int = 0
    kept: int = 0
    closed: int = 0
    alerts: int = 0
    history: tuple[Chunk, ...] = ()


def opened(reference: Reference) -> State:
    """The state before the first row."""
    zero = reference.layout.zero()
    return State(zero, zero)


def joined(state: State, sums: Sums, moment: float) -> State:
    """The state with more rows in the open chunk."""
    fresh = math.isnan(state.start)
    return state._replace(
        open=state.open + sums,
        start=moment if fresh else min(state.start, moment),
        end=moment if fresh else max(state.end, moment),
        kept=state.kept + round(sums.weight),
    )


def closed(state: State, reference: Reference, rules: Rules) -> State:
    """The state with its open chunk closed, judged and entered in the history."""
    recent = state.open if not rules.keep else rules.keep * state.recent + state.open
    found = estimate_of(recent) if reference.reestimate else None
    chunk = Chunk(
        index=float(state.closed),
        start=state.start,
        end=state.end,
        rows=state.open.weight,
        weight=recent.weight,
        squares=recent.squares,
        confidence=recent.confidence,
        raw_confidence=recent.raw_confidence,
        estimate=math.nan if found is None else found,
    )
    alert = judged(chunk, reference, rules)["alert"]
    return state._replace(
        open=reference.layout.zero(),
        recent=recent,
        start=math.nan,
        end=math.nan,
        closed=state.closed + 1,
        alerts=state.alerts + alert,
        history=(*state.history, chunk),
    )


def trimmed(state: State, rules: Rules) -> State:
    """The state with no more chunks in its history than are to be remembered."""
    return state._replace(history=state.history[-rules.remember :])


def judged(chunk: Chunk, reference: Reference, rules: Rules) -> dict[str, Any]:
    """A closed chunk as a row of a table, with the limits that it was held to."""
    implied = chunk.confidence / chunk.weight
    lower, upper = limits(chunk.weight**2 / chunk.squares, reference, rules)
    middle, half = (upper + lower) / 2, (upper - lower) / 2
    return {
        "chunk": int(chunk.index),
        "start": chunk.start,
        "end": chunk.end,
        "rows": round(chunk.rows),
        "temperature": reference.temperature,
        "estimated_temperature": None if math.isnan(chunk.estimate) else chunk.estimate,
        "mean_confidence": chunk.raw_confidence / chunk.weight,
        "implied_accuracy": implied,
        "lower": lower,
        "upper": upper,
        "drift": (implied - middle) / half,
        "alert": not lower <= implied <= upper,
    }


def limits(rows: float, reference: Reference, rules: Rules) -> tuple[float, float]:
    """Between which the implied accuracy of so many rows lies if nothing has drifted."""
    if rules.limits is not None:
        return rules.limits
    half = reference.spread.half_width(rows, rules.false_alarms)
    return reference.spread.mean - half, reference.spread.mean + half
