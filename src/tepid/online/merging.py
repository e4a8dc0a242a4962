"""Replicas of one service: what each has seen, taken together."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from tepid.errors import InputError
from tepid.online.reference import Reference
from tepid.online.rules import Rules
from tepid.online.state import Chunk, State, closed, judged, trimmed
from tepid.online.sums import Sums

if TYPE_CHECKING:
    from tepid.online.monitor import Monitor


def check_same(a: "Monitor", b: "Monitor") -> None:
    """Refuse monitors that do not judge by the same reference and rules."""
    one, two = a.reference.fingerprint, b.reference.fingerprint
    if one != two:
        raise InputError(f"monitors must share their reference, got {one} and {two}")
    for field in dataclasses.fields(Rules):
        first, second = getattr(a.rules, field.name), getattr(b.rules, field.name)
        if first != second and field.name != "seed":
            raise InputError(f"monitors must share their {field.name}, got {first} and {second}")


def merged(a: State, b: State, reference: Reference, rules: Rules) -> State:
    """The state of one monitor that has seen the rows of both.

    Periods that both have closed become one, judged afresh, without an estimated temperature, for
    which more than its sums would have to be remembered. Chunks of so many rows stay as they are,
    in the order of time; the open ones become one, which may hold more rows than others.
    """
    if reference.period is not None:
        a, b = _level(a, b, reference, rules)
    history = _histories(a, b, reference)
    joins = len(a.history) + len(b.history) - len(history)
    count = a.closed + b.closed - joins
    alerts = a.alerts + b.alerts + _alerts(history, reference, rules)
    alerts -= _alerts((*a.history, *b.history), reference, rules)
    numbered = [
        dataclasses.replace(chunk, index=float(count - len(history) + place))
        for place, chunk in enumerate(history)
    ]
    state = State(
        open=a.open + b.open,
        recent=_recent(a, b, reference, rules),
        start=float(np.fmin(a.start, b.start)),
        end=float(np.fmax(a.end, b.end)),
        seen=a.seen + b.seen,
        kept=a.kept + b.kept,
        closed=count,
        alerts=alerts,
        history=tuple(numbered),
    )
    full = reference.chunk is not None and state.open.weight >= reference.chunk
    return trimmed(closed(state, reference, rules) if full else state, rules)


def _level(a: State, b: State, reference: Reference, rules: Rules) -> tuple[State, State]:
    """Both with their open chunk in the same period, the earlier one closed."""
    period = reference.period or 1.0
    if not (a.open.weight and b.open.weight) or a.start // period == b.start // period:
        return a, b
    if a.start < b.start:
        return closed(a, reference, rules), b
    return a, closed(b, reference, rules)


def _histories(a: State, b: State, reference: Reference) -> list[Chunk]:
    chunks = sorted((*a.history, *b.history), key=lambda chunk: (chunk.end, chunk.start))
    if reference.period is None:
        return chunks
    by_period: dict[float, Chunk] = {}
    for chunk in chunks:
        period = chunk.start // reference.period
        same = by_period.get(period)
        by_period[period] = chunk if same is None else same.joined(chunk)
    return [by_period[period] for period in sorted(by_period)]


def _recent(a: State, b: State, reference: Reference, rules: Rules) -> Sums:
    """Both windows; where each is its last period, those of the same period alone."""
    if reference.period is None or rules.keep or not (a.history and b.history):
        return a.recent + b.recent
    one, two = (state.history[-1].start // reference.period for state in (a, b))
    if one == two:
        return a.recent + b.recent
    return a.recent if one > two else b.recent


def _alerts(chunks: tuple[Chunk, ...] | list[Chunk], reference: Reference, rules: Rules) -> int:
    return sum(judged(chunk, reference, rules)["alert"] for chunk in chunks)
