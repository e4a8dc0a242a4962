"""The state of a monitor as a frozen value, and the functions that add batches and merge states."""

import dataclasses
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tepid.errors import RowError
from tepid.online.reference import Reference, Rules
from tepid.online.sums import Sums, estimate_value

# The columns of a history.
ROW = (
    "chunk", "start", "end", "rows", "temperature", "estimated_temperature", "mean_confidence",
    "implied_accuracy", "lower", "upper", "drift", "alert",
)  # fmt: skip


@dataclass(frozen=True)
class Chunk:
    """A closed chunk, and the sums of the recent window when it closed.

    All are plain numbers, so that a history is a table of them. `estimate` is NaN where no
    temperature was requested or found.
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

    def merge(self, other: "Chunk") -> "Chunk":
        """Return the same period as two replicas saw it."""
        sums = ("rows", "weight", "squares", "confidence", "raw_confidence")
        added = {name: getattr(self, name) + getattr(other, name) for name in sums}
        start, end = min(self.start, other.start), max(self.end, other.end)
        return dataclasses.replace(self, start=start, end=end, estimate=math.nan, **added)


class State(NamedTuple):
    """The open chunk, the recent window, the counts and the history.

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


def initial_state(reference: Reference) -> State:
    """Return the state before the first row."""
    zero = reference.layout.zero()
    return State(zero, zero)


def add_sums(state: State, sums: Sums, moment: float) -> State:
    """Return the state with more rows in the open chunk."""
    fresh = math.isnan(state.start)
    return state._replace(
        open=state.open + sums,
        start=moment if fresh else min(state.start, moment),
        end=moment if fresh else max(state.end, moment),
        kept=state.kept + round(sums.weight),
    )


def close_chunk(state: State, reference: Reference, rules: Rules) -> State:
    """Return the state with its open chunk closed, judged and entered in the history."""
    recent = state.open if not rules.keep else rules.keep * state.recent + state.open
    found = estimate_value(recent) if reference.reestimate else None
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
    alert = judge(chunk, reference, rules)["alert"]
    return state._replace(
        open=reference.layout.zero(),
        recent=recent,
        start=math.nan,
        end=math.nan,
        closed=state.closed + 1,
        alerts=state.alerts + alert,
        history=(*state.history, chunk),
    )


def trim_history(state: State, rules: Rules) -> State:
    """Return the state with the last `rules.remember` chunks in its history."""
    return state._replace(history=state.history[-rules.remember :])


def judge(chunk: Chunk, reference: Reference, rules: Rules) -> dict[str, Any]:
    """Return a closed chunk as a row of a table, with the limits that it was compared with."""
    implied = chunk.confidence / chunk.weight
    lower, upper = _limits(chunk.weight**2 / chunk.squares, reference, rules)
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


def _limits(rows: float, reference: Reference, rules: Rules) -> tuple[float, float]:
    """The interval for the implied accuracy of so many rows if nothing has drifted."""
    if rules.limits is not None:
        return rules.limits
    half = reference.spread.half_width(rows, rules.false_alarms)
    return reference.spread.mean - half, reference.spread.mean + half


# Batches.


@dataclass(frozen=True)
class Batch:
    """Logits, and the sums of their parts, cut for `room` rows in the open chunk."""

    logits: Any
    room: float
    parts: list[Sums]


def cut_batch(logits: Any, reference: Reference, state: State) -> Batch:
    """Return a batch for the state as it is now. This is the work that needs no lock."""
    room = _room(state, reference)
    return Batch(logits, room, _cut(logits, room, reference))


def add_batch(
    state: State, reference: Reference, rules: Rules, batch: Batch, moment: float
) -> State:
    """Return the state with a batch in it, and with the chunks closed that the batch completed."""
    if reference.period is not None:
        return _add_to_period(state, reference, rules, batch, moment)
    for part in _parts(state, reference, batch):
        state = add_sums(state, part, moment)
        if state.open.weight >= (reference.chunk or math.inf):
            state = close_chunk(state, reference, rules)
    return state


def _add_to_period(
    state: State, reference: Reference, rules: Rules, batch: Batch, moment: float
) -> State:
    period = reference.period or math.inf
    if state.open.weight:
        if moment // period > state.start // period:
            state = close_chunk(state, reference, rules)
        else:  # a late batch does not move the chunk into the past
            moment = max(moment, state.start // period * period)
    for sums in batch.parts:  # one, or none of an empty batch
        state = add_sums(state, sums, moment)
    return state


def _room(state: State, reference: Reference) -> float:
    """The number of rows that the open chunk still takes."""
    return (reference.chunk or math.inf) - round(state.open.weight)


def _parts(state: State, reference: Reference, batch: Batch) -> list[Sums]:
    """The parts of a batch, cut again if another thread has added to the chunk meanwhile."""
    room = _room(state, reference)
    fits = int(batch.logits.shape[0]) <= min(room, batch.room)
    return batch.parts if fits or room == batch.room else _cut(batch.logits, room, reference)


def _cut(logits: Any, room: float, reference: Reference) -> list[Sums]:
    n = int(logits.shape[0])
    if n <= room:
        return [reference.layout.of(logits)] if n else []
    cuts = [0, *range(int(room), n, reference.chunk or n), n]
    return [_part(logits, start, end, reference) for start, end in pairwise(cuts)]


def _part(logits: Any, start: int, end: int, reference: Reference) -> Sums:
    try:
        return reference.layout.of(logits[start:end])
    except RowError as error:
        raise error.moved(start) from None


# Replicas.


def merge_states(a: State, b: State, reference: Reference, rules: Rules) -> State:
    """Return the state of one monitor that has seen the rows of both.

    Periods that both have closed become one, judged again, without an estimated temperature, which
    would need more than the sums in a history. Chunks of a number of rows stay as they are, in the
    order of time; the two open ones become one, which may hold more rows than others.
    """
    if reference.period is not None:
        a, b = _align_periods(a, b, reference, rules)
    history = _merge_histories(a, b, reference)
    joins = len(a.history) + len(b.history) - len(history)
    count = a.closed + b.closed - joins
    alerts = a.alerts + b.alerts + _count_alerts(history, reference, rules)
    alerts -= _count_alerts([*a.history, *b.history], reference, rules)
    numbered = [
        dataclasses.replace(chunk, index=float(count - len(history) + place))
        for place, chunk in enumerate(history)
    ]
    state = State(
        open=a.open + b.open,
        recent=_merge_windows(a, b, reference, rules),
        start=float(np.fmin(a.start, b.start)),
        end=float(np.fmax(a.end, b.end)),
        seen=a.seen + b.seen,
        kept=a.kept + b.kept,
        closed=count,
        alerts=alerts,
        history=tuple(numbered),
    )
    full = reference.chunk is not None and state.open.weight >= reference.chunk
    return trim_history(close_chunk(state, reference, rules) if full else state, rules)


def _align_periods(a: State, b: State, reference: Reference, rules: Rules) -> tuple[State, State]:
    """Both states with their open chunk in the same period, the earlier one closed."""
    period = reference.period or 1.0
    if not (a.open.weight and b.open.weight) or a.start // period == b.start // period:
        return a, b
    if a.start < b.start:
        return close_chunk(a, reference, rules), b
    return a, close_chunk(b, reference, rules)


def _merge_histories(a: State, b: State, reference: Reference) -> list[Chunk]:
    chunks = sorted((*a.history, *b.history), key=lambda chunk: (chunk.end, chunk.start))
    if reference.period is None:
        return chunks
    by_period: dict[float, Chunk] = {}
    for chunk in chunks:
        period = chunk.start // reference.period
        same = by_period.get(period)
        by_period[period] = chunk if same is None else same.merge(chunk)
    return [by_period[period] for period in sorted(by_period)]


def _merge_windows(a: State, b: State, reference: Reference, rules: Rules) -> Sums:
    """Both windows; where each is its last period, only windows of the same period are added."""
    if reference.period is None or rules.keep or not (a.history and b.history):
        return a.recent + b.recent
    one, two = (state.history[-1].start // reference.period for state in (a, b))
    if one == two:
        return a.recent + b.recent
    return a.recent if one > two else b.recent


def _count_alerts(chunks: list[Chunk], reference: Reference, rules: Rules) -> int:
    return sum(judge(chunk, reference, rules)["alert"] for chunk in chunks)
