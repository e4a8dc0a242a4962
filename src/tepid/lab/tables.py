"""The paper's Tables 1 and 2, measured again on given logits, as Markdown, LaTeX or HTML."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from tepid.engines import Threads
from tepid.lab import sets
from tepid.lab.paper import METHODS, Cell, Published, Row, measure_sets, published

TITLES = {
    "uncalibrated": "Uncalibrated",
    "temperature": "TS",
    "uts": "UTS",
    "accuracy": "Accuracy matching",
}
# Printed digits of measured figures; the paper prints three everywhere.
_DIGITS = {"nll": 4, "temperature": 3, "accuracy": 2}
# ECE in percent as in Table 1 or as a fraction as in Table 2: its name, factor and digits.
_UNITS = {"percent": ("ECE %", 100.0, 2), "fraction": ("ECE", 1.0, 4)}
_FIRST = ("Model", "Dataset", "From")
_MARKS = {True: " ✓", False: " ✗", None: ""}
_KEY = (
    "Mean ± standard deviation over splits of 20 % to calibrate and 80 % to report. ✓: the paper's "
    "figure, of one split, lies within two standard deviations; ✗: it does not."
)
_STYLE = (
    ":root{color-scheme:light dark}body{font:14px/1.5 system-ui,sans-serif;margin:2rem}"
    "table{border-collapse:collapse;margin:0 0 1rem;font-variant-numeric:tabular-nums}"
    "caption{text-align:left;font-weight:600;padding:.5rem 0}div{overflow-x:auto}"
    "th,td{padding:.2rem .6rem;text-align:right;white-space:nowrap}th.name{text-align:left}"
    "thead{border-bottom:2px solid}tr.paper{border-top:1px solid;opacity:.7}"
    "td.agrees{color:#1a8a6a}td.differs{color:#d05a00}"
)
_CLASSES = {True: ' class="agrees"', False: ' class="differs"', None: ""}
_TEX = {"\\": r"\textbackslash{}", "±": r"$\pm$", "∞": r"$\infty$", "✓": r"$\checkmark$",
        "✗": r"$\times$"} | {c: rf"\{c}" for c in "&%$#_{}"}  # fmt: skip


@dataclass(frozen=True)
class Text:
    """The text of a cell, and whether it agrees with the paper's; None if not comparable."""

    text: str
    agrees: bool | None = None

    @property
    def marked(self) -> str:
        """The text with a mark if it is comparable."""
        return f"{self.text}{_MARKS[self.agrees]}"


@dataclass(frozen=True)
class Line:
    """A line of a table: its first three columns, and a cell for each other column."""

    model: str
    dataset: str
    source: str
    cells: tuple[Text, ...]

    @property
    def texts(self) -> list[str]:
        """The text of every column."""
        return [self.model, self.dataset, self.source, *(cell.marked for cell in self.cells)]


@dataclass(frozen=True)
class Sheet:
    """A table; `unit` is that of ECE."""

    title: str
    unit: str
    lines: tuple[Line, ...]

    @property
    def head(self) -> list[str]:
        """The columns after the first three."""
        names = {"nll": "NLL", "ece": _UNITS[self.unit][0], "temperature": "T"}
        of = [f"{TITLES[method]} {names[m]}" for method, every in METHODS.items() for m in every]
        return ["Accuracy %", *of]


@dataclass(frozen=True)
class Tables:
    """The measured rows, the paper's rows, and the number of splits."""

    rows: tuple[Row, ...]
    published: tuple[Published, ...]
    seeds: int

    @property
    def sheets(self) -> list[Sheet]:
        """Table 1, Table 2, and the sets that the paper does not have."""
        first = "Table 1: the paper's networks, its Table 2 among them"
        second = "Table 2: skin lesions, ECE as a fraction of one as in the paper"
        skin = [p for p in self.published if p.table == 2]
        others = tuple(_measured_line(row, "percent") for row in self.rows if row.published is None)
        sheets = (
            Sheet(first, "percent", self._lines(self.published, "percent")),
            Sheet(second, "fraction", self._lines(skin, "fraction")),
            Sheet("Other sets, which the paper does not have", "percent", others),
        )
        return [sheet for sheet in sheets if sheet.lines]

    def _lines(self, published: Sequence[Published], unit: str) -> tuple[Line, ...]:
        lines: list[Line] = []
        for paper in published:
            lines.append(_published_line(paper, unit))
            lines += [_measured_line(row, unit) for row in self.rows if row.published == paper]
        return tuple(lines)

    @property
    def missing(self) -> list[Published]:
        """The paper's rows without a set of logits."""
        there = {row.published for row in self.rows}
        return [p for p in self.published if p not in there]

    @property
    def notes(self) -> list[str]:
        """One sentence for each row that is compared with the paper, and on what is missing."""
        pairs = [(row, p) for p in self.published for row in self.rows if row.published == p]
        lines = [_note(row, paper) for row, paper in pairs]
        names = [f"{p.model} on {p.dataset} (tepid lab train {p.recipe})" for p in self.missing]
        return [*lines, f"No logits at hand of {', '.join(names)}."] if names else lines

    def as_json(self) -> dict[str, Any]:
        """The tables for JSON; ECE is a fraction of one."""
        return {
            "seeds": self.seeds,
            "fraction": 0.2,
            "rows": [_row_json(row) for row in self.rows],
            "missing": [p.recipe for p in self.missing],
        }


def table(
    folders: Iterable[str | os.PathLike[str]],
    *,
    seeds: int = 20,
    engine: Threads | None = None,
    beside: Sequence[Published] | None = None,
) -> Tables:
    """The paper's protocol over every set of logits in these folders, with the paper's figures.

    20 % of the rows of a set calibrate and 80 % are reported on, `seeds` times; the paper used one
    split. TS is the converged optimum, which the paper's TS was not everywhere.
    """
    paper = published() if beside is None else tuple(beside)
    rows = measure_sets(sets.find(folders), paper, seeds=seeds, engine=engine)
    return Tables(rows, paper, seeds)


# --- lines and notes


def _note(row: Row, paper: Published) -> str:
    """How many cells of a row agree with the paper's, and why the others do not.

    Where accuracy and NLL before calibration differ, the network is another one, and nothing that
    follows can be expected to agree.
    """
    nll = row.cells["uncalibrated", "nll"]
    apart = (
        f"accuracy {100 * row.accuracy.mean:.2f} % here and {100 * row.accuracy.paper:.2f} % "
        f"there, uncalibrated NLL {nll.mean:.3f} and {nll.paper:.3f}."
    )
    head = f"{paper.model} on {paper.dataset}, {row.logits.name}"
    if not row.same_network:
        return f"{head}: another network, {row.logits.network}, not to be compared: {apart}"
    agree, of = row.agreeing
    head = f"{head}: {agree} of {of} cells agree"
    if row.same_training:
        return f"{head}; before calibration it is the paper's network: {apart}"
    return f"{head}; another training: {apart}"


def _published_line(paper: Published, unit: str) -> Line:
    factor = _UNITS[unit][1]

    def text(method: str, measure: str) -> Text:
        value = (factor if measure == "ece" else 1.0) * paper.get(method, measure)[0]
        return Text("" if math.isnan(value) else f"{value:.3f}")

    accuracy = Text(f"{100 * paper.get('uncalibrated', 'accuracy')[0]:.2f}")
    cells = (text(method, m) for method, measures in METHODS.items() for m in measures)
    return Line(paper.model, paper.dataset, "paper, one split", (accuracy, *cells))


def _measured_line(row: Row, unit: str) -> Line:
    _, factor, ece_digits = _UNITS[unit]
    factors, digits = {"ece": factor, "accuracy": 100.0}, _DIGITS | {"ece": ece_digits}

    def text(measure: str, cell: Cell) -> Text:
        mean, sd = (factors.get(measure, 1.0) * value for value in (cell.mean, cell.sd))
        places = digits[measure]
        printed = "∞" if math.isinf(mean) else f"{mean:.{places}f} ± {sd:.{places}f}"
        return Text(printed, cell.agrees if row.same_network else None)

    paper = row.published
    model = paper.model if paper is not None and row.same_network else row.logits.network
    data = row.logits.data if paper is None else paper.dataset
    cells = (text(measure, cell) for (_, measure), cell in row.cells.items())
    return Line(model, data, row.logits.name, (text("accuracy", row.accuracy), *cells))


# --- formats


def markdown(sheets: Sequence[Sheet], notes: Sequence[str]) -> str:
    """Markdown tables, padded so that they are readable in a terminal too."""
    parts = [f"{sheet.title}\n\n{_markdown_table(sheet)}\n" for sheet in sheets]
    return "\n".join([*parts, _KEY, "", *(f"- {note}" for note in notes), ""])


def _markdown_table(sheet: Sheet) -> str:
    cells = [[*_FIRST, *sheet.head], *(line.texts for line in sheet.lines)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    padded = ([c.ljust(w) for c, w in zip(row, widths, strict=True)] for row in cells)
    return "\n".join(f"| {' | '.join(row)} |" for row in padded)


def latex(sheets: Sequence[Sheet], notes: Sequence[str]) -> str:
    """LaTeX tables with booktabs and amssymb, in the paper's order of columns."""
    comments = "\n".join(f"% {note}" for note in (_KEY, *notes))
    return "\n\n".join([*map(_latex_table, sheets), comments]) + "\n"


def _latex_table(sheet: Sheet) -> str:
    def row(texts: Sequence[str]) -> str:
        escaped = ("".join(_TEX.get(character, character) for character in t) for t in texts)
        return " & ".join(escaped) + r" \\"

    lines = [
        f"% {sheet.title}",
        rf"\begin{{tabular}}{{lll{'r' * len(sheet.head)}}}",
        r"\toprule",
        row([*_FIRST, *sheet.head]),
        r"\midrule",
        *(row(line.texts) for line in sheet.lines),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def html(sheets: Sequence[Sheet], notes: Sequence[str]) -> str:
    """One HTML page without external files."""
    tables = "".join(map(_html_table, sheets))
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>The paper's tables</title><style>{_STYLE}</style>"
        f"<h1>The paper's tables</h1>{tables}<p>{escape(_KEY)}</p><ul>{items}</ul></html>\n"
    )


def _html_table(sheet: Sheet) -> str:
    names = "".join(f'<th class="name" scope="col">{name}</th>' for name in _FIRST)
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in sheet.head)
    rows = "".join(map(_html_row, sheet.lines))
    return (
        f"<div><table><caption>{escape(sheet.title)}</caption>"
        f"<thead><tr>{names}{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _html_row(line: Line) -> str:
    names = (f'<th class="name" scope="row">{escape(name)}</th>' for name in line.texts[:3])
    cells = (f"<td{_CLASSES[cell.agrees]}>{escape(cell.marked)}</td>" for cell in line.cells)
    paper = ' class="paper"' if line.source.startswith("paper") else ""
    return f"<tr{paper}>{''.join(names)}{''.join(cells)}</tr>"


FORMATS: dict[str, Callable[[Sequence[Sheet], Sequence[str]], str]] = {
    "markdown": markdown,
    "latex": latex,
    "html": html,
}


# --- JSON


def _row_json(row: Row) -> dict[str, Any]:
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
        "note": None if paper is None else _note(row, paper),
        "accuracy": row.accuracy.as_json(),
        "methods": methods,
    }
