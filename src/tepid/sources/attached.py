"""Parts with arrays and other models' answers attached to their rows."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from tepid import shapes, validation
from tepid.errors import InputError, RowError
from tepid.sources.batch import UNNAMED, Batch, Part, chain_parts, count_rows, mismatch
from tepid.tables import ARGUMENTS
from tepid.validation import Array, Int64


@dataclass(frozen=True, eq=False)
class Peer:
    """Another model's logits: the same rows in the same order; a row of NaN is no answer.

    `probabilities` says that the values are those, and `decoded` that reading them takes long.
    """

    name: str
    parts: tuple[Part, ...]
    decoded: bool = False
    probabilities: bool = False

    def attach(self, batches: Iterator[Batch], size: int) -> Iterator[Batch]:
        """The batches with this model's rows; raises where it has more or fewer."""
        own = (batch.logits for batch in chain_parts(self.parts, size) if len(batch.logits))
        left: Any = None
        start = 0
        for batch in batches:
            count = len(batch.logits)
            rows = [] if left is None else [left]
            while (there := sum(map(len, rows))) < count:
                more = next(own, None)
                if more is None:
                    raise mismatch(self.name, start + count, start + there)
                check_classes(self.name, more, batch)
                rows.append(more)
            joined = rows[0] if len(rows) == 1 else np.concatenate(rows)
            left = joined[count:] if there > count else None
            wanted = None if batch.weight is None else np.asarray(batch.weight) != 0
            with batch.locating():
                found = peer_logits(
                    joined[:count], self.name, probabilities=self.probabilities, wanted=wanted
                )
            yield batch._replace(peers=(*batch.peers, found))
            start += count
        if left is not None or next(own, None) is not None:
            raise mismatch(self.name, start, "more")

    def cut(self, position: int, start: int, stop: int) -> "Peer":  # noqa: ARG002  # as in `PeerTable`
        """The rows beside one of several parts, which has the same number of them."""
        return dataclasses.replace(self, parts=(self.parts[position],))


@dataclass(frozen=True, eq=False)
class PeerTable:
    """Another model's answers in memory, logits (m, k) or classes (m,), for some of the rows.

    `index` holds for each row the position of its answer, or -1.
    """

    name: str
    answers: Array
    index: Int64
    parts: tuple[Part, ...] = field(default=(), init=False)
    decoded: bool = field(default=False, init=False)

    def attach(self, batches: Iterator[Batch], size: int) -> Iterator[Batch]:  # noqa: ARG002  # as in `Peer`
        """The batches with the answers; raises where there are rows for more or fewer."""
        stop = 0
        for batch in batches:
            start, stop = stop, stop + len(batch.logits)
            if len(self.index) < stop:
                raise mismatch(self.name, stop, len(self.index))
            yield batch._replace(peers=(*batch.peers, self._answers(batch, start, stop)))
        if len(self.index) != stop:
            raise mismatch(self.name, stop, len(self.index))

    def _answers(self, batch: Batch, start: int, stop: int) -> Array:
        if self.answers.ndim == 2:
            check_classes(self.name, self.answers, batch)
        index = self.index[start:stop]
        there = index >= 0
        shape = (len(index), *self.answers.shape[1:])
        found = np.full(shape, -1 if self.answers.ndim == 1 else np.nan, self.answers.dtype)
        found[there] = self.answers[index[there]]
        classes = shapes.class_count(batch.logits)
        if found.ndim == 1 and found.max(initial=-1) >= classes:
            row = int(found.argmax())
            must = f"be one of the {classes} classes of logits, from 0"
            raise batch.locate(RowError(self.name, must, str(found[row]), row))
        return found

    def cut(self, position: int, start: int, stop: int) -> "PeerTable":  # noqa: ARG002  # as in `Peer`
        """The rows beside one of several parts, without the answers for others."""
        index = self.index[start:stop].copy()
        there = index >= 0
        used, index[there] = np.unique(index[there], return_inverse=True)
        return PeerTable(self.name, self.answers[used], index)


AnyPeer = Peer | PeerTable


@dataclass(frozen=True, eq=False)
class AttachedPart(Part):
    """Parts one after the other, with arrays and other models' rows cut to match their batches."""

    parts: tuple[Part, ...]
    columns: Mapping[str, Array]
    peers: tuple[AnyPeer, ...] = ()

    @property
    def name(self) -> str:  # type: ignore[override]  # never assigned
        """That of the first part."""
        return self.parts[0].name

    @property
    def rows(self) -> int | None:
        """The number of rows of all parts."""
        return count_rows(self.parts)

    @property
    def portable(self) -> bool:
        """Whether everything in it is."""
        return all(part.portable for part in self._inside())

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the rows; raises where a column or a peer has more or fewer."""
        batches = self._with_columns(chain_parts(self.parts, size))
        for peer in self.peers:
            batches = peer.attach(batches, size)
        return batches

    def _with_columns(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        stop = 0
        for batch in batches:
            if not len(batch.logits):
                continue
            start, stop = stop, stop + len(batch.logits)
            cut: dict[str, Any] = {}
            for name, column in self.columns.items():
                if len(column) < stop:
                    raise mismatch(self._column(name), stop, len(column))
                cut[name] = column[start:stop]
            yield batch._replace(**cut)
        for name, column in self.columns.items():
            if len(column) != stop:
                raise mismatch(self._column(name), stop, len(column))

    def _column(self, name: str) -> str:
        one_file = len(self.parts) == 1 and self.name not in UNNAMED
        return f"{ARGUMENTS[name]} of {self.name}" if one_file else ARGUMENTS[name]

    def select(self, keep: frozenset[str]) -> "AttachedPart":
        """The same rows with fewer columns."""
        columns = {name: column for name, column in self.columns.items() if name in keep}
        peers = self.peers if "peers" in keep else ()
        return AttachedPart(tuple(part.select(keep) for part in self.parts), columns, peers)

    def unwrapped(self) -> tuple[Part, ...]:
        """The parts themselves if nothing is attached to their rows any more."""
        return (self,) if self.columns or self.peers else self.parts

    def _inside(self) -> Iterator[Part]:
        return chain(self.parts, *(peer.parts for peer in self.peers))

    def leaves(self) -> list[Part]:
        """Those of its parts and of the other models."""
        return [leaf for part in self._inside() for leaf in part.leaves()]

    def map_leaves(self, change: Callable[[Part], Part]) -> "AttachedPart":
        """The same with each leaf replaced."""
        parts = tuple(part.map_leaves(change) for part in self.parts)
        peers = tuple(
            dataclasses.replace(peer, parts=tuple(part.map_leaves(change) for part in peer.parts))
            if isinstance(peer, Peer)
            else peer
            for peer in self.peers
        )
        return AttachedPart(parts, self.columns, peers)


def check_classes(name: str, answers: Any, batch: Batch) -> None:
    """Raise if another model has other classes than a batch."""
    classes, found = shapes.class_count(batch.logits), shapes.class_count(answers)
    if found != classes:
        raise InputError(f"{name} must have the {classes} classes of logits, got {found}")


def peer_logits(
    values: Any, name: str, *, probabilities: bool = False, wanted: Array | None = None
) -> Array:
    """Another model's rows as logits (n, k), NaN where it has no answer.

    Raises if a row that is `wanted` is neither an answer nor NaN for all classes.
    """
    values = np.asarray(validation.as_array(values))
    values = values[:, None] if values.ndim == 1 else values
    if values.dtype.kind in "iub":
        values = values.astype(np.float64)
    answered = ~np.isnan(values).all(axis=1)
    checked = answered if wanted is None else answered & wanted
    if probabilities:
        rows = np.flatnonzero(checked)
        found = np.full((len(values), shapes.class_count(values)), np.nan)
        try:
            found[rows] = validation.logits_of(values[rows])
        except RowError as error:
            raise RowError(name, error.must, error.got, int(rows[error.row])) from None
        return found
    logits = np.asarray(shapes.matrix(values))
    if logits is not values:  # binary logits, of which one column was made
        logits[~answered] = np.nan
    wrong = checked & ~np.isfinite(logits.max(axis=1, initial=-np.inf))
    if wrong.any():
        raise validation.unusable(logits, int(wrong.argmax())).moved(0, name)
    return logits
