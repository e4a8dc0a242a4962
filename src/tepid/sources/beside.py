"""What is put beside parts: arrays, and the rows of other models.

`Beside` cuts arrays and the rows of other models to match the batches of its parts. `leaves` gives
the parts that read data themselves, inside those that wrap them.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from tepid import shapes, validation
from tepid.errors import InputError, RowError
from tepid.sources.batch import UNNAMED, Batch, Part, chain_parts, count_rows, mismatch
from tepid.sources.multilabel import LabelColumns
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

    def reader(self, size: int) -> "_PeerReader":
        """Reads the rows in order."""
        return _PeerReader(self, size)

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

    def reader(self, size: int) -> "PeerTable":  # noqa: ARG002  # nothing is read
        """The table itself."""
        return self

    def cut(self, position: int, start: int, stop: int) -> "PeerTable":  # noqa: ARG002  # as in `Peer`
        """The rows beside one of several parts, without the answers for others."""
        index = self.index[start:stop].copy()
        there = index >= 0
        used, index[there] = np.unique(index[there], return_inverse=True)
        return PeerTable(self.name, self.answers[used], index)

    def read(self, batch: Batch, start: int) -> Array:
        """The answers for the rows of a batch, which begins at row `start`."""
        index = self.index[start : start + len(batch.logits)]
        if len(index) < len(batch.logits):
            raise mismatch(self.name, start + len(batch.logits), len(self.index))
        if self.answers.ndim == 2:
            check_classes(self.name, self.answers, batch)
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

    def check_end(self, rows: int) -> None:
        """Raise if there are more rows than those that were read."""
        if len(self.index) != rows:
            raise mismatch(self.name, rows, len(self.index))


AnyPeer = Peer | PeerTable


@dataclass(frozen=True, eq=False)
class Beside:
    """Parts one after the other, with arrays and other models' rows cut to match their batches."""

    parts: tuple[Any, ...]
    columns: Mapping[str, Array]
    peers: tuple[AnyPeer, ...] = ()

    @property
    def name(self) -> str:
        """That of the first part."""
        return str(self.parts[0].name)

    @property
    def rows(self) -> int | None:
        """The number of rows of all parts."""
        return count_rows(self.parts)

    @property
    def portable(self) -> bool:
        """Whether everything in it is."""
        every = chain(self.parts, *(peer.parts for peer in self.peers))
        return all(part.portable for part in every)

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the rows; raises where a column or a peer has more or fewer."""
        start = 0
        readers = [peer.reader(size) for peer in self.peers]
        for batch in chain_parts(self.parts, size):
            count = len(batch.logits)
            if not count:
                continue
            stop = start + count
            cut: dict[str, Any] = {}
            for name, column in self.columns.items():
                if len(column) < stop:
                    raise mismatch(self._column(name), stop, len(column))
                cut[name] = column[start:stop]
            batch = batch._replace(**cut)  # noqa: PLW2901  # the same rows
            others = tuple(reader.read(batch, start) for reader in readers)
            yield batch._replace(peers=batch.peers + others)
            start = stop
        for name, column in self.columns.items():
            if len(column) != start:
                raise mismatch(self._column(name), start, len(column))
        for reader in readers:
            reader.check_end(start)

    def _column(self, name: str) -> str:
        one_file = len(self.parts) == 1 and self.name not in UNNAMED
        return f"{ARGUMENTS[name]} of {self.name}" if one_file else ARGUMENTS[name]

    def select(self, keep: frozenset[str]) -> "Beside":
        """The same rows with fewer columns."""
        columns = {name: column for name, column in self.columns.items() if name in keep}
        peers = self.peers if "peers" in keep else ()
        return Beside(tuple(part.select(keep) for part in self.parts), columns, peers)


def unwrapped(part: Any) -> tuple[Any, ...]:
    """The parts of a `Beside` that has nothing left beside its rows; any other part itself."""
    bare = isinstance(part, Beside) and not part.columns and not part.peers
    return part.parts if bare else (part,)


class _PeerReader:
    """Hands out a peer's rows in the sizes in which the model's own come."""

    def __init__(self, peer: Peer, size: int) -> None:
        self.name, self.probabilities = peer.name, peer.probabilities
        self.batches = chain_parts(peer.parts, size)
        self.left: list[Any] = []

    def read(self, batch: Batch, start: int) -> Array:
        """The rows of a batch, which begins at row `start`."""
        count = len(batch.logits)
        there = sum(len(rows) for rows in self.left)
        while there < count:
            more = next(self.batches, None)
            if more is None:
                raise mismatch(self.name, start + count, start + there)
            if len(more.logits):
                check_classes(self.name, more.logits, batch)
                self.left.append(more.logits)
                there += len(more.logits)
        rows = self.left[0] if len(self.left) == 1 else np.concatenate(self.left)
        self.left = [rows[count:]] if there > count else []
        wanted = None if batch.weight is None else np.asarray(batch.weight) != 0
        try:
            return peer_logits(
                rows[:count], self.name, probabilities=self.probabilities, wanted=wanted
            )
        except RowError as error:
            raise batch.locate(error) from None

    def check_end(self, rows: int) -> None:
        if self.left or any(len(batch.logits) for batch in self.batches):
            raise mismatch(self.name, rows, "more")


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


def leaves(part: Any) -> list[Any]:
    """The parts that read data themselves, inside the parts that wrap them."""
    if isinstance(part, LabelColumns):
        return leaves(part.part)
    if isinstance(part, Beside):
        inner = chain(part.parts, *(peer.parts for peer in part.peers))
        return [leaf for each in inner for leaf in leaves(each)]
    return [part]


def map_leaves(part: Any, change: Callable[[Any], Any]) -> Any:
    """The same part with each of its leaves replaced, in the order of `leaves`."""
    if isinstance(part, LabelColumns):
        return dataclasses.replace(part, part=map_leaves(part.part, change))
    if isinstance(part, Beside):
        own = tuple(map_leaves(each, change) for each in part.parts)
        peers = tuple(
            dataclasses.replace(peer, parts=tuple(map_leaves(each, change) for each in peer.parts))
            if isinstance(peer, Peer)
            else peer
            for peer in part.peers
        )
        return Beside(own, part.columns, peers)
    return change(part)
