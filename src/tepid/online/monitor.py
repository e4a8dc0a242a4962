"""The monitor: compares the logits that are served with a reference."""

import copy
import datetime
import json
import math
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import lru_cache, reduce
from itertools import pairwise
from pathlib import Path
from time import time as now
from typing import Any

import numpy as np

from tepid import shapes, store, validation
from tepid.errors import InputError, RowError
from tepid.online.reference import Reference, Rules, summarize_reference, take_rows
from tepid.online.state import COLUMNS, Row, State, load_state, save_state
from tepid.online.sums import Sums
from tepid.temperature import Temperature, warn_unreliable
from tepid.validation import Float64, Int64, number, replace_fields, whole

# Rows are sampled in blocks of this size: a batch of one row must not pay for its own generator.
_BLOCK = 1 << 14


@dataclass(frozen=True)
class Outputs:
    """Where a monitor writes while it runs.

    `autosave` is a file that holds the state after every `every` batches, written atomically: a
    process that is killed loses at most the batches since then. `log` is a file that gets one line
    of JSON for each chunk; only one process may write to it. A file that cannot be written is an
    error of the `update` that tried; its rows are counted all the same.
    """

    autosave: str | os.PathLike[str] | None = None
    every: int = 1
    log: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        replace_fields(self, every=whole(self.every, "every", 1))


class Monitor:
    """Watches unlabeled logits as they are served, in constant memory, from any thread.

    Rows are collected in chunks of a number of rows or of a period. When a chunk is full, its mean
    confidence at the served temperature, the implied accuracy, is compared with the chunks of a
    reference, and so is the share of accepted rows with `Rules(threshold=…)`. A chunk is judged
    once, when it closes.

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
        shared = ("reestimate", "bins", "threshold")
        self.rules = rules or Rules(**{name: getattr(reference, name) for name in shared})
        for name in shared:
            given, own = getattr(self.rules, name), getattr(reference, name)
            if given != own:
                raise InputError(f"{name} must be that of the reference, {own}, got {given}")
        self.outputs = outputs or Outputs()
        self._state = state or State(reference, self.rules)
        self._batches = self._saved = 0
        self._lock, self._saving = threading.Lock(), threading.Lock()
        if self.outputs.log is not None:
            _repair_log(self.outputs.log)

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
        reference = summarize_reference(
            reference_logits, temperature, rules, chunk=chunk, period=period, times=times
        )
        return cls(reference, rules, outputs)

    def update(self, logits: Any, time: float | datetime.datetime | None = None) -> list[Row]:
        """Add a batch (n, k), and return the rows of the chunks that it closed, mostly none.

        `time`, in seconds or a datetime, is now by default. A batch belongs to one time. A batch
        that comes after its period was closed counts in the open one, and an empty batch lets time
        pass. A batch with an unusable row is refused as a whole.
        """
        z = _check_batch(logits, self.reference.classes)
        moment = _to_seconds(time)
        n = int(z.shape[0])
        with self._lock:
            start, room = self._state.seen, self._state.room
            self._state.seen += n
        chosen = None if self.rules.sample == 1 else sample_rows(start, n, self.rules)
        z = z if chosen is None else take_rows(z, chosen)
        try:
            parts = _sum_chunks(z, room, self.reference)  # the work, which needs no lock
        except RowError as error:
            with self._lock:
                self._state.seen -= n
            row = error.row if chosen is None else int(chosen[error.row])
            raise error.moved(row - error.row) from None

        def add(state: State) -> list[Row]:
            left = state.room
            fits = left == room or int(z.shape[0]) <= min(left, room)
            # Cut again if another thread has added to the chunk meanwhile.
            return state.add(parts if fits else _sum_chunks(z, left, self.reference), moment)

        return self._change(add)

    def finish(self) -> list[Row]:
        """Close the open chunk as it is, and return its row; none if no row is in it."""
        return self._change(State.close)

    def _change(self, change: Callable[[State], list[Row]]) -> list[Row]:
        """Change the state, and write what the outputs ask for."""
        with self._lock:
            state = copy.copy(self._state)  # so that an interrupted change is none
            rows = change(state)
            self._state = state
            self._batches += 1
            if self.outputs.log is not None:
                for row in rows:
                    _append_log(self.outputs.log, row)
        if self.outputs.autosave is not None and self._is_due():
            with self._saving:
                if self._is_due():  # another thread may have saved this batch with its own
                    self._saved = self._write(self.outputs.autosave)
        return rows

    def _is_due(self) -> bool:
        return self._batches - self._saved >= self.outputs.every

    def _write(self, path: str | os.PathLike[str]) -> int:
        """Write the state, and return the number of batches in it."""
        with self._lock:
            state, batches = self._state.copy(), self._batches
        save_state(path, state)
        return batches

    def _snapshot(self) -> State:
        with self._lock:
            return self._state.copy()

    @property
    def history(self) -> list[Row]:
        """A row for each closed chunk, the oldest first, at most `Rules.remember`."""
        return self._snapshot().table(self.rules.remember)

    @property
    def window(self) -> Sums:
        """The rows judged last or, before the first chunk has closed, those of the open chunk."""
        with self._lock:
            return self._state.window

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
        self._check_estimate()
        return self.window.estimate()

    def calibrate(self, *, accuracy: Any = None, labeled: Any = None) -> Temperature:
        """Return the temperature of the recent rows by `tepid.calibrate`, with its verdict.

        `accuracy` is the model's accuracy on recent rows, and `labeled` a pair (logits, labels) of
        recent rows that a person has labeled, both as in `tepid.calibrate`.
        """
        self._check_estimate()
        found = self.window.calibrate(accuracy, labeled)
        warn_unreliable(found)
        return found

    def _check_estimate(self) -> None:
        if not self.reference.reestimate:
            raise InputError("rules must have reestimate=True for an estimate, got False")
        if not self.window.weight:
            raise InputError("monitor must have seen a row for an estimate, got none")

    def reading(self) -> Row:
        """Return the row of the last closed chunk, with None if there is none, and the counts."""
        state = self._snapshot()
        last = state.table(1)
        counts = {
            "temperature": self.reference.temperature,
            "rows_total": state.seen,
            "rows_kept": state.kept,
            "rows_open": round(state.open.weight),
            "chunks_total": state.closed,
            "alerts_total": state.alerts,
        }
        return (last[0] if last else dict.fromkeys(COLUMNS)) | counts

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to `.npz`, atomically."""
        with self._saving:  # so that an older state never replaces a newer one
            self._write(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, outputs: Outputs | None = None) -> "Monitor":
        """Return the monitor that `save` wrote; raises `InputError` if the file is damaged."""
        state = load_state(path)
        return cls(state.reference, state.rules, outputs, state)

    def __add__(self, other: "Monitor") -> "Monitor":
        """Return what both replicas have seen; refuses replicas with different references."""
        _check_mergeable(self, other)
        state = self._snapshot() + other._snapshot()
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


def _check_batch(logits: Any, classes: int) -> Any:
    """Return a batch of logits; refuse another number of classes than the reference's."""
    z = validation.as_array(logits)
    if z.ndim == 1 and classes > 2:
        must = f"be (n, {classes}), or logits[None] for one row"
        raise InputError(f"logits must {must}, got shape {tuple(z.shape)}")
    z = shapes.class_last(z)
    if shapes.class_count(z) != classes:
        raise InputError(
            f"logits must have the {classes} classes of the reference, got {shapes.class_count(z)}"
        )
    if validation.look_like_probabilities(z):
        validation.warn_probabilities()
    return z


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


def _sum_chunks(logits: Any, room: float, reference: Reference) -> list[Sums]:
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


def sample_rows(start: int, count: int, rules: Rules) -> Int64:
    """Return the places of the sampled rows among rows `start`, `start + 1`, … of a stream.

    The random number of a row depends on the seed and on its number alone. So the sample does not
    depend on how the rows are batched, and only their count must be stored.
    """
    end = start + count
    blocks = range(start // _BLOCK, max(end - 1, start) // _BLOCK + 1)
    parts = [_sample_block(block, rules.sample, rules.seed) for block in blocks]
    numbers = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return numbers[numbers.searchsorted(start) : numbers.searchsorted(end)] - start


@lru_cache(maxsize=16)
def _sample_block(block: int, sample: float, seed: int) -> Int64:
    """The numbers of the sampled rows of a block."""
    uniform = np.random.default_rng([seed, block]).random(_BLOCK)
    return block * _BLOCK + np.flatnonzero(uniform < sample)


# The log.


def _append_log(path: str | os.PathLike[str], row: Row) -> None:
    """Add a row to the log, in one write."""
    with Path(path).open("ab") as file:
        file.write(json.dumps(row, allow_nan=False).encode() + b"\n")


def _repair_log(path: str | os.PathLike[str]) -> None:
    """Remove an incomplete last line that a killed process left; refuse any other file."""
    if not Path(path).parent.is_dir():
        raise InputError(f"log must be in a folder that exists, got {path}")
    if not Path(path).exists():
        return
    read_log(path)
    with Path(path).open("r+b") as file:
        whole_file = file.read()
        end = whole_file.rfind(b"\n") + 1
        rest = whole_file[end:]
        if rest and not rest.startswith(b"{"):
            raise InputError(f"log must be a log of chunks, got {rest[:40]!r} in {path}")
        file.truncate(end)


def read_log(path: str | os.PathLike[str]) -> list[Row]:
    """Return the rows of a log, in order.

    An incomplete last line, left by a crash, is skipped. A chunk can be logged twice, if the
    process died after its line was written and before its state was saved. The later line counts.
    """
    store.check_regular(path)
    *lines, _ = Path(path).read_bytes().split(b"\n")
    rows: dict[int, Row] = {}
    for place, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            rows.pop(row["chunk"], None)
            rows[row["chunk"]] = row
        except (ValueError, TypeError, KeyError, RecursionError):
            must = "hold one chunk as JSON in every line"
            raise InputError(f"{path} must {must}, got {line[:40]!r} in line {place}") from None
    return list(rows.values())
