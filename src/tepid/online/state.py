"""What a monitor has seen: the open chunk, the recent window and the history, and their file."""

import copy
import dataclasses
import math
import os
from collections import deque
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from tepid import store
from tepid.errors import InputError
from tepid.online.reference import LARGEST_COUNT, Reference, Rules, Spread
from tepid.online.sums import Sums
from tepid.store import shorten
from tepid.validation import Float64, check_bins

# The columns of a history; those of accepted rows are None without a threshold.
_ACCEPTED = (
    "accepted_share", "accepted_lower", "accepted_upper", "accepted_drift", "expected_precision",
)  # fmt: skip
COLUMNS = (
    "chunk", "start", "end", "rows", "temperature", "estimated_temperature", "mean_confidence",
    "implied_accuracy", "lower", "upper", "drift", *_ACCEPTED, "alert",
)  # fmt: skip
Row = dict[str, Any]


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


class State:
    """The open chunk, the recent window, the counts and the history of a monitor.

    `start` and `end` are the times of the first and last batch of the open chunk, NaN while it is
    empty; `seen` counts the rows served, `kept` those that were looked at.
    """

    def __init__(self, reference: Reference, rules: Rules) -> None:
        self.reference, self.rules = reference, rules
        self.open = self.recent = reference.layout.zero()
        self.start = self.end = math.nan
        self.seen = self.kept = self.closed = self.alerts = 0
        self.history: deque[Chunk] = deque(maxlen=rules.remember)

    def copy(self) -> "State":
        """Return the same state with a history of its own, which has no limit."""
        copied = copy.copy(self)
        copied.history = deque(self.history)
        return copied

    @property
    def room(self) -> float:
        """The number of rows that the open chunk still takes."""
        return (self.reference.chunk or math.inf) - round(self.open.weight)

    @property
    def window(self) -> Sums:
        """The rows judged last or, before the first chunk has closed, those of the open chunk."""
        return self.recent if self.closed else self.open

    def add(self, parts: list[Sums], moment: float) -> list[Row]:
        """Add the sums of a batch, and return the rows of the chunks that it closed."""
        rows, period = [], self.reference.period
        if period is not None and self.open.weight:
            if moment // period > self.start // period:
                rows += self.close()
            else:  # a late batch does not move the chunk into the past
                moment = max(moment, self.start // period * period)
        for part in parts:
            fresh = not self.open.weight
            self.start = moment if fresh else min(self.start, moment)
            self.end = moment if fresh else max(self.end, moment)
            self.open = self.open + part
            self.kept += round(part.weight)
            if self.room <= 0:
                rows += self.close()
        return rows

    def close(self) -> list[Row]:
        """Close and judge the open chunk, and return its row; none if no row is in it."""
        if not self.open.weight:
            return []
        keep = self.rules.keep
        recent = keep * self.recent + self.open if keep else self.open
        found = recent.estimated_value() if self.reference.reestimate else None
        chunk = Chunk(
            start=self.start,
            end=self.end,
            rows=self.open.weight,
            weight=recent.weight,
            squares=recent.squares,
            confidence=recent.confidence,
            raw_confidence=recent.raw_confidence,
            accepted=recent.accepted,
            accepted_confidence=recent.accepted_confidence,
            estimate=math.nan if found is None else found,
        )
        row = {"chunk": self.closed} | judge(chunk, self.reference, self.rules)
        self.open, self.recent = self.reference.layout.zero(), recent
        self.start = self.end = math.nan
        self.history = self.history.copy()  # another state may share it
        self.history.append(chunk)
        self.closed += 1
        self.alerts += row["alert"]
        return [row]

    def table(self, last: int) -> list[Row]:
        """Return the `last` chunks of the history as rows of a table."""
        chunks = list(self.history)[-last:]
        numbered = enumerate(chunks, self.closed - len(chunks))
        return [{"chunk": n} | judge(chunk, self.reference, self.rules) for n, chunk in numbered]

    def __add__(self, other: "State") -> "State":
        """Return the state of one monitor that has seen the rows of both replicas.

        Periods that both have closed become one, judged again. Chunks of a number of rows stay as
        they are, in the order of time; the two open ones become one, which may hold more rows than
        others.
        """
        a, b, period = self.copy(), other.copy(), self.reference.period
        if period is not None:  # close the open chunk of the earlier period
            if a.start // period < b.start // period:  # NaN, of an empty chunk, is neither
                a.close()
            elif b.start // period < a.start // period:
                b.close()
        both = sorted((*a.history, *b.history), key=lambda chunk: (chunk.end, chunk.start))
        history = both if period is None else _merge_periods(both, period)
        total = State(self.reference, self.rules)
        total.open, total.recent = a.open + b.open, _merge_windows(a, b)
        total.start, total.end = float(np.fmin(a.start, b.start)), float(np.fmax(a.end, b.end))
        total.seen, total.kept = a.seen + b.seen, a.kept + b.kept
        total.closed = a.closed + b.closed - (len(both) - len(history))
        judged_again = self._count_alerts(history) - self._count_alerts(both)
        total.alerts = a.alerts + b.alerts + judged_again
        total.history.extend(history)
        if total.room <= 0:
            total.close()
        return total

    def _count_alerts(self, chunks: Iterable[Chunk]) -> int:
        return sum(judge(chunk, self.reference, self.rules)["alert"] for chunk in chunks)


def _merge_periods(chunks: list[Chunk], period: float) -> list[Chunk]:
    merged: dict[float, Chunk] = {}
    for chunk in chunks:
        number = chunk.start // period
        merged[number] = merged[number].merge(chunk) if number in merged else chunk
    return [merged[number] for number in sorted(merged)]


def _merge_windows(a: State, b: State) -> Sums:
    """Both windows; where each is its last period, only windows of the same period are added."""
    period = a.reference.period
    if period is None or a.rules.keep or not (a.history and b.history):
        return a.recent + b.recent
    one, two = (state.history[-1].start // period for state in (a, b))
    if one == two:
        return a.recent + b.recent
    return a.recent if one > two else b.recent


# Judging a chunk.


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


# The file.

_COUNTS = ("seen", "kept", "closed", "alerts")
# The other fields of Rules are those of the reference.
_RULES = (
    "false_alarms", "limits", "accepted_limits", "half_life", "sample", "seed", "remember",
)  # fmt: skip


def save_state(path: str | os.PathLike[str], state: State) -> None:
    """Write a monitor to `.npz`."""
    own = {name: getattr(state.rules, name) for name in _RULES}
    header = {
        "reference": state.reference.as_dict(),
        "rules": own,
        "counts": {name: getattr(state, name) for name in _COUNTS},
    }
    arrays = {
        "thresholds": state.reference.thresholds,
        "open": state.open.vector,
        "recent": state.recent.vector,
        "span": np.array([state.start, state.end]),
        "history": np.array(state.history, np.float64).reshape(-1, len(Chunk._fields)),
    }
    store.write(path, "Monitor", header, arrays)


def load_state(path: str | os.PathLike[str]) -> State:
    """Return what `save_state` wrote; raises `InputError` if the file is damaged."""
    kind, header, arrays = store.read(path, ("Monitor",))
    with store.checking(path, kind):
        _check_names("header", header, ("reference", "rules", "counts"))
        _check_names("arrays", arrays, ("thresholds", "open", "recent", "span", "history"))
        for name, array in arrays.items():
            if array.dtype != np.float64:
                raise InputError(f"{name} must be float64, got {array.dtype}")
        reference = _load_reference(header["reference"], arrays)
        state = State(reference, _load_rules(header["rules"], reference))
        _load_counts(state, header["counts"], arrays)
        return state


def _load_reference(fields: Any, arrays: store.Arrays) -> Reference:
    names = [f.name for f in dataclasses.fields(Reference) if f.init and f.name != "thresholds"]
    _check_names("reference", fields, names)
    if 3 * check_bins(fields["bins"]) > arrays["open"].size:
        # Checked before anything of this size is made.
        raise InputError(f"bins must fit the sums, got {shorten(fields['bins'])}")
    accepted = fields["accepted"]
    loaded = {
        "spread": _load_spread("spread", fields["spread"]),
        "accepted": None if accepted is None else _load_spread("accepted", accepted),
        "thresholds": arrays["thresholds"],
    }
    return Reference(**fields | loaded)


def _load_spread(name: str, fields: Any) -> Spread:
    _check_names(name, fields, [f.name for f in dataclasses.fields(Spread)])
    return Spread(**fields)


def _load_rules(fields: Any, reference: Reference) -> Rules:
    _check_names("rules", fields, _RULES)
    for name in ("limits", "accepted_limits"):
        limits = fields[name]
        fields[name] = tuple(limits) if isinstance(limits, list) else limits
    own = {name: getattr(reference, name) for name in ("bins", "reestimate", "threshold")}
    return Rules(**fields, **own)


def _load_counts(state: State, counts: Any, arrays: store.Arrays) -> None:
    _check_names("counts", counts, _COUNTS)
    for name in _COUNTS:
        store.check_count(name, counts[name])
        setattr(state, name, counts[name])
    if not state.kept <= state.seen <= LARGEST_COUNT >= state.closed:
        raise InputError(f"counts must be possible, got {shorten(counts)}")
    state.open = _load_sums("open", arrays["open"], state.reference)
    state.recent = _load_sums("recent", arrays["recent"], state.reference)
    span = arrays["span"]  # NaN of an empty chunk
    if state.open.weight or not np.array_equal(span, [np.nan, np.nan], equal_nan=True):
        store.check_numbers("span", span, (2,), high=span.ravel()[-1:])
    state.start, state.end = span.tolist()
    state.history.extend(_load_history(arrays["history"], state.closed))


def _load_sums(name: str, vector: Float64, reference: Reference) -> Sums:
    store.check_numbers(name, vector, (reference.layout.size,))
    sums = Sums(reference.layout, vector)
    sums.tails.check()
    sums.curve.check()
    store.check_numbers(name, sums.weight, (), 0.0, LARGEST_COUNT)
    store.check_numbers(name, vector[-2:], (2,), 0.0, sums.weight * (1 + 1e-6))
    return sums


def _load_history(table: Float64, closed: int) -> list[Chunk]:
    if table.ndim != 2 or table.shape[1] != len(Chunk._fields) or len(table) > closed:
        raise InputError(f"history must have the columns of a chunk, got shape {table.shape}")
    start, end, *sums, confidence, raw_confidence, accepted, sure, estimate = table.T
    shape, least, most = start.shape, np.nextafter(0.0, 1.0), float(LARGEST_COUNT)
    store.check_numbers("start", start, shape, high=end)
    store.check_numbers("end", end, shape)
    for name, column in zip(("rows", "weight", "squares"), sums, strict=True):
        store.check_numbers(name, column, shape, least, most)
    for column in (confidence, raw_confidence):
        store.check_numbers("confidence", column, shape, 0.0, sums[1] * (1 + 1e-6))
    store.check_numbers("accepted", accepted, shape, 0.0, sums[1] * (1 + 1e-6))
    store.check_numbers("accepted_confidence", sure, shape, 0.0, accepted * (1 + 1e-6))
    known = estimate[~np.isnan(estimate)]
    store.check_numbers("estimate", known, known.shape, least)
    return [Chunk(*row) for row in table.tolist()]


def _check_names(name: str, value: Any, names: Collection[str]) -> None:
    if not isinstance(value, dict) or value.keys() != set(names):
        got = sorted(value.keys() ^ names) if isinstance(value, dict) else type(value).__name__
        raise InputError(f"{name} must have the fields of a monitor, got a mismatch in {got}")
