"""The paper's Tables 1 and 2 as text in cells, ready to be written in any form."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tepid.lab.agreement import Cell
from tepid.lab.paper import Published
from tepid.lab.rows import METHODS, Row

TITLES = {
    "uncalibrated": "Uncalibrated",
    "temperature": "TS",
    "uts": "UTS",
    "accuracy": "Accuracy matching",
}
_MEASURES = {"nll": "NLL", "ece": "ECE", "temperature": "T"}
# How many digits are printed of what is measured here; the paper has three everywhere.
_DIGITS = {"nll": 4, "temperature": 3, "accuracy": 2}
# In percent as in the paper's Table 1, or in fractions of one as in its Table 2.
_UNITS = {"percent": (100.0, 2, 3), "fraction": (1.0, 4, 3)}


@dataclass(frozen=True)
class Text:
    """What stands in a cell, and whether it agrees with the paper's, None where it says nothing."""

    text: str
    agrees: bool | None = None


@dataclass(frozen=True)
class Line:
    """A line of a table: its first three columns, and a cell for each other column."""

    model: str
    dataset: str
    whose: str
    cells: tuple[Text, ...]


@dataclass(frozen=True)
class Sheet:
    """A table with columns in named groups; `unit` is that of ECE."""

    title: str
    unit: str
    lines: tuple[Line, ...]

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """The groups of columns after the first four, and how wide each is."""
        return tuple((TITLES[name], len(measures)) for name, measures in METHODS.items())

    @property
    def head(self) -> tuple[str, ...]:
        """The columns after the first three, without their groups."""
        ece = "ECE %" if self.unit == "percent" else "ECE"
        names = [_MEASURES[m] for measures in METHODS.values() for m in measures]
        return ("Accuracy %", *(ece if name == "ECE" else name for name in names))


def sheets(rows: Sequence[Row], published: Sequence[Published]) -> tuple[Sheet, ...]:
    """Table 1, Table 2, and the sets that the paper does not have."""
    first = _beside(
        "Table 1: the paper's networks, its Table 2 among them", "percent", rows, published
    )
    isic = [p for p in published if p.table == 2]
    second = _beside(
        "Table 2: skin lesions, ECE as a fraction of one as in the paper", "fraction", rows, isic
    )
    others = tuple(_here(row, "percent") for row in rows if row.published is None)
    third = Sheet("Other sets, which the paper does not have", "percent", others)
    return tuple(sheet for sheet in (first, second, third) if sheet.lines)


def _beside(title: str, unit: str, rows: Sequence[Row], published: Sequence[Published]) -> Sheet:
    lines: list[Line] = []
    for paper in published:
        lines.append(_paper(paper, unit))
        lines += [_here(row, unit) for row in rows if row.published == paper]
    return Sheet(title, unit, tuple(lines))


def _paper(paper: Published, unit: str) -> Line:
    factor, _, digits = _UNITS[unit]

    def text(method: str, measure: str) -> Text:
        value = (factor if measure == "ece" else 1.0) * paper.get(method, measure)[0]
        return Text("" if math.isnan(value) else f"{value:.{digits}f}")

    accuracy = Text(f"{100 * paper.get('uncalibrated', 'accuracy')[0]:.2f}")
    cells = (text(method, m) for method, measures in METHODS.items() for m in measures)
    return Line(paper.model, paper.dataset, "paper, one split", (accuracy, *cells))


def _here(row: Row, unit: str) -> Line:
    factors = {"ece": _UNITS[unit][0], "accuracy": 100.0}
    digits = _DIGITS | {"ece": _UNITS[unit][1]}

    def text(measure: str, cell: Cell) -> Text:
        said = _spread(cell, factors.get(measure, 1.0), digits[measure])
        return Text(said, cell.agrees if row.same_network else None)

    paper = row.published
    model = paper.model if paper is not None and row.same_network else row.logits.network
    data = row.logits.data if paper is None else paper.dataset
    cells = (text(measure, cell) for (_, measure), cell in row.cells.items())
    return Line(model, data, row.logits.name, (text("accuracy", row.accuracy), *cells))


def _spread(cell: Cell, factor: float, digits: int) -> str:
    if math.isinf(cell.mean):
        return "∞"
    return f"{factor * cell.mean:.{digits}f} ± {factor * cell.sd:.{digits}f}"
