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


@dataclass(frozen=True)
class Batch:
    """Logits with their sums, or without where they are sure to be cut."""

    logits: Any
    sums: Sums | None


def batch_of(logits: Any, reference: Reference) -> Batch:
    """A batch of logits; the work that needs no lock."""
    whole = reference.chunk is None or len(logits) <= reference.chunk
    return Batch(logits, reference.layout.of(logits) if whole else None)


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
    if batch.sums is None or not batch.sums.weight:
        return state
    return joined(state, batch.sums, moment)


def _parts(state: State, reference: Reference, batch: Batch) -> list[Sums]:
    chunk, n = reference.chunk or math.inf, len(batch.logits)
    room = int(chunk - round(state.open.weight))
    if not n:
        return []
    if batch.sums is not None and n <= room:
        return [batch.sums]
    cuts = [0, *range(room, n, int(chunk)), n]
    return [_part(batch.logits, start, end, reference) for start, end in pairwise(cuts)]


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
    value = float(moment)
    if not math.isfinite(value):
        raise InputError(f"time must be a finite number of seconds, got {moment}")
    return value
