"""A source: logits that can be read as blocks, with labels and weights beside them."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tepid import arrays
from tepid.arrays import InputError, RowError


class Block(NamedTuple):
    """Rows `start`, `start + 1`, … of a source."""

    logits: Any
    labels: Any
    weight: Any
    start: int
    name: str


@dataclass(frozen=True)
class Source:
    """Logits as blocks; `read(rows)` yields arrays (n, k) of about that many rows, afresh."""

    read: Callable[[int], Iterator[Any]]
    name: str = "logits"
    rows: int | None = None
    classes: int | None = None
    repeatable: bool = True
    labels: Any = None
    weight: Any = None

    def blocks(self, rows: int) -> Iterator[Block]:
        """Every block in order, its columns cut to match; checks that all of them line up."""
        start, classes = 0, self.classes
        for logits in self.read(rows):
            stop = start + logits.shape[0]
            k = logits.shape[1]
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
        if start == 0:
            raise InputError(f"{self.name} must have at least one row, got none")
        for name, column in (("labels", self.labels), ("sample_weight", self.weight)):
            if column is not None and len(column) != start:
                raise _mismatch(name, len(column), start)

    def unlabelled(self) -> "Source":
        """The same logits and weights without the labels."""
        return dataclasses.replace(self, labels=None)

    def whole(self) -> Any:
        """All rows as one array (n, k)."""
        return np.concatenate([arrays.matrix(block.logits) for block in self.blocks(1 << 16)])

    def half(self, parity: int) -> "Source":
        """Every second row, the even ones or the odd ones; the same rows whatever the blocks."""

        def read(rows: int) -> Iterator[Any]:
            start = 0
            for logits in self.read(rows):
                yield logits[(start + parity) % 2 :: 2]
                start += len(logits)

        weight = None if self.weight is None else self.weight[parity::2]
        rows = None if self.rows is None else (self.rows + 1 - parity) // 2
        return Source(read, self.name, rows, self.classes, self.repeatable, None, weight)


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


def slices(z: Any, rows: int) -> Iterator[Any]:
    """An array with its classes last, as (n, k) views or small copies of about `rows` rows."""
    if z.ndim <= 2:
        z = arrays.matrix(z) if z.ndim < 2 or z.shape[1] < 2 else z
        for start in range(0, z.shape[0], rows):
            yield z[start : start + rows]
        return
    inner = 1
    for length in z.shape[1:-1]:
        inner *= length
    step = max(1, rows // max(inner, 1))
    for start in range(0, z.shape[0], step):
        part = z[start : start + step]
        if inner > rows:
            yield from slices(part[0], rows)
        else:
            yield from slices(part.reshape(-1, z.shape[-1]), rows)
