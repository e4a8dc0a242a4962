"""A source: logits that can be read as blocks, with labels and weights beside them."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tepid import shapes
from tepid.errors import InputError, RowError


class Block(NamedTuple):
    """Rows `start`, `start + 1`, … of a source."""

    logits: Any
    labels: Any
    weight: Any
    start: int
    name: str


@dataclass(frozen=True)
class Source:
    """Logits as blocks; `read(rows)` yields arrays (n, k) of about that many rows, afresh.

    `lead` is the shape of an array without its class axis, where there is such an array; `binary`
    says that it holds one logit for each row.
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

    def blocks(self, rows: int) -> Iterator[Block]:
        """Every block in order, its columns cut to match; checks that all of them line up."""
        start, classes = 0, self.classes
        for logits in self.read(rows):
            stop = start + logits.shape[0]
            k = shapes.class_count(logits)
            if classes is not None and k != classes:
                raise InputError(
                    f"{self.name} must have {classes} classes in every block, "
                    f"got {k} in the block that starts at row {start}"
                )
            classes = k
            labels = _cut(self.labels, start, stop, "labels")
            weight = _cut(self.weight, start, stop, "sample_weight")
            yield Block(logits, labels, weight, start, self.name)
            start = stop
        self._check_end(start)

    def _check_end(self, rows: int) -> None:
        if rows == 0:
            raise InputError(f"{self.name} must have at least one row, got none")
        for name, column in (("labels", self.labels), ("sample_weight", self.weight)):
            if column is not None and len(column) != rows:
                raise _mismatch(name, len(column), rows)

    def unlabelled(self) -> "Source":
        """The same logits and weights without the labels."""
        return dataclasses.replace(self, labels=None)

    def whole(self) -> Any:
        """All rows as one array (n, k)."""
        return shapes.joined([block.logits for block in self.blocks(1 << 16)])

    def half(self, parity: int) -> "Source":
        """Every second row, the even ones or the odd ones; the same rows whatever the blocks."""

        def read(rows: int) -> Iterator[Any]:
            start = 0
            for logits in self.read(rows):
                yield logits[(start + parity) % 2 :: 2]
                start += len(logits)

        weight = None if self.weight is None else self.weight[parity::2]
        rows = None if self.rows is None else (self.rows + 1 - parity) // 2
        return dataclasses.replace(
            self, read=read, rows=rows, lead=None, labels=None, weight=weight
        )


def _cut(column: Any, start: int, stop: int, name: str) -> Any:
    if column is None:
        return None
    if len(column) < stop:
        raise _mismatch(name, len(column), stop)
    return column[start:stop]


def _mismatch(name: str, got: int, rows: int) -> InputError:
    return InputError(f"{name} must have one entry for each of the {rows} rows, got {got}")


def located(error: RowError, block: Block) -> RowError:
    """A complaint about a block's row, told of the whole source."""
    about_logits = error.name == "logits"
    return error.moved(block.start, block.name if about_logits else error.name)
