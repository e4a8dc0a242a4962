"""The monitor: fed with the logits that are served, it says whether they still look as before."""

import datetime
import os
import threading
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import numpy as np

from tepid.arrays import Float64
from tepid.errors import InputError, RowError
from tepid.online import log, merging, storing
from tepid.online.estimate import estimated
from tepid.online.feeding import batch_of, fed, seconds
from tepid.online.reference import Chunks, Reference, checked, summarised
from tepid.online.rules import Outputs, Rules
from tepid.online.sampling import kept
from tepid.online.state import ROW, State, closed, judged, opened, trimmed
from tepid.online.sums import Sums
from tepid.temperature import Temperature


class Monitor:
    """Watches unlabelled logits as they are served, in constant memory, from any thread.

    Rows are gathered in chunks, of so many rows or of a period. When a chunk is full its mean
    confidence at the temperature that is served, the implied accuracy, is held against the chunks
    of a reference. A chunk is judged once, when it closes.

    It sees what changes confidence, and nothing else. It never changes the temperature: `estimate`
    gives one that a person may decide to serve.

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
        self._state = state or opened(reference)
        self._batches = self._saved = 0
        self._merging, self._saving = threading.Lock(), threading.Lock()
        if self.outputs.log is not None:
            log.mend(self.outputs.log)

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
        """A monitor that compares with logits from a time when all was well.

        They should be as the served ones will be, in their order in time, and not the rows that the
        network was trained on. They are cut as the served rows will be, into chunks of `chunk` rows
        or, with their `times` in seconds, into periods of `period` seconds; two chunks are the
        least, and with few the limits are wide.
        """
        rules = rules or Rules()
        chunks = Chunks(chunk, period, times)
        reference = summarised(
            reference_logits, temperature, chunks, bins=rules.bins, reestimate=rules.reestimate
        )
        return cls(reference, rules, outputs)

    def update(
        self, logits: Any, time: float | datetime.datetime | None = None
    ) -> list[dict[str, Any]]:
        """Add a batch (n, k), and return the rows of the chunks that it closed, mostly none.

        `time`, in seconds or a datetime, is now by default. A batch belongs to one time; one that
        comes after its period has been closed counts in the open one, and an empty one lets time
        pass. A batch with a row that cannot be used is refused whole.
        """
        z = checked(logits, self.reference.classes)
        moment = seconds(time)
        start = self._counted(len(z))
        chosen = None if self.rules.sample == 1 else kept(start, len(z), self.rules)
        try:
            looked_at = z if chosen is None else z[chosen]
            batch = batch_of(looked_at, self.reference, self._state)
            return self._moved(lambda state: fed(state, self.reference, self.rules, batch, moment))
        except RowError as error:
            self._counted(-len(z))
            row = error.row if chosen is None else int(chosen[error.row])
            raise error.moved(row - error.row) from None

    def finish(self) -> list[dict[str, Any]]:
        """Close the open chunk as it is, and return its row; none if no row is in it."""
        return self._moved(
            lambda state: closed(state, self.reference, self.rules) if state.open.weight else state
        )

    def _counted(self, rows: int) -> int:
        with self._merging:
            before = self._state.seen
            self._state = self._state._replace(seen=before + rows)
        return before

    def _moved(self, move: Callable[[State], State]) -> list[dict[str, Any]]:
        with self._merging:
            state = move(self._state)
            new = state.closed - self._state.closed
            chunks = state.history[-new:] if new else ()
            rows = [judged(chunk, self.reference, self.rules) for chunk in chunks]
            self._state = trimmed(state, self.rules) if new else state
            self._batches += 1
            if self.outputs.log is not None:
                for row in rows:
                    log.append(self.outputs.log, row)
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
        storing.save(path, self.reference, self.rules, state)
        self._saved = number

    @property
    def history(self) -> list[dict[str, Any]]:
        """A row for each closed chunk, the oldest first, as many as `Rules.remember`."""
        return [judged(c, self.reference, self.rules) for c in self._state.history]

    @property
    def window(self) -> Sums:
        """The rows last judged or, before the first chunk has closed, those of the open one."""
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
        r"""$\theta_k$ of the recent rows, to be held against those of `reference`."""
        return self.window.tails.thresholds()

    def estimate(self) -> Temperature:
        """The temperature of the recent rows by UTS, with the thresholds of the reference.

        Read off their sums, to a precision of .006. Logits do not identify a temperature: hold it
        against `reference.estimate`, and look at its warnings before it is served.
        """
        if not self.reference.reestimate:
            raise InputError("rules must have reestimate=True for an estimate, got False")
        if not self.window.weight:
            raise InputError("monitor must have seen a row for an estimate, got none")
        return estimated(self.window)

    def reading(self) -> dict[str, Any]:
        """The row of the last closed chunk, None for each value before, and what was counted."""
        state = self._state
        last = judged(state.history[-1], self.reference, self.rules) if state.history else {}
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
        """Write the state as `.npz`, nothing pickled; a crash leaves the old file whole."""
        with self._saving:  # so that an older state never replaces a newer one
            storing.save(path, self.reference, self.rules, self._state)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, outputs: Outputs | None = None) -> "Monitor":
        """The monitor that `save` wrote, which goes on where it was."""
        reference, rules, state = storing.load(path)
        return cls(reference, rules, outputs, state)

    def __add__(self, other: "Monitor") -> "Monitor":
        """What both replicas have seen; refuses, naming both, where their references differ."""
        merging.check_same(self, other)
        state = merging.merged(self._state, other._state, self.reference, self.rules)
        return Monitor(self.reference, self.rules, state=state)

    @classmethod
    def merged(cls, monitors: Iterable["Monitor"]) -> "Monitor":
        """What all replicas have seen, by `+`."""
        parts = list(monitors)
        if not parts:
            raise InputError("monitors must be one or more, got none")
        return reduce(lambda a, b: a + b, parts)
