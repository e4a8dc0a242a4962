"""How a batch joins the chunks: cut where one is full, or put into the period of its time."""

import datetime
import math
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tepid.errors import InputError, RowError
from tepid.online.reference import Reference
from tepid.online.rules import Rules
from tepid.online.state import State, closed, joined
from tepid.online.sums import Sums
from tepid.scalars import number


@dataclass(frozen=True)
class Batch:
    """Logits, and the sums of their parts as they were cut for so much room in the open chunk."""

    logits: Any
    room: float
    parts: list[Sums]


def batch_of(logits: Any, reference: Reference, state: State) -> Batch:
    """A batch of logits; the work that needs no lock, for the state as it looks now."""
    room = _room(state, reference)
    return Batch(logits, room, _cut(logits, room, reference))


def fed(state: State, reference: Reference, rules: Rules, batch: Batch, moment: float) -> State:
    """The state with a batch in it, and with the chunks closed that it filled or came after."""
    if reference.period is not None:
        return _by_period(state, reference, rules, batch, moment)
    for part in _parts(state, reference, batch):
        state = joined(state, part, moment)
        if state.open.weight >= (reference.chunk or math.inf):
            state = closed(state, reference, rules)
    return state


def _by_period(
    state: State, reference: Reference, rules: Rules, batch: Batch, moment: float
) -> State:
    period = reference.period or math.inf
    if state.open.weight:
        if moment // period > state.start // period:
            state = closed(state, reference, rules)
        else:  # a late batch does not move the chunk into the past
            moment = max(moment, state.start // period * period)
    for sums in batch.parts:  # one, or none of an empty batch
        state = joined(state, sums, moment)
    return state


def _room(state: State, reference: Reference) -> float:
    """How many rows the open chunk still takes."""
    return (reference.chunk or math.inf) - round(state.open.weight)


def _parts(state: State, reference: Reference, batch: Batch) -> list[Sums]:
    """The parts of a batch, cut again where another thread has fed the chunk in between."""
    room = _room(state, reference)
    fits = len(batch.logits) <= min(room, batch.room)
    return batch.parts if fits or room == batch.room else _cut(batch.logits, room, reference)


def _cut(logits: Any, room: float, reference: Reference) -> list[Sums]:
    n = len(logits)
    if n <= room:
        return [reference.layout.of(logits)] if n else []
    cuts = [0, *range(int(room), n, reference.chunk or n), n]
    return [_part(logits, start, end, reference) for start, end in pairwise(cuts)]


def _part(logits: Any, start: int, end: int, reference: Reference) -> Sums:
    try:
        return reference.layout.of(logits[start:end])
    except RowError as error:
        raise error.moved(start) from None


def seconds(moment: float | datetime.datetime | None) -> float:
    """A time in seconds since 1970; None is now."""
    if moment is None:
        return time.time()
    if isinstance(moment, datetime.datetime):
        return moment.timestamp()
    value = number(moment, "time")
    if not math.isfinite(value):
        raise InputError(f"time must be a finite number of seconds, got {moment}")
    return value
