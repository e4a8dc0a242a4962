"""The paper's tables, measured again on logits at hand."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tepid.engines import Threads
from tepid.lab import notes, rows, sets, sheets
from tepid.lab.paper import Published, published
from tepid.lab.rows import Row
from tepid.lab.sheets import Sheet


@dataclass(frozen=True)
class Tables:
    """Rows measured here, the paper's rows, and over how many splits."""

    rows: tuple[Row, ...]
    published: tuple[Published, ...]
    seeds: int

    @property
    def sheets(self) -> tuple[Sheet, ...]:
        """Table 1, Table 2 and what the paper does not have."""
        return sheets.sheets(self.rows, self.published)

    @property
    def notes(self) -> list[str]:
        """A line for each row that stands beside one of the paper."""
        return notes.notes(self.rows, self.published)

    def as_json(self) -> dict[str, Any]:
        """All of it for programs; shares, ECE among them, are fractions of one."""
        there = {row.published for row in self.rows}
        return {
            "seeds": self.seeds,
            "fraction": 0.2,
            "rows": [_plain(row) for row in self.rows],
            "missing": [p.recipe for p in self.published if p not in there],
        }


def table(
    folders: Iterable[str | os.PathLike[str]],
    *,
    seeds: int = 20,
    engine: Threads | None = None,
    beside: Sequence[Published] | None = None,
) -> Tables:
    """The paper's protocol over every set of logits in these folders, beside the paper's figures.

    20 % of the rows of a set calibrate and 80 % are reported on, `seeds` times; the paper used one
    split. TS is the converged optimum, which the paper's was not everywhere.
    """
    paper = published() if beside is None else tuple(beside)
    return Tables(rows.measure(sets.find(folders), paper, seeds=seeds, engine=engine), paper, seeds)


def _plain(row: Row) -> dict[str, Any]:
    paper = row.published
    methods: dict[str, dict[str, Any]] = {}
    for (method, measure), cell in row.cells.items():
        methods.setdefault(method, {})[measure] = cell.as_json()
    return {
        "set": row.logits.name,
        "network": row.logits.network,
        "data": row.logits.data,
        "recipe": row.logits.recipe,
        "samples": row.samples,
        "classes": row.classes,
        "paper_row": None if paper is None else paper.recipe,
        "same_network": row.same_network,
        "same_training": row.same_training,
        "note": None if paper is None else notes.note(row),
        "accuracy": row.accuracy.as_json(),
        "methods": methods,
    }
