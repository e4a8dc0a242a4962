"""Picks: the few rows that a report shows, chosen while the rows stream by."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid.arrays import Array, Float64, Int64
from tepid.report.summaries import Predictions

MOST = 12
_COLUMNS = ("score", "row", "label", "prediction", "before", "after")


@dataclass(frozen=True)
class Pick:
    """One row; `label` is -1 where there is none."""

    row: int
    label: int
    prediction: int
    before: float
    after: float


@dataclass(frozen=True)
class Top:
    """The rows of the highest scores, the first on ties; two of them add to the top of both."""

    table: Float64

    @classmethod
    def of(cls, *columns: Any) -> "Top":
        """The top of these rows; the columns are score, row, label, prediction, before, after."""
        table = np.array(columns, np.float64).reshape(len(_COLUMNS), -1)
        return cls(table[:, np.lexsort((table[1], -table[0]))[:MOST]])

    def __add__(self, other: "Top") -> "Top":
        return Top.of(*np.concatenate([self.table, other.table], axis=1))

    def picks(self) -> list[Pick]:
        """The rows, best first."""
        columns = self.table[1:].T.tolist()
        return [Pick(int(r), int(y), int(p), before, after) for r, y, p, before, after in columns]


@dataclass(frozen=True)
class Picks:
    """With labels, rows that were right and rows that were wrong; without, those that moved most.

    The wrong ones are those that were surest. The right ones are drawn by a fixed lot, since the
    surest of them would all say 100 %.
    """

    right: Top
    wrong: Top
    moved: Top

    @classmethod
    def of(
        cls,
        before: Predictions,
        after: Predictions,
        rows: Int64,
        *,
        there: Array,
        labels: Any = None,
    ) -> "Picks":
        """The picks of one block, whose rows have these numbers, among those that are `there`."""
        moved = np.abs(after.confidence - before.confidence)
        y = np.full(len(rows), -1) if labels is None else np.asarray(labels).reshape(-1)
        columns = (rows, y, before.best, before.confidence, after.confidence)

        def top(score: Float64, chosen: Array) -> Top:
            return Top.of(score[chosen], *(column[chosen] for column in columns))

        if labels is None:
            nobody = np.zeros(len(rows), bool)
            return cls(top(moved, nobody), top(moved, nobody), top(moved, there))
        right = before.best == y
        return cls(
            top(lot(rows), there & right),
            top(before.confidence, there & ~right),
            top(moved, np.zeros(len(rows), bool)),
        )

    def __add__(self, other: "Picks") -> "Picks":
        return Picks(self.right + other.right, self.wrong + other.wrong, self.moved + other.moved)


def lot(rows: Int64) -> Float64:
    """A score for each row that its number alone decides, scattered evenly."""
    # Multiplication by the golden ratio scatters neighbours (Knuth).
    return (rows.astype(np.uint64) * np.uint64(2654435769) % np.uint64(1 << 32)).astype(np.float64)
