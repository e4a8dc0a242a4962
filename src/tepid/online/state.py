"""The state of a monitor as a frozen value, and the functions that add batches and merge states."""

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tepid.errors import RowError
from tepid.online.reference import Reference, Rules
from tepid.online.sums import Sums

# The columns of a history; those of accepted rows are None without a threshold.
_ACCEPTED = (
    "accepted_share", "accepted_lower", "accepted_upper", "accepted_drift", "expected_precision",
)  # fmt: skip
COLUMNS = (
    "chunk", "start", "end", "rows", "temperature", "estimated_temperature", "mean_confidence",
    "implied_accuracy", "lower", "upper", "drift", *_ACCEPTED, "alert",
)  # fmt: skip


class Chunk(NamedTuple):
    """A closed chunk, and the sums of the recent window when it closed.

    All are floats, so that a history is a table of them. `accepted` and `accepted_confidence` are
    zero without a threshold, and `estimate` is NaN where no temperature was requested or found.
    """

    start: float
    end: float
    rows: float
    weight: float
    squares: float
    confidence: float
    raw_confidence: float
    accepted: float
    accepted_confidence: float
    estimate: float

    def merge(self, other: "Chunk") -> "Chunk":
        """Return the same period as two replicas saw it.

        Without an estimated temperature, which would need more than the sums in a history.
        """
        added = Chunk(*np.add(self, other).tolist())
        start, end = min(self.start, other.start), max(self.end, other.end)
        return added._replace(start=start, end=end, estimate=math.nan)


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


def room_of(state: State, reference: Reference) -> float:
    """Return the number of rows that the open chunk still takes."""
    return (reference.chunk or math.inf) - round(state.open.weight)


def sum_chunks(logits: Any, room: float, reference: Reference) -> list[Sums]:
    """Return the sums of a batch, cut where a chunk that has `room` for some rows is full."""
    n = int(logits.shape[0])
    inner = range(int(room), n, reference.chunk or n) if n > room else ()
    cuts = [0, *inner, n] if n else []
    parts = []
    for start, end in pairwise(cuts):
        try:
            parts.append(reference.layout.of(logits[start:end]))
        except RowError as error:
            raise error.moved(start) from None
    return parts


def add_batch(
    state: State, parts: list[Sums], moment: float, reference: Reference, rules: Rules
) -> State:
    """Return the state with the sums of a batch in it; chunks that are complete are closed."""
    if reference.period is not None and state.open.weight:
        period = state.start // reference.period
        if moment // reference.period > period:
            state = close_chunk(state, reference, rules)
        else:  # a late batch does not move the chunk into the past
            moment = max(moment, period * reference.period)
    for part in parts:
        fresh = not state.open.weight
        state = state._replace(
            open=state.open + part,
            start=moment if fresh else min(state.start, moment),
            end=moment if fresh else max(state.end, moment),
            kept=state.kept + round(part.weight),
        )
        if room_of(state, reference) <= 0:
            state = close_chunk(state, reference, rules)
    return state


def close_chunk(state: State, reference: Reference, rules: Rules) -> State:
    """Return the state with its open chunk, if it has rows, closed, judged and in the history."""
    if not state.open.weight:
        return state
    recent = state.open if not rules.keep else rules.keep * state.recent + state.open
    found = recent.estimated_value() if reference.reestimate else None
    chunk = Chunk(
        start=state.start,
        end=state.end,
        rows=state.open.weight,
        weight=recent.weight,
        squares=recent.squares,
        confidence=recent.confidence,
        raw_confidence=recent.raw_confidence,
        accepted=recent.accepted,
        accepted_confidence=recent.accepted_confidence,
        estimate=math.nan if found is None else found,
    )
    return state._replace(
        open=reference.layout.zero(),
        recent=recent,
        start=math.nan,
        end=math.nan,
        closed=state.closed + 1,
        alerts=state.alerts + judge(chunk, reference, rules)["alert"],
        history=(*state.history, chunk),
    )


def trim_history(state: State, rules: Rules) -> State:
    """Return the state with the last `rules.remember` chunks in its history."""
    return state._replace(history=state.history[-rules.remember :])


def make_table(state: State, reference: Reference, rules: Rules, last: int) -> list[dict[str, Any]]:
    """Return the `last` chunks of the history as rows of a table."""
    chunks = state.history[max(len(state.history) - last, 0) :]
    numbered = enumerate(chunks, state.closed - len(chunks))
    return [{"chunk": number} | judge(chunk, reference, rules) for number, chunk in numbered]


def judge(chunk: Chunk, reference: Reference, rules: Rules) -> dict[str, Any]:
    """Return what is known of a closed chunk, with the limits that it was compared with."""
    implied = chunk.confidence / chunk.weight
    rows, rate = chunk.weight**2 / chunk.squares, _alarms_per_limit(reference, rules)
    lower, upper = rules.limits or reference.spread.limits(rows, rate)
    judged = {
        "start": chunk.start,
        "end": chunk.end,
        "rows": round(chunk.rows),
        "temperature": reference.temperature,
        "estimated_temperature": None if math.isnan(chunk.estimate) else chunk.estimate,
        "mean_confidence": chunk.raw_confidence / chunk.weight,
        "implied_accuracy": implied,
        "lower": lower,
        "upper": upper,
        "drift": _drift(implied, lower, upper),
        **dict.fromkeys(_ACCEPTED),
        "alert": not lower <= implied <= upper,
    }
    if reference.accepted is None:
        return judged
    share = chunk.accepted / chunk.weight
    lower, upper = rules.accepted_limits or reference.accepted.limits(rows, rate)
    sure = chunk.accepted_confidence / chunk.accepted if chunk.accepted else None
    found = (share, lower, upper, _drift(share, lower, upper), sure)
    alert = judged["alert"] or not lower <= share <= upper
    return judged | dict(zip(_ACCEPTED, found, strict=True)) | {"alert": alert}


def _drift(value: float, lower: float, upper: float) -> float:
    """Where between its limits a value lies, from -1 to 1."""
    return (2 * value - upper - lower) / (upper - lower)


def _alarms_per_limit(reference: Reference, rules: Rules) -> float:
    """The rate of false alarms of each pair of limits: half, where the reference sets two."""
    accepted = reference.accepted is not None and rules.accepted_limits is None
    return rules.false_alarms / (2 if accepted and rules.limits is None else 1)


# Replicas.


def merge_states(a: State, b: State, reference: Reference, rules: Rules) -> State:
    """Return the state of one monitor that has seen the rows of both.

    Periods that both have closed become one, judged again. Chunks of a number of rows stay as they
    are, in the order of time; the two open ones become one, which may hold more rows than others.
    """
    if reference.period is not None:
        a, b = _align_periods(a, b, reference, rules)
    both = sorted((*a.history, *b.history), key=lambda chunk: (chunk.end, chunk.start))
    history = both if reference.period is None else _merge_periods(both, reference.period)
    judged_again = _count_alerts(history, reference, rules) - _count_alerts(both, reference, rules)
    state = State(
        open=a.open + b.open,
        recent=_merge_windows(a, b, reference, rules),
        start=float(np.fmin(a.start, b.start)),
        end=float(np.fmax(a.end, b.end)),
        seen=a.seen + b.seen,
        kept=a.kept + b.kept,
        closed=a.closed + b.closed - (len(both) - len(history)),
        alerts=a.alerts + b.alerts + judged_again,
        history=tuple(history),
    )
    if room_of(state, reference) <= 0:
        state = close_chunk(state, reference, rules)
    return trim_history(state, rules)


def _align_periods(a: State, b: State, reference: Reference, rules: Rules) -> tuple[State, State]:
    """Both states with their open chunk in the same period, the earlier one closed."""
    period = reference.period or 1.0
    if a.start // period < b.start // period:  # NaN, of an empty chunk, is neither
        a = close_chunk(a, reference, rules)
    elif b.start // period < a.start // period:
        b = close_chunk(b, reference, rules)
    return a, b


def _merge_periods(chunks: list[Chunk], period: float) -> list[Chunk]:
    merged: dict[float, Chunk] = {}
    for chunk in chunks:
        number = chunk.start // period
        merged[number] = merged[number].merge(chunk) if number in merged else chunk
    return [merged[number] for number in sorted(merged)]


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
