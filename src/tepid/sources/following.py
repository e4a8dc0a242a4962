"""Rows of another source beside those of the first, in the portions in which they come."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tepid import shapes
from tepid.arrays import Array
from tepid.errors import InputError


class Following:
    """A peer's rows, handed out in the portions in which the model's own come."""

    def __init__(self, name: str, blocks: Iterator[Any]) -> None:
        self.name, self.blocks = name, blocks
        self.left: list[Any] = []

    def next_rows(self, count: int, start: int, classes: int) -> Array:
        """The next so many rows."""
        there = sum(len(part) for part in self.left)
        while there < count:
            part = next(self.blocks, None)
            if part is None:
                raise mismatch(self.name, start + there, start + count)
            if shapes.class_count(part) != classes:
                got = shapes.class_count(part)
                raise InputError(
                    f"{self.name} must have the {classes} classes of logits, got {got}"
                )
            self.left.append(part)
            there += len(part)
        joined = self.left[0] if len(self.left) == 1 else shapes.joined(self.left)
        self.left = [joined[count:]] if there > count else []
        return np.asarray(shapes.matrix(joined[:count]))

    def check_end(self, rows: int) -> None:
        """Refuse rows that are left when the model has no more."""
        more = len(self.left) or next(self.blocks, None) is not None
        if more:
            raise mismatch(self.name, "more", rows)


def mismatch(name: str, got: int | str, rows: int) -> InputError:
    """A column or peer that has more or fewer rows than there are."""
    return InputError(f"{name} must have one entry for each of the {rows} rows, got {got}")
