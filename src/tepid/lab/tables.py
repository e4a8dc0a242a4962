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
_MEASURES = {"nll": "NLL", "ece": "ECE", "temperature": "T"}
# Printed digits of measured figures; the paper prints three everywhere.
_DIGITS = {"nll": 4, "temperature": 3, "accuracy": 2}
# ECE in percent as in Table 1 or as a fraction as in Table 2: factor, digits here and there.
_UNITS = {"percent": (100.0, 2, 3), "fraction": (1.0, 4, 3)}
_FIRST = ("Model", "Dataset", "From")
_MARKS = {True: " ✓", False: " ✗", None: ""}
_KEY = (
    "Mean ± standard deviation over splits of 20 % to calibrate and 80 % to report. ✓: the paper's "
    "figure, of one split, lies within two standard deviations; ✗: it does not."
)
_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;margin:2rem;color:#1a1a1a;background:#fff}"
    "table{border-collapse:collapse;margin:0 0 1rem;font-variant-numeric:tabular-nums}"
    "caption{text-align:left;font-weight:600;padding:.5rem 0}"
    "th,td{padding:.2rem .6rem;text-align:right;white-space:nowrap}"
    "th[colspan]{text-align:center}th.name{text-align:left}"
    "thead{border-bottom:2px solid}tr.paper{border-top:1px solid #999}"
    "tr.paper td,tr.paper th{color:#555}td.agrees{color:#00664d}td.differs{color:#a33e00}"
    "div{overflow-x:auto}"
    "@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}"
    "tr.paper td,tr.paper th{color:#aaa}td.agrees{color:#5fd3a8}td.differs{color:#ff9d5c}}"
)
_TEX = {"\\": r"\textbackslash{}", "±": r"$\pm$", "∞": r"$\infty$", "✓": r"$\checkmark$",
        "✗": r"$\times$"} | {c: rf"\{c}" for c in "&%$#_{}"}  # fmt: skip


@dataclass(frozen=True)
class Text:
    """The text of a cell, and whether it agrees with the paper's; None if not comparable."""

    text: str
    agrees: bool | None = None


@dataclass(frozen=True)
class Line:
    """A line of a table: its first three columns, and a cell for each other column."""

    model: str
    dataset: str
    source: str
    cells: tuple[Text, ...]


@dataclass(frozen=True)
class Sheet:
    """A table with columns in named groups; `unit` is that of ECE."""

    title: str
    unit: str
    lines: tuple[Line, ...]

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """The groups of columns after the first four, and their widths."""
        return tuple((TITLES[name], len(measures)) for name, measures in METHODS.items())

    @property
    def head(self) -> tuple[str, ...]:
        """The columns after the first three, without their groups."""
        ece = "ECE %" if self.unit == "percent" else "ECE"
        names = [_MEASURES[m] for measures in METHODS.values() for m in measures]
        return ("Accuracy %", *(ece if name == "ECE" else name for name in names))


@dataclass(frozen=True)
class Tables:
    """The measured rows, the paper's rows, and the number of splits."""

    rows: tuple[Row, ...]
    published: tuple[Published, ...]
    seeds: int

    @property
    def sheets(self) -> tuple[Sheet, ...]:
        """Table 1, Table 2, and the sets that the paper does not have."""
        return _layout(self.rows, self.published)

    @property
    def notes(self) -> list[str]:
        """One sentence for each row that is compared with the paper."""
        return _notes(self.rows, self.published)

    def as_json(self) -> dict[str, Any]:
        """The tables for JSON; ECE is a fraction of one."""
        return {
            "seeds": self.seeds,
            "fraction": 0.2,
            "rows": [_row_json(row) for row in self.rows],
            "missing": [p.recipe for p in _missing(self.rows, self.published)],
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


# --- notes


def _notes(rows: Sequence[Row], published: Sequence[Published]) -> list[str]:
    lines = [_note(row, paper) for paper in published for row in rows if row.published == paper]
    missing = _missing(rows, published)
    if missing:
        names = ", ".join(f"{p.model} on {p.dataset} (tepid lab train {p.recipe})" for p in missing)
        lines.append(f"No logits at hand of {names}.")
    return lines


def _missing(rows: Sequence[Row], published: Sequence[Published]) -> list[Published]:
    there = {row.published for row in rows}
    return [p for p in published if p not in there]


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


# --- layout


def _layout(rows: Sequence[Row], published: Sequence[Published]) -> tuple[Sheet, ...]:
    first = _sheet(
        "Table 1: the paper's networks, its Table 2 among them", "percent", rows, published
    )
    isic = [p for p in published if p.table == 2]
    second = _sheet(
        "Table 2: skin lesions, ECE as a fraction of one as in the paper", "fraction", rows, isic
    )
    others = tuple(_measured_line(row, "percent") for row in rows if row.published is None)
    third = Sheet("Other sets, which the paper does not have", "percent", others)
    return tuple(sheet for sheet in (first, second, third) if sheet.lines)


def _sheet(title: str, unit: str, rows: Sequence[Row], published: Sequence[Published]) -> Sheet:
    lines: list[Line] = []
    for paper in published:
        lines.append(_published_line(paper, unit))
        lines += [_measured_line(row, unit) for row in rows if row.published == paper]
    return Sheet(title, unit, tuple(lines))


def _published_line(paper: Published, unit: str) -> Line:
    factor, _, digits = _UNITS[unit]

    def text(method: str, measure: str) -> Text:
        value = (factor if measure == "ece" else 1.0) * paper.get(method, measure)[0]
        return Text("" if math.isnan(value) else f"{value:.{digits}f}")

    accuracy = Text(f"{100 * paper.get('uncalibrated', 'accuracy')[0]:.2f}")
    cells = (text(method, m) for method, measures in METHODS.items() for m in measures)
    return Line(paper.model, paper.dataset, "paper, one split", (accuracy, *cells))


def _measured_line(row: Row, unit: str) -> Line:
    factors = {"ece": _UNITS[unit][0], "accuracy": 100.0}
    digits = _DIGITS | {"ece": _UNITS[unit][1]}

    def text(measure: str, cell: Cell) -> Text:
        printed = _spread(cell, factors.get(measure, 1.0), digits[measure])
        return Text(printed, cell.agrees if row.same_network else None)

    paper = row.published
    model = paper.model if paper is not None and row.same_network else row.logits.network
    data = row.logits.data if paper is None else paper.dataset
    cells = (text(measure, cell) for (_, measure), cell in row.cells.items())
    return Line(model, data, row.logits.name, (text("accuracy", row.accuracy), *cells))


def _spread(cell: Cell, factor: float, digits: int) -> str:
    if math.isinf(cell.mean):
        return "∞"
    return f"{factor * cell.mean:.{digits}f} ± {factor * cell.sd:.{digits}f}"


# --- formats


def markdown(sheets: Sequence[Sheet], notes: Sequence[str]) -> str:
    """Markdown tables, padded so that they are readable in a terminal too."""
    parts = [f"{sheet.title}\n\n{_markdown_table(sheet)}\n" for sheet in sheets]
    return "\n".join([*parts, _KEY, "", *(f"- {note}" for note in notes), ""])


def latex(sheets: Sequence[Sheet], notes: Sequence[str]) -> str:
    """LaTeX tables with booktabs and amssymb, in the paper's order of columns."""
    comments = "\n".join(f"% {note}" for note in (_KEY, *notes))
    return "\n\n".join([*map(_latex_table, sheets), comments]) + "\n"


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


FORMATS: dict[str, Callable[[Sequence[Sheet], Sequence[str]], str]] = {
    "markdown": markdown,
    "latex": latex,
    "html": html,
}


def _markdown_table(sheet: Sheet) -> str:
    grouped = [name for name, width in sheet.groups for _ in range(width)]
    head = [sheet.head[0], *(f"{g} {h}" for g, h in zip(grouped, sheet.head[1:], strict=True))]
    cells = [[*_FIRST, *head], *map(_texts, sheet.lines)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    padded = [[c.ljust(w) for c, w in zip(row, widths, strict=True)] for row in cells]
    padded.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(row)} |" for row in padded)


def _marked(cell: Text) -> str:
    return f"{cell.text}{_MARKS[cell.agrees]}"


def _latex_table(sheet: Sheet) -> str:
    groups = " & ".join(
        rf"\multicolumn{{{width}}}{{c}}{{{_tex(name)}}}" for name, width in sheet.groups
    )
    lines = [
        f"% {sheet.title}",
        rf"\begin{{tabular}}{{lllr{''.join('r' * width for _, width in sheet.groups)}}}",
        r"\toprule",
        rf" & & & & {groups} \\",
        " & ".join(map(_tex, (*_FIRST, *sheet.head))) + r" \\",
        r"\midrule",
        *(" & ".join(map(_tex, _texts(line))) + r" \\" for line in sheet.lines),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def _texts(line: Line) -> list[str]:
    return [line.model, line.dataset, line.source, *map(_marked, line.cells)]


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)


def _html_table(sheet: Sheet) -> str:
    groups = "".join(
        f'<th colspan="{w}" scope="colgroup">{escape(g)}</th>' for g, w in sheet.groups
    )
    names = "".join(f'<th class="name" scope="col">{name}</th>' for name in _FIRST)
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in sheet.head)
    rows = "".join(map(_html_row, sheet.lines))
    return (
        f"<div><table><caption>{escape(sheet.title)}</caption><thead>"
        f'<tr><td colspan="4"></td>{groups}</tr><tr>{names}{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _html_row(line: Line) -> str:
    kinds = {True: ' class="agrees"', False: ' class="differs"', None: ""}
    names = "".join(
        f'<th class="name" scope="row">{escape(name)}</th>'
        for name in (line.model, line.dataset, line.source)
    )
    cells = "".join(f"<td{kinds[c.agrees]}>{escape(_marked(c))}</td>" for c in line.cells)
    paper = ' class="paper"' if line.source.startswith("paper") else ""
    return f"<tr{paper}>{names}{cells}</tr>"


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
