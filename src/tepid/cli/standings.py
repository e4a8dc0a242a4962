"""A comparison of methods as a table, CSV or LaTeX."""

import csv
import io
import math
from typing import Any

from rich.table import Table

from tepid.cli import output

Cell = dict[str, float | None]
# What is shown of each method: its key, its title, a factor and how many digits.
_COLUMNS = (
    ("temperature", "T", 1, 3),
    ("nll", "NLL", 1, 4),
    ("ece", "ECE %", 100, 2),
    ("accuracy", "accuracy %", 100, 2),
)
_LEAST = ("nll", "ece")
_SLASH = chr(92)


def show(result: dict[str, Any]) -> None:
    """Print a comparison as a table, with what there is to say of it."""
    screen = output.console()
    screen.print(_title(result), soft_wrap=True)
    screen.print(table(result))
    screen.print("* least, ≈ within one standard error of it")
    if result["cost_of_uts"] is not None:
        screen.print(f"uts took {result['cost_of_uts']:.1f} times as long as temperature")
    _notes(result)


def table(result: dict[str, Any]) -> Table:
    """The methods with their figures, within 80 columns for figures of ordinary length."""
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    drawn.add_column(no_wrap=True)
    for _, title, _, _ in _COLUMNS:
        drawn.add_column(title, justify="right", no_wrap=True)
    for name, m in result["methods"].items():
        drawn.add_row(name, *(_marked(result, m, *column) for column in _COLUMNS))
    return drawn


def _notes(result: dict[str, Any]) -> None:
    for name, reason in result["left_out"].items():
        output.note(f"{name} was left out: {reason}.")
    for name, m in result["methods"].items():
        if "refused" in m:
            output.note(f"{name} refused {m['refused']} splits, which count as T = 1.")


def _title(result: dict[str, Any]) -> str:
    return (
        f"{result['splits']} splits of {result['samples']} rows, {result['fraction']:.0%} to "
        "calibrate; mean ± sd"
    )


def _marked(
    result: dict[str, Any], m: dict[str, Cell], key: str, _: str, factor: float, digits: int
) -> str:
    if key not in m:
        return ""
    mark = (
        {"best": " *", "near": " ≈", "": "  "}[_standing(result, m, key)] if key in _LEAST else ""
    )
    return f"{_cell(m[key], factor, digits)}{mark}"


def _standing(result: dict[str, Any], m: dict[str, Cell], key: str) -> str:
    """Whether a method is the best by a measure, or as near to it as the splits can tell.

    The standard error is that of the mean of the best over its splits, which share rows: it is a
    guide to the eye and no test.
    """
    best = min((other[key] for other in result["methods"].values()), key=lambda c: c["mean"])
    gap = (m[key]["mean"] or 0.0) - best["mean"]
    if gap <= 0:
        return "best"
    return "near" if gap <= (best["sd"] or 0.0) / math.sqrt(result["splits"]) else ""


def _cell(value: Cell, factor: float, digits: int) -> str:
    mean, sd = value["mean"], value["sd"]
    if mean is not None and math.isinf(mean):
        return "∞"
    spread = "" if sd is None else f" ± {factor * sd:.{digits}f}"
    return f"{factor * (mean or 0.0):.{digits}f}{spread}"


def as_csv(result: dict[str, Any]) -> str:
    """One line for each method and measure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("method", "measure", "mean", "sd", "standing"))
    for name, m in result["methods"].items():
        for key, value in m.items():
            if key != "refused":
                standing = _standing(result, m, key) if key in _LEAST else ""
                writer.writerow((name, key, value["mean"], value["sd"], standing))
    return text.getvalue()


def as_latex(result: dict[str, Any]) -> str:
    """A tabular of booktabs, the best in bold and what is near it underlined."""
    lines = [
        r"\begin{tabular}{l" + "r" * len(_COLUMNS) + "}",
        r"\toprule",
        " & ".join(["method", *(title.replace("%", r"\%") for _, title, _, _ in _COLUMNS)])
        + r" \\",
        r"\midrule",
    ]
    for name, m in result["methods"].items():
        cells = [_latex_cell(result, m, *column) for column in _COLUMNS]
        lines.append(" & ".join([name, *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _latex_cell(
    result: dict[str, Any], m: dict[str, Cell], key: str, _: str, factor: float, digits: int
) -> str:
    if key not in m:
        return ""
    plain = _cell(m[key], factor, digits)
    text = f"${plain.replace('±', _SLASH + 'pm').replace('∞', _SLASH + 'infty')}$"
    standing = _standing(result, m, key) if key in _LEAST else ""
    wrap = {"best": r"{\boldmath%s}", "near": r"\underline{%s}", "": "%s"}[standing]
    return wrap % text
