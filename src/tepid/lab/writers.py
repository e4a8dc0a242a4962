"""A table as Markdown, LaTeX or HTML; a cell is never cut, however wide the line becomes."""

from collections.abc import Callable, Sequence

from tepid.lab.sheets import Line, Sheet, Text
from tepid.report.markup import escape

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


def markdown(sheets: Sequence[Sheet], notes: Sequence[str]) -> str:
    """Tables for a page or a terminal, padded so that they read well in both."""
    parts = [f"{sheet.title}\n\n{_padded(sheet)}\n" for sheet in sheets]
    return "\n".join([*parts, _KEY, "", *(f"- {note}" for note in notes), ""])


def latex(sheets: Sequence[Sheet], notes: Sequence[str]) -> str:
    """Tables of booktabs and amssymb, in the paper's own order of columns."""
    said = "\n".join(f"% {note}" for note in (_KEY, *notes))
    return "\n\n".join([*map(_tabular, sheets), said]) + "\n"


def html(sheets: Sequence[Sheet], notes: Sequence[str]) -> str:
    """One page that needs nothing else."""
    tables = "".join(map(_table, sheets))
    said = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>The paper's tables</title><style>{_STYLE}</style>"
        f"<h1>The paper's tables</h1>{tables}<p>{escape(_KEY)}</p><ul>{said}</ul></html>\n"
    )


FORMS: dict[str, Callable[[Sequence[Sheet], Sequence[str]], str]] = {
    "markdown": markdown,
    "latex": latex,
    "html": html,
}


def _padded(sheet: Sheet) -> str:
    grouped = [name for name, width in sheet.groups for _ in range(width)]
    head = [sheet.head[0], *(f"{g} {h}" for g, h in zip(grouped, sheet.head[1:], strict=True))]
    body = [
        [line.model, line.dataset, line.whose, *map(_marked, line.cells)] for line in sheet.lines
    ]
    cells = [[*_FIRST, *head], *body]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    padded = [[c.ljust(w) for c, w in zip(row, widths, strict=True)] for row in cells]
    padded.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(row)} |" for row in padded)


def _marked(cell: Text) -> str:
    return f"{cell.text}{_MARKS[cell.agrees]}"


def _tabular(sheet: Sheet) -> str:
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
        *(" & ".join(map(_tex, _flat(line))) + r" \\" for line in sheet.lines),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def _flat(line: Line) -> list[str]:
    return [line.model, line.dataset, line.whose, *map(_marked, line.cells)]


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)


def _table(sheet: Sheet) -> str:
    groups = "".join(
        f'<th colspan="{w}" scope="colgroup">{escape(g)}</th>' for g, w in sheet.groups
    )
    names = "".join(f'<th class="name" scope="col">{name}</th>' for name in _FIRST)
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in sheet.head)
    rows = "".join(map(_tr, sheet.lines))
    return (
        f"<div><table><caption>{escape(sheet.title)}</caption><thead>"
        f'<tr><td colspan="4"></td>{groups}</tr><tr>{names}{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _tr(line: Line) -> str:
    kinds = {True: ' class="agrees"', False: ' class="differs"', None: ""}
    names = "".join(
        f'<th class="name" scope="row">{escape(name)}</th>'
        for name in (line.model, line.dataset, line.whose)
    )
    cells = "".join(f"<td{kinds[c.agrees]}>{escape(_marked(c))}</td>" for c in line.cells)
    paper = ' class="paper"' if line.whose.startswith("paper") else ""
    return f"<tr{paper}>{names}{cells}</tr>"
