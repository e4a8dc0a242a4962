"""Batches of rows, and the parts that yield them.

A `Batch` is rows in memory. A `Part` is a file, a partition or an array that yields batches. Every
reader implements `Part`; nothing else differs between kinds of data.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from tepid import shapes, validation
from tepid.errors import InputError, RowError
from tepid.summaries import clusters
from tepid.tables import ARGUMENTS
from tepid.validation import Int64

Result = TypeVar("Result")
# Names of data that is no file or partition.
UNNAMED = ("logits", "source_logits")


class Batch(NamedTuple):
    """Rows in memory, with what is known of each.

    `start` is the number of the first row in the source, None where the rows before it were not
    counted. `name` and `row` say where the batch comes from, for messages: the file or partition,
    and its row with which the batch begins. `chosen` are the positions of a subset. `peers` are the
    same rows as other models see them: logits (n, k), NaN where there is no answer, or classes (n,)
    as int64, -1 where there is none. `cluster` names the cluster of each row. Without it every
    `unit` rows from the row `begin` are one, such as the pixels of an image. `each` is the number
    of entries into which a multi-label row was split; 1 for other rows.
    """

    logits: Any
    labels: Any = None
    weight: Any = None
    group: Any = None
    id: Any = None
    cluster: Any = None
    start: int | None = 0
    peers: tuple[Any, ...] = ()
    name: str = "logits"
    row: int = 0
    unit: int = 1
    begin: int = 0
    each: int = 1
    chosen: Int64 | None = None

    def take(self, chosen: Int64) -> "Batch":
        """The rows at these positions of the batch."""
        positions = chosen if self.chosen is None else self.chosen[chosen]
        return self._at(chosen)._replace(chosen=positions)

    def split(self, size: int) -> Iterator["Batch"]:
        """The same rows in batches of at most `size`."""
        for first in range(0, len(self.logits), size):
            start = None if self.start is None else self.start + first
            rows = self._at(slice(first, first + size))
            yield rows._replace(start=start, row=self.row + first)

    def _at(self, rows: Any) -> "Batch":
        arrays = {name: getattr(self, name) for name in ("logits", *ARGUMENTS)}
        taken: dict[str, Any] = {
            name: None if array is None else array[rows] for name, array in arrays.items()
        }
        return self._replace(**taken, peers=tuple(peer[rows] for peer in self.peers))

    def numbers(self) -> Int64:
        """The number of each row in the source."""
        if self.start is None:
            raise InputError(
                "logits must have numbered rows for a report, got parts before "
                f"{self.name} whose rows are not counted"
            )
        position = np.arange(len(self.logits)) if self.chosen is None else self.chosen
        return self.start + position

    def buckets(self) -> Int64:
        """The bucket of each row's cluster, for `ClusterSums`."""
        if self.cluster is not None:
            return clusters.buckets_of_names(self.cluster)
        position = np.arange(len(self.logits)) if self.chosen is None else self.chosen
        item = (self.row + position - self.begin) // self.unit
        return clusters.buckets_of_numbers(self.begin + item, self.name)

    @contextlib.contextmanager
    def locating(self) -> Iterator[None]:
        """Name the file and its row in errors about a row of this batch."""
        try:
            yield
        except RowError as error:
            raise self.locate(error) from None

    def locate(self, error: RowError) -> RowError:
        """The same error with the file and its row in place of the position in the batch."""
        position = error.row if self.chosen is None else int(self.chosen[error.row])
        name = error.name
        if name == "logits":
            name = self.name
        elif self.name not in UNNAMED:
            name = f"{name} of {self.name}"
        row, label = divmod(self.row + position, self.each)
        got = error.got if self.each == 1 else f"{error.got} for label {label}"
        return RowError(name, error.must, got, row)


def of_rows(batch: Batch, of: Callable[[Batch], Result], rows: Int64) -> Result:
    """`of` over some rows of a batch; an error names the row in the batch."""
    try:
        return of(batch.take(rows))
    except RowError as error:  # the engine adds where the batch starts
        raise error.moved(int(rows[error.row]) - error.row) from None


def without_zero_weight(of: Callable[[Batch], Result], batch: Batch) -> Result:
    """`of` over the rows of a batch whose weight is above zero."""
    if batch.weight is None:
        return of(batch)
    weight = validation.weight_column(batch.weight, len(batch.logits))
    return of(batch) if weight.all() else of_rows(batch, of, np.flatnonzero(weight))


class Part(Protocol):
    """Rows that can be read by themselves, any number of times; `name` is for messages.

    `batches(size)` yields batches of about `size` rows, whose `start` counts from the part's first
    row. A `portable` part can be pickled and read on another machine.
    """

    name: str

    @property
    def portable(self) -> bool:
        """Whether the part can be read in another process."""
        return False

    @property
    def rows(self) -> int | None:
        """The number of rows, or None if it is not known before reading."""
        return None

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the rows."""
        raise NotImplementedError

    def select(self, keep: frozenset[str]) -> Self:  # noqa: ARG002  # for parts with columns
        """The same rows with only these of the columns of their source."""
        return self

    def leaves(self) -> "list[Part]":
        """The parts that read data, inside those that wrap others."""
        return [self]

    def map_leaves(self, change: "Callable[[Part], Part]") -> "Part":
        """The same part with each of its leaves replaced, in the order of `leaves`."""
        return change(self)


def count_rows(parts: tuple[Part, ...]) -> int | None:
    """The number of rows of all parts, or None if one of them is not counted."""
    counts = [part.rows for part in parts]
    return None if None in counts else sum(count or 0 for count in counts)


def chain_parts(parts: tuple[Part, ...], size: int) -> Iterator[Batch]:
    """The batches of all parts, one after the other."""
    return chain.from_iterable(part.batches(size) for part in parts)


def mismatch(name: str, rows: int, got: int | str) -> InputError:
    """The error for a column or a peer with more or fewer entries than there are rows."""
    return InputError(f"{name} must have one entry for each of the {rows} rows, got {got}")


@dataclass(frozen=True, eq=False)
class ArrayPart(Part):
    """An array in memory, or memory-mapped, with its classes on the last axis."""

    array: Any
    name: str = "logits"

    @property
    def rows(self) -> int:
        """The number of rows over all axes but that of the classes."""
        return math.prod(row_shape(self.array))

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield views where the layout allows it."""
        start = 0
        for rows in shapes.slices(self.array, size):
            yield Batch(rows, start=start, name=self.name, row=start, unit=unit_of(self.array))
            start += len(rows)


def unit_of(array: Any) -> int:
    """How many rows each item on the first axis has, such as the pixels of an image."""
    return max(1, math.prod(row_shape(array)[1:]))


class ItemCounter:
    """Where the items of each batch begin, for batches of one pass in their order.

    As long as all items are of one size they are counted from the first row, as in an array, so
    that the clusters are the same however the rows are cut into batches.
    """

    def __init__(self) -> None:
        self._unit: int | None = None
        self._alike = True

    def place(self, unit: int, row: int) -> dict[str, Any]:
        """`unit` and `begin` of the batch that begins at this row."""
        self._alike = self._alike and self._unit in (None, unit)
        self._unit = unit
        return {"unit": unit, "begin": 0 if self._alike else row}


def row_shape(array: Any) -> tuple[int, ...]:
    """The shape without the class axis, which is the last."""
    return tuple(array.shape) if array.ndim == 1 else tuple(array.shape[:-1])


@dataclass(frozen=True, eq=False)
class CallablePart(Part):
    """The batches that a function yields, afresh in each pass."""

    produce: Callable[[], Iterable[Any]]
    class_axis: int | None
    name: str = "logits"
    _last: list[Any] = field(default_factory=list, init=False)

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield copies, since the function may use the same memory again."""
        produced = self.produce()
        self._refuse_spent(produced)
        row, items = 0, ItemCounter()
        for given in produced:
            array = shapes.class_last(validation.as_array(given), self.class_axis)
            if not len(array):
                continue
            if array.ndim < 2:
                raise InputError(
                    "logits must come in batches of two dimensions, (n, 1) for binary logits, "
                    f"got a batch of shape {array.shape}"
                )
            step = min(size, shapes.rows_per_batch(array.shape[-1]))
            place = items.place(unit_of(array), row)
            for rows in shapes.slices(np.array(array), step):
                yield Batch(rows, start=row, name=self.name, row=row, **place)
                row += len(rows)

    def _refuse_spent(self, produced: Any) -> None:
        if not isinstance(produced, Iterable) or hasattr(produced, "ndim"):
            kind = type(produced).__name__
            raise InputError(
                f"logits must be a function that yields batches, got one giving {kind}"
            )
        if any(produced is spent for spent in self._last):
            raise InputError(
                "logits must be a function that yields the batches afresh, "
                "got one that gives the same iterator again"
            )
        self._last[:] = [produced] if isinstance(produced, Iterator) else []
