"""Batches of rows, the parts that yield them, and the source that holds the parts.

A `Batch` is rows in memory. A `Part` is a file, a partition or an array that yields batches. A
`Source` is an ordered sequence of parts. Every reader implements `Part`; nothing else differs
between kinds of data.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from tepid import shapes, validation
from tepid.errors import InputError, RowError
from tepid.sources.spool import Spool
from tepid.tables import ARGUMENTS
from tepid.validation import Array, Int64

# Names of data that is no file or partition.
_UNNAMED = ("logits", "source_logits")


class Batch(NamedTuple):
    """Rows in memory, with what is known of each.

    `start` is the number of the first row in the source, None where the rows before it were not
    counted. `name` and `row` say where the batch comes from, for messages: the file or partition,
    and its row with which the batch begins. `chosen` are the positions of a subset. `peers` are the
    same rows as other models see them.
    """

    logits: Any
    labels: Any = None
    weight: Any = None
    group: Any = None
    start: int | None = 0
    peers: tuple[Any, ...] = ()
    name: str = "logits"
    row: int = 0
    chosen: Int64 | None = None

    def take(self, chosen: Int64) -> "Batch":
        """The rows at these positions of the batch."""
        labels, weight, group = (
            None if column is None else column[chosen]
            for column in (self.labels, self.weight, self.group)
        )
        return self._replace(
            logits=self.logits[chosen],
            labels=labels,
            weight=weight,
            group=group,
            peers=tuple(peer[chosen] for peer in self.peers),
            chosen=chosen if self.chosen is None else self.chosen[chosen],
        )

    def numbers(self) -> Int64:
        """The number of each row in the source."""
        if self.start is None:
            raise InputError(
                "logits must have numbered rows for debias or a report, got parts before "
                f"{self.name} whose rows are not counted"
            )
        position = np.arange(len(self.logits)) if self.chosen is None else self.chosen
        return self.start + position

    def half(self, parity: int) -> Int64:
        """The positions of the even or odd rows of the source."""
        return np.flatnonzero(self.numbers() % 2 == parity)

    def locate(self, error: RowError) -> RowError:
        """The same error with the file and its row in place of the position in the batch."""
        position = error.row if self.chosen is None else int(self.chosen[error.row])
        name = error.name
        if name == "logits":
            name = self.name
        elif self.name not in _UNNAMED:
            name = f"{name} of {self.name}"
        return RowError(name, error.must, error.got, self.row + position)


class Part(Protocol):
    """Rows that can be read by themselves, any number of times.

    `batches(size)` yields batches of about `size` rows, whose `start` counts from the part's first
    row. A `portable` part can be pickled and read on another machine.
    """

    @property
    def name(self) -> str:
        """What the part is called in messages."""

    @property
    def rows(self) -> int | None:
        """The number of rows, or None if it is not known before reading."""

    @property
    def portable(self) -> bool:
        """Whether the part can be read in another process."""

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the rows."""

    def select(self, keep: frozenset[str]) -> Self:
        """The same rows with only these of the columns `labels`, `weight` and `group`."""


@dataclass(frozen=True, eq=False)
class Source:
    """Logits as an ordered sequence of parts.

    `columns` are those of `labels`, `weight` and `group` that every batch carries. `shape` is the
    shape of an array without its class axis. `binary` means one logit per row. A source that must
    be decoded has a `spool`, which keeps the decoded rows for the next pass.
    """

    parts: tuple[Part, ...]
    name: str = "logits"
    classes: int | None = None
    columns: frozenset[str] = frozenset()
    shape: tuple[int, ...] | None = None
    binary: bool = False
    repeatable: bool = True
    spool: Spool | None = field(default=None, repr=False)

    @property
    def rows(self) -> int | None:
        """The number of rows, or None if no pass has counted them yet."""
        counted = count_rows(self.parts)
        return self.spool.rows if counted is None and self.spool is not None else counted

    @property
    def labeled(self) -> bool:
        """Whether the rows have labels."""
        return "labels" in self.columns

    @property
    def weighted(self) -> bool:
        """Whether the rows have weights."""
        return "weight" in self.columns

    @property
    def grouped(self) -> bool:
        """Whether the rows have groups."""
        return "group" in self.columns

    def batches(
        self, size: int, *, allow_empty: bool = False, once: bool = False
    ) -> Iterator[Batch]:
        """Yield every batch in order; `once` says that there will be no second pass."""
        read = chain_parts(self.parts, size)
        if self.spool is not None:
            read = self.spool.through(read, size, store=not once)
        empty = True
        for batch in read_batches(read, self.classes):
            empty = False
            yield batch
        if empty and not allow_empty:
            raise InputError(f"{self.name} must have at least one row, got none")

    def select(self, *, labels: bool = False, weight: bool = True, group: bool = True) -> "Source":
        """The same rows without the columns that are not wanted; nothing reads those any more."""
        wanted = {"labels": labels, "weight": weight, "group": group}
        keep = frozenset(name for name in self.columns if wanted[name])
        if keep == self.columns:
            return self
        parts = tuple(part.select(keep) for part in self.parts)
        spool = None if self.spool is None else self.spool.renewed()
        return dataclasses.replace(self, parts=parts, columns=keep, spool=spool)

    def whole(self) -> Batch:
        """All rows as one batch."""
        every = list(self.batches(1 << 16, once=True))
        if all(validation.look_like_probabilities(batch.logits) for batch in every):
            validation.warn_probabilities(self.name)
        if len(every) == 1:
            return every[0]._replace(logits=shapes.matrix(every[0].logits))
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(batch, name) for batch in every]) for name in self.columns
        }
        return Batch(shapes.joined([batch.logits for batch in every]), name=self.name, **columns)

    def column(self, name: str) -> Array:
        """All of `labels`, `weight` or `group`."""
        return np.concatenate([getattr(batch, name) for batch in self.batches(1 << 16)])

    def files(self) -> "list[Source]":
        """One source per file or partition; raises if an array beside them cannot be cut."""
        if any(isinstance(part, Beside) and len(part.parts) > 1 for part in self.parts):
            raise InputError(
                "labels, sample_weight and groups must be columns of the files or one file for "
                f"each of them, since the rows of {self.name} are not counted, got one for all"
            )
        named: dict[str, list[Part]] = {}
        for part in self.parts:
            named.setdefault(part.name, []).append(part)
        return [
            dataclasses.replace(self, parts=tuple(parts), name=name, shape=None, spool=None)
            for name, parts in named.items()
        ]

    def renamed(self, name: str) -> "Source":
        """The same rows under another name in messages."""

        def change(leaf: Any) -> Any:
            return dataclasses.replace(leaf, name=name)

        parts = tuple(map_leaves(part, change) for part in self.parts)
        spool = None if self.spool is None else self.spool.renewed()
        return dataclasses.replace(self, parts=parts, name=name, spool=spool)

    def logarithm(self) -> "Source":
        """The same source, whose values are probabilities, as logits."""
        parts = tuple(_logarithm(part) for part in self.parts)
        spool = None if self.spool is None else self.spool.renewed()
        return dataclasses.replace(self, parts=parts, spool=spool)


def count_rows(parts: tuple[Part, ...]) -> int | None:
    """The number of rows of all parts, or None if one of them is not counted."""
    counts = [part.rows for part in parts]
    return None if None in counts else sum(count or 0 for count in counts)


def chain_parts(parts: tuple[Part, ...], size: int) -> Iterator[Batch]:
    """The batches of all parts, one after the other."""
    return chain.from_iterable(part.batches(size) for part in parts)


def read_batches(
    batches: Iterator[Batch], classes: int | None, start: int | None = 0
) -> Iterator[Batch]:
    """Number the rows and check that every batch has the same classes; drops empty batches."""
    for batch in batches:
        count = batch.logits.shape[0]
        if not count:
            continue
        found = shapes.class_count(batch.logits)
        if classes is not None and found != classes:
            raise InputError(
                f"{batch.name} must have {classes} classes in every row, "
                f"got {found} from row {batch.row}"
            )
        classes = found
        yield batch._replace(start=start)
        start = None if start is None else start + count


@dataclass(frozen=True)
class Logarithm:
    """A part of probabilities, whose logarithms are the logits."""

    part: Any

    @property
    def name(self) -> str:
        """That of the probabilities."""
        return str(self.part.name)

    @property
    def rows(self) -> int | None:
        """As many as there are probabilities."""
        rows: int | None = self.part.rows
        return rows

    @property
    def portable(self) -> bool:
        """Whether the probabilities are."""
        return bool(self.part.portable)

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the rows."""
        for batch in self.part.batches(size):
            try:
                logits = validation.logits_of(batch.logits)
            except RowError as error:
                raise batch.locate(error) from None
            yield batch._replace(logits=logits)

    def select(self, keep: frozenset[str]) -> "Logarithm":
        """The same rows with fewer columns."""
        return Logarithm(self.part.select(keep))


def _logarithm(part: Any) -> Any:
    if not isinstance(part, Beside):
        return Logarithm(part)
    return dataclasses.replace(part, parts=tuple(Logarithm(inner) for inner in part.parts))


@dataclass(frozen=True, eq=False)
class Peer:
    """Another model's rows: the same rows in the same order."""

    name: str
    parts: tuple[Part, ...]
    decoded: bool = False


@dataclass(frozen=True, eq=False)
class Beside:
    """Parts one after the other, with arrays and other models' rows cut to match their batches."""

    parts: tuple[Any, ...]
    columns: Mapping[str, Array]
    peers: tuple[Peer, ...] = ()

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
        readers = [_PeerReader(peer, size) for peer in self.peers]
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
            classes = shapes.class_count(batch.logits)
            peers = tuple(reader.read(count, start, classes) for reader in readers)
            yield batch._replace(**cut, peers=peers)
            start = stop
        for name, column in self.columns.items():
            if len(column) != start:
                raise mismatch(self._column(name), start, len(column))
        for reader in readers:
            reader.check_end(start)

    def _column(self, name: str) -> str:
        one_file = len(self.parts) == 1 and self.name not in _UNNAMED
        return f"{ARGUMENTS[name]} of {self.name}" if one_file else ARGUMENTS[name]

    def select(self, keep: frozenset[str]) -> "Beside":
        """The same rows with fewer columns."""
        columns = {name: column for name, column in self.columns.items() if name in keep}
        return Beside(tuple(part.select(keep) for part in self.parts), columns, self.peers)


class _PeerReader:
    """Hands out a peer's rows in the sizes in which the model's own come."""

    def __init__(self, peer: Peer, size: int) -> None:
        self.name = peer.name
        self.batches = chain_parts(peer.parts, size)
        self.left: list[Any] = []

    def read(self, count: int, start: int, classes: int) -> Array:
        there = sum(len(rows) for rows in self.left)
        while there < count:
            batch = next(self.batches, None)
            if batch is None:
                raise mismatch(self.name, start + count, start + there)
            if len(batch.logits):
                found = shapes.class_count(batch.logits)
                if found != classes:
                    raise InputError(
                        f"{self.name} must have the {classes} classes of logits, got {found}"
                    )
                self.left.append(batch.logits)
                there += len(batch.logits)
        rows = self.left[0] if len(self.left) == 1 else shapes.joined(self.left)
        self.left = [rows[count:]] if there > count else []
        return np.asarray(shapes.matrix(rows[:count]))

    def check_end(self, rows: int) -> None:
        if self.left or any(len(batch.logits) for batch in self.batches):
            raise mismatch(self.name, rows, "more")


def mismatch(name: str, rows: int, got: int | str) -> InputError:
    """The error for a column or a peer with more or fewer entries than there are rows."""
    return InputError(f"{name} must have one entry for each of the {rows} rows, got {got}")


def attach(
    source: Source,
    columns: Mapping[str, Array],
    peers: tuple[Peer, ...] = (),
    *,
    of: str = "",
) -> Source:
    """A source with arrays, and the rows of other models, beside its own rows.

    `of` says in an error whose columns they are.
    """
    if not columns and not peers:
        return source
    rows = source.rows
    for name, column in columns.items():
        if rows is not None and len(column) != rows:
            raise mismatch(f"{ARGUMENTS[name]}{of}", rows, len(column))
    counts = [part.rows for part in source.parts]
    alike = all([part.rows for part in peer.parts] == counts for peer in peers)
    if None in counts or not alike or len(counts) == 1:
        parts: tuple[Part, ...] = (Beside(source.parts, columns, peers),)
    else:
        parts = tuple(_beside(source.parts, columns, peers))
    spool = None if source.spool is None else source.spool.renewed()
    if spool is None and any(peer.decoded for peer in peers):
        spool = Spool()
    return dataclasses.replace(
        source, parts=parts, columns=source.columns | columns.keys(), spool=spool
    )


def _beside(
    parts: tuple[Part, ...], columns: Mapping[str, Array], peers: tuple[Peer, ...]
) -> Iterator[Beside]:
    start = 0
    for position, part in enumerate(parts):
        stop = start + (part.rows or 0)
        cut = {name: column[start:stop] for name, column in columns.items()}
        others = tuple(Peer(peer.name, (peer.parts[position],)) for peer in peers)
        yield Beside((part,), cut, others)
        start = stop


def leaves(part: Any) -> list[Any]:
    """The parts that read data themselves, inside the parts that wrap them."""
    if isinstance(part, Logarithm):
        return leaves(part.part)
    if isinstance(part, Beside):
        inner = chain(part.parts, *(peer.parts for peer in part.peers))
        return [leaf for each in inner for leaf in leaves(each)]
    return [part]


def map_leaves(part: Any, change: Callable[[Any], Any]) -> Any:
    """The same part with each of its leaves replaced, in the order of `leaves`."""
    if isinstance(part, Logarithm):
        return Logarithm(map_leaves(part.part, change))
    if isinstance(part, Beside):
        own = tuple(map_leaves(each, change) for each in part.parts)
        peers = tuple(
            Peer(peer.name, tuple(map_leaves(each, change) for each in peer.parts))
            for peer in part.peers
        )
        return Beside(own, part.columns, peers)
    return change(part)


@dataclass(frozen=True, eq=False)
class ArrayPart:
    """An array in memory, or memory-mapped, with its classes on the last axis."""

    array: Any
    name: str = "logits"
    portable: bool = field(default=False, init=False)

    @property
    def rows(self) -> int:
        """The number of rows over all axes but that of the classes."""
        return math.prod(row_shape(self.array))

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield views where the layout allows it."""
        start = 0
        for rows in shapes.slices(self.array, size):
            yield Batch(rows, start=start, name=self.name, row=start)
            start += len(rows)

    def select(self, keep: frozenset[str]) -> "ArrayPart":  # noqa: ARG002  # it has no columns
        """The array itself."""
        return self


def row_shape(array: Any) -> tuple[int, ...]:
    """The shape without the class axis, which is the last."""
    return tuple(array.shape) if array.ndim == 1 else tuple(array.shape[:-1])


def from_array(array: Any, name: str = "logits", class_axis: int | None = None) -> Source:
    """A source over an array in memory."""
    last = shapes.class_last(array, class_axis)
    return Source(
        (ArrayPart(last, name),),
        name,
        shapes.class_count(last),
        shape=row_shape(last),
        binary=last.ndim == 1 or last.shape[-1] == 1,
    )
