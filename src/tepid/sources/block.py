"""A source: logits that can be read as blocks, with what is known of each row beside them."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tepid import shapes
from tepid.arrays import Int64
from tepid.errors import InputError, RowError
from tepid.sources.following import Following, mismatch

# Where the rows before a block were not counted, it begins here.
UNCOUNTED = 1 << 62
_LEFT_OUT = "files were left out with all of their rows"


class Block(NamedTuple):
    """Rows `start`, `start + 1`, … of a source, or, where `numbers` is given, the rows it lists.

    `peers` are the same rows as other models see them. `at` is the row of the file or partition
    called `name` with which the block begins, where that is not the whole source; or it is every
    row, where some between them were left out.
    """

    logits: Any
    labels: Any
    weight: Any
    start: int
    name: str
    groups: Any = None
    peers: tuple[Any, ...] = ()
    numbers: Int64 | None = None
    at: int | Int64 | None = None

    def part(self, chosen: Int64) -> "Block":
        """The rows at these places in the block."""
        numbers = self.start + chosen if self.numbers is None else self.numbers[chosen]
        labels, weight, groups = (
            None if column is None else column[chosen]
            for column in (self.labels, self.weight, self.groups)
        )
        peers = tuple(peer[chosen] for peer in self.peers)
        return self._replace(
            logits=self.logits[chosen], labels=labels, weight=weight, groups=groups, peers=peers,
            numbers=numbers,
        )  # fmt: skip

    def row(self, place: int) -> int:
        """The row of the source, or of the part, that is at this place in the block."""
        if self.at is None:
            return self.start + place
        return self.at + place if isinstance(self.at, int) else int(self.at[place])

    def rows(self) -> Int64:
        """The number of each row in the source."""
        if self.numbers is not None:
            return self.numbers
        if self.start >= UNCOUNTED:
            raise InputError(
                "rows must have numbers, for halves of them or a report, got parts before "
                f"{self.name} whose rows are not counted"
            )
        return np.arange(self.start, self.start + len(self.logits))

    def half(self, parity: int) -> Int64:
        """The places of the even or odd rows of the source, whatever the blocks are."""
        return np.flatnonzero(self.rows() % 2 == parity)


@dataclass(frozen=True)
class Part:
    """Rows that can be read by themselves, here or on another machine: a file, or a partition.

    `read(rows)` yields blocks of about that many rows afresh, each with the columns that it
    carries; their `start` counts from the part's first row. A part travels, so it holds a path and
    not an open file. `digest` tells the size and the hash of what it holds. `lazy` are the columns
    of a partition by name, as Dask's delayed values. `pieces` are the same rows in smaller parts,
    if it has any.
    """

    name: str
    read: Callable[[int], Iterator[Block]]
    rows: int | None = None
    digest: Callable[[], str] | None = None
    lazy: Any = None
    pieces: tuple["Part", ...] = ()


@dataclass(frozen=True, eq=False)
class Carried:
    """A column that comes block by block with the logits; as an array, all of it is read."""

    whole: Callable[[], Any]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:  # noqa: FBT001  # NumPy's
        column = np.asarray(self.whole(), dtype)
        return column.copy() if copy else column


@dataclass(frozen=True)
class Source:
    """Logits as blocks; `read(rows)` yields arrays (n, k) of about that many rows, afresh.

    A source of several files or partitions has `parts`, and its `read` yields their blocks, with
    the columns that are `Carried`; where the parts must be `decoded` or fetched, several of them
    are read at once. `frame` is the table of another system, such as Spark, that holds the rows.

    `lead` is the shape of an array without its class axis, where there is such an array; `binary`
    says that it holds one logit for each row. `groups` names the group of each row; `peers` are
    sources of the same rows. `estimate` is about how many rows there are where nobody has counted
    them, which progress goes by and nothing else. `left_out` are files that could not be used, by
    name, with what is wrong with each.
    """

    read: Callable[[int], Iterator[Any]]
    name: str = "logits"
    rows: int | None = None
    classes: int | None = None
    lead: tuple[int, ...] | None = None
    binary: bool = False
    repeatable: bool = True
    labels: Any = None
    weight: Any = None
    groups: Any = None
    peers: tuple["Source", ...] = ()
    estimate: int | None = None
    parts: tuple[Part, ...] = ()
    decoded: bool = False
    frame: Any = None
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def expected(self) -> int | None:
        """How many rows there are, or about how many."""
        return self.estimate if self.rows is None else self.rows

    @property
    def notes(self) -> tuple[str, ...]:
        """What every result on these rows must say."""
        if not self.left_out:
            return ()
        count = len(self.left_out)
        why = "; ".join(reason for _, reason in self.left_out[:5])
        more = f"; and {count - 5} more" if count > 5 else ""
        of = count + len(self.parts)
        return (f"{count} of {of} {_LEFT_OUT}: {why}{more}.",)

    def blocks(self, rows: int, *, some: bool = True) -> Iterator[Block]:
        """Every block in order, its columns cut to match; checks that all of them line up.

        Unless there need not be `some`, no rows at all are refused.
        """
        start, classes = 0, self.classes
        others = [Following(peer.name, peer.logits(rows)) for peer in self.peers]
        for piece in self.read(rows):
            block = (
                piece if isinstance(piece, Block) else Block(piece, None, None, start, self.name)
            )
            stop = start + block.logits.shape[0]
            k = shapes.class_count(block.logits)
            if classes is not None and k != classes:
                raise InputError(
                    f"{block.name} must have {classes} classes in every block, "
                    f"got {k} in the block that starts at row {block.row(0)}"
                )
            classes = k
            labels, weight, groups = (
                _cut(column, given, start, stop, name)
                for (name, column), given in zip(
                    self._columns(), (block.labels, block.weight, block.groups), strict=True
                )
            )
            peers = tuple(other.next_rows(stop - start, start, k) for other in others)
            yield block._replace(
                labels=labels, weight=weight, start=start, groups=groups, peers=peers
            )
            start = stop
        self._check_end(start, some=some)
        for other in others:
            other.check_end(start)

    def logits(self, rows: int) -> Iterator[Any]:
        """The logits of every block and nothing beside them."""
        for piece in self.read(rows):
            yield piece.logits if isinstance(piece, Block) else piece

    def _columns(self) -> tuple[tuple[str, Any], ...]:
        return (
            ("labels", self.labels),
            ("sample_weight", self.weight),
            ("groups", self.groups),
        )

    def _check_end(self, rows: int, *, some: bool) -> None:
        if rows == 0 and some:
            raise InputError(f"{self.name} must have at least one row, got none")
        for name, column in self._columns():
            if column is not None and not isinstance(column, Carried) and len(column) != rows:
                raise mismatch(name, len(column), rows)

    def unlabelled(self) -> "Source":
        """The same logits, weights and groups without the labels."""
        return dataclasses.replace(self, labels=None)

    def whole(self) -> Any:
        """All rows as one array (n, k)."""
        return shapes.joined([block.logits for block in self.blocks(1 << 16)])


def _cut(column: Any, carried: Any, start: int, stop: int, name: str) -> Any:
    if column is None:
        return None
    if isinstance(column, Carried):
        return carried
    if len(column) < stop:
        raise mismatch(name, len(column), stop)
    return column[start:stop]


def tells_of_files(sentence: str) -> bool:
    """Whether it is a note on files that were left out, which is no doubt about the others."""
    return f" {_LEFT_OUT}: " in sentence


def located(error: RowError, block: Block) -> RowError:
    """A complaint about a block's row, told of the whole source, or of the part it is in."""
    name = block.name if error.name == "logits" else error.name
    if block.at is not None and error.name != "logits":
        name = f"{error.name} of {block.name}"
    return RowError(name, error.must, error.got, block.row(error.row))
