"""The monitor: compares the logits that are served with a reference."""

import datetime
import math
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import lru_cache, reduce
from time import time as now
from typing import Any

import numpy as np

from tepid.errors import InputError, RowError
from tepid.online import files
from tepid.online.files import Outputs
from tepid.online.reference import (
    Chunks,
    Reference,
    Rules,
    check_batch,
    summarize_reference,
    take_rows,
)
from tepid.online.state import (
    ROW,
    State,
    add_batch,
    close_chunk,
    cut_batch,
    initial_state,
    judge,
    merge_states,
    trim_history,
)
from tepid.online.sums import Sums, estimate_temperature
from tepid.temperature import Temperature
from tepid.validation import Float64, Int64, number

# Constants of the SplitMix64 hash.
_U64 = np.uint64
_GOLDEN, _FIRST = _U64(0x9E3779B97F4A7C15), _U64(0xBF58476D1CE4E5B9)
_SECOND, _ALL = _U64(0x94D049BB133111EB), (1 << 64) - 1
# Rows are sampled in blocks of this size: a batch of one row must not pay for its own hash.
_BLOCK = 1 << 14


class Monitor:
    """Watches unlabeled logits as they are served, in constant memory, from any thread.

    Rows are collected in chunks of a number of rows or of a period. When a chunk is full, its mean
    confidence at the served temperature, the implied accuracy, is compared with the chunks of a
    reference. A chunk is judged once, when it closes.

    The monitor detects what changes confidence, and nothing else. It never changes the temperature:
    `estimate` returns one that a person may decide to serve.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> monitor = Monitor.from_reference(3 * rng.normal(size=(5000, 10)), 1.5, chunk=500)
    >>> [row["alert"] for row in monitor.update(3 * rng.normal(size=(1000, 10)))]
    [False, False]
    >>> [row["alert"] for row in monitor.update(2 * rng.normal(size=(500, 10)))]
    [True]
    """

    def __init__(
        self,
        reference: Reference,
        rules: Rules | None = None,
        outputs: Outputs | None = None,
        state: State | None = None,
    ) -> None:
        self.reference = reference
        self.rules = rules or Rules(reestimate=reference.reestimate, bins=reference.bins)
        self.outputs = outputs or Outputs()
        self._state = state or initial_state(reference)
        self._batches = self._saved = 0
        self._merging, self._saving = threading.Lock(), threading.Lock()
        if self.outputs.log is not None:
            files.repair_log(self.outputs.log)

    @classmethod
    def from_reference(
        cls,
        reference_logits: Any,
        temperature: float | Temperature,
        *,
        chunk: int | None = None,
        period: float | None = None,
        times: Any = None,
        rules: Rules | None = None,
        outputs: Outputs | None = None,
    ) -> "Monitor":
        """Return a monitor that compares with logits from a time when all was well.

        The reference should resemble the rows that will be served, in their order in time, and not
        be the training rows. It is cut as the served rows will be: into chunks of `chunk` rows or,
        with `times` in seconds, into periods of `period` seconds. At least two chunks are needed,
        and with few chunks the limits are wide.
        """
        rules = rules or Rules()
        chunks = Chunks(chunk, period, times)
        reference = summarize_reference(
            reference_logits, temperature, chunks, bins=rules.bins, reestimate=rules.reestimate
        )
        return cls(reference, rules, outputs)

    def update(
        self, logits: Any, time: float | datetime.datetime | None = None
    ) -> list[dict[str, Any]]:
        """Add a batch (n, k), and return the rows of the chunks that it closed, mostly none.

        `time`, in seconds or a datetime, is now by default. A batch belongs to one time. A batch
        that comes after its period was closed counts in the open one, and an empty batch lets time
        pass. A batch with an unusable row is refused as a whole.
        """
        z = check_batch(logits, self.reference.classes)
        moment = _to_seconds(time)
        n = int(z.shape[0])
        start = self._count_rows(n)
        chosen = None if self.rules.sample == 1 else sample_rows(start, n, self.rules)
        try:
            looked_at = z if chosen is None else take_rows(z, chosen)
            batch = cut_batch(looked_at, self.reference, self._state)
            return self._apply(
                lambda state: add_batch(state, self.reference, self.rules, batch, moment)
            )
        except RowError as error:
            self._count_rows(-n)
            row = error.row if chosen is None else int(chosen[error.row])
            raise error.moved(row - error.row) from None

    def finish(self) -> list[dict[str, Any]]:
        """Close the open chunk as it is, and return its row; none if no row is in it."""

        def close(state: State) -> State:
            open_rows = state.open.weight
            return close_chunk(state, self.reference, self.rules) if open_rows else state

        return self._apply(close)

    def _count_rows(self, rows: int) -> int:
        with self._merging:
            before = self._state.seen
            self._state = self._state._replace(seen=before + rows)
        return before

    def _apply(self, change: Callable[[State], State]) -> list[dict[str, Any]]:
        with self._merging:
            state = change(self._state)
            new = state.closed - self._state.closed
            chunks = state.history[-new:] if new else ()
            rows = [judge(chunk, self.reference, self.rules) for chunk in chunks]
            self._state = trim_history(state, self.rules) if new else state
            self._batches += 1
            if self.outputs.log is not None:
                for row in rows:
                    files.append_log(self.outputs.log, row)
        self._autosave()
        return rows

    def _autosave(self) -> None:
        path, every = self.outputs.autosave, self.outputs.every
        if path is None or self._batches - self._saved < every:
            return
        with self._saving:
            # Another thread may have saved this batch with its own.
            if self._batches - self._saved >= every:
                self._save(path)

    def _save(self, path: str | os.PathLike[str]) -> None:
        with self._merging:
            state, number = self._state, self._batches
        files.save_state(path, self.reference, self.rules, state)
        self._saved = number

    @property
    def history(self) -> list[dict[str, Any]]:
        """A row for each closed chunk, the oldest first, at most `Rules.remember`."""
        return [judge(c, self.reference, self.rules) for c in self._state.history]

    @property
    def window(self) -> Sums:
        """The rows judged last or, before the first chunk has closed, those of the open chunk."""
        state = self._state
        return state.recent if state.closed else state.open

    @property
    def histogram(self) -> tuple[Float64, Float64]:
        """The edges of the bins of confidence, and the share of recent rows in each."""
        recent = self.window
        share = recent.histogram / recent.weight if recent.weight else recent.histogram
        return np.arange(self.reference.bins + 1) / self.reference.bins, share

    @property
    def thresholds(self) -> Float64:
        r"""$\theta_k$ of the recent rows, to be compared with those of `reference`."""
        return self.window.tails.thresholds()

    def estimate(self) -> Temperature:
        """Return the temperature of the recent rows by UTS, with the thresholds of the reference.

        It is computed from their sums, to a precision of .006. Logits do not identify a
        temperature: compare with `reference.estimate`, and read the warnings before serving it.
        """
        if not self.reference.reestimate:
            raise InputError("rules must have reestimate=True for an estimate, got False")
        if not self.window.weight:
            raise InputError("monitor must have seen a row for an estimate, got none")
        return estimate_temperature(self.window)

    def reading(self) -> dict[str, Any]:
        """Return the row of the last closed chunk, with None if there is none, and the counts."""
        state = self._state
        last = judge(state.history[-1], self.reference, self.rules) if state.history else {}
        return (
            dict.fromkeys(ROW)
            | last
            | {
                "temperature": self.reference.temperature,
                "rows_total": state.seen,
                "rows_kept": state.kept,
                "rows_open": round(state.open.weight),
                "chunks_total": state.closed,
                "alerts_total": state.alerts,
            }
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to `.npz`, atomically."""
        with self._saving:  # so that an older state never replaces a newer one
            files.save_state(path, self.reference, self.rules, self._state)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, outputs: Outputs | None = None) -> "Monitor":
        """Return the monitor that `save` wrote; raises `InputError` if the file is damaged."""
        reference, rules, state = files.load_state(path)
        return cls(reference, rules, outputs, state)

    def __add__(self, other: "Monitor") -> "Monitor":
        """Return what both replicas have seen; refuses replicas with different references."""
        _check_mergeable(self, other)
        state = merge_states(self._state, other._state, self.reference, self.rules)
        return Monitor(self.reference, self.rules, state=state)

    @classmethod
    def merged(cls, monitors: Iterable["Monitor"]) -> "Monitor":
        """Return what all replicas have seen, by `+`."""
        parts = list(monitors)
        if not parts:
            raise InputError("monitors must be one or more, got none")
        return reduce(lambda a, b: a + b, parts)


def _check_mergeable(a: Monitor, b: Monitor) -> None:
    """Refuse monitors that do not judge by the same reference and rules."""
    one, two = a.reference.fingerprint, b.reference.fingerprint
    if one != two:
        raise InputError(f"monitors must share their reference, got {one} and {two}")
    for field in fields(Rules):
        first, second = getattr(a.rules, field.name), getattr(b.rules, field.name)
        if first != second and field.name != "seed":
            raise InputError(f"monitors must share their {field.name}, got {first} and {second}")


def _to_seconds(moment: float | datetime.datetime | None) -> float:
    """A time in seconds since 1970; None is now."""
    if moment is None:
        return now()
    if isinstance(moment, datetime.datetime):
        return moment.timestamp()
    value = number(moment, "time")
    if not math.isfinite(value):
        raise InputError(f"time must be a finite number of seconds, got {moment}")
    return value


def sample_rows(start: int, count: int, rules: Rules) -> Int64:
    """Return the places of the sampled rows among rows `start`, `start + 1`, … of a stream.

    Row i is in the sample if a hash of the seed and i (SplitMix64) is below `rules.sample`. So the
    sample does not depend on how the rows are batched, and only their count must be stored.
    """
    end = start + count
    blocks = range(start // _BLOCK, max(end - 1, start) // _BLOCK + 1)
    parts = [_sample_block(block, rules.sample, rules.seed) for block in blocks]
    numbers = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return numbers[numbers.searchsorted(start) : numbers.searchsorted(end)] - start


@lru_cache(maxsize=16)
def _sample_block(block: int, sample: float, seed: int) -> Int64:
    """The numbers of the sampled rows of a block."""
    numbers = np.arange(block * _BLOCK, (block + 1) * _BLOCK, dtype=np.uint64)
    hashed = (numbers + _U64((seed * int(_SECOND)) & _ALL)) * _GOLDEN
    hashed = (hashed ^ (hashed >> _U64(30))) * _FIRST
    hashed = (hashed ^ (hashed >> _U64(27))) * _SECOND
    uniform = ((hashed ^ (hashed >> _U64(31))) >> _U64(11)).astype(np.float64) * 2.0**-53
    return numbers[uniform < sample].astype(np.int64)
