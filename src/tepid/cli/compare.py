"""`tepid compare`: methods side by side on random splits, as a table, CSV, LaTeX or JSON."""

import csv
import io
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

import tepid
from tepid.cli import console, options
from tepid.cli.options import FileOptions

if TYPE_CHECKING:
    from rich.table import Table

    from tepid.sources import Batch, Source
    from tepid.validation import Array

_FORMATS = ("table", "csv", "latex", "json")
_Cell = dict[str, float | None]
# What is shown of each method: its key, its title, a factor and how many digits.
_COLUMNS = (
    ("temperature", "T", 1, 3),
    ("nll", "NLL", 1, 4),
    ("ece", "ECE %", 100, 2),
    ("accuracy", "accuracy %", 100, 2),
)
_LEAST = ("nll", "ece")
_SLASH = chr(92)


def compare(
    logits: options.Logits,
    labels: options.Labels = "labels",
    methods: Annotated[
        str,
        typer.Option(
            help="Comma-separated methods, or all; by default those with one temperature."
        ),
    ] = "default",
    models: options.Models = None,
    reference: options.Reference = None,
    source: options.OlderSet = None,
    few: Annotated[
        int, typer.Option(help="Number of labels for the method calibrate+labels.")
    ] = 25,
    splits: Annotated[int, typer.Option(help="Number of random splits.")] = 10,
    fraction: Annotated[float, typer.Option(help="The share of the rows to fit.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Random seed of the splits.")] = 0,
    form: Annotated[
        str, typer.Option("--format", help="Output format: table, csv, latex or json.")
    ] = "table",
    columns: options.Columns = None,
    where: options.Where = None,
    header: options.Header = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Compare methods on labeled rows: fit a random part, score the rest, and repeat.

    Example: tepid compare logits.npz --methods all --models other.npy
    """
    if form not in _FORMATS:
        raise tepid.InputError(f"--format must be one of {', '.join(_FORMATS)}, got {form}")
    reading = FileOptions.of(columns, where, header, probabilities, class_axis)
    rows = reading.open(logits, labels=labels)
    data = rows.whole()
    others = [_read_other(reading, other, rows, data) for other in models or ()]
    judge = None if reference is None else _read_other(reading, reference, rows, data)
    older = reading.open_labeled(source)
    with console.without_array_warnings(), console.threads_with_progress(threads) as engine:
        result = tepid.compare(
            data.logits,
            data.labels,
            methods=methods if methods in ("all", "default") else _split(methods),
            models=others,
            reference=judge,
            source=None if older is None else (older, None),
            few=few,
            splits=splits,
            fraction=fraction,
            seed=seed,
            engine=engine,
        )
    if as_json or form == "json":
        console.print_json(result)
    elif form == "table":
        _show(result)
    else:
        printed = _csv if form == "csv" else _latex
        typer.echo(printed(result), nl=False)


def _read_other(reading: FileOptions, path: str, rows: "Source", data: "Batch") -> "Array":
    """Another model's logits in the order of the rows; of logs by id, NaN without an answer."""
    other = reading.open_other(path)
    if data.id is None or "id" not in other.columns:
        logits: Array = other.whole().logits
        return logits
    import numpy as np  # noqa: PLC0415  # only for logs

    found = tepid.sources.logs.resized(other, rows.classes).whole()
    index = tepid.sources.match_ids(data.id, found.id, path)
    console.notes(tepid.sources.matching.describe_unmatched(data.id, found.id, index, path))
    return np.where((index >= 0)[:, None], found.logits[index], np.nan)


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _show(result: dict[str, Any]) -> None:
    """Print a comparison as a table, with what there is to say of it."""
    screen = console.console()
    console.print_line(_title(result))
    screen.print(_table(result))
    screen.print("* least, ≈ within one standard error of it")
    if result["cost_of_uts"] is not None:
        screen.print(f"uts took {result['cost_of_uts']:.1f} times as long as temperature")
    _notes(result)


def _table(result: dict[str, Any]) -> "Table":
    """The methods with their figures, within 80 columns for figures of ordinary length."""
    drawn = console.table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    drawn.add_column(no_wrap=True)
    for _, title, _, _ in _COLUMNS:
        drawn.add_column(title, justify="right", no_wrap=True)
    for name, m in result["methods"].items():
        drawn.add_row(name, *(_marked(result, m, *column) for column in _COLUMNS))
    return drawn


def _notes(result: dict[str, Any]) -> None:
    for name, reason in result["left_out"].items():
        console.note(f"{name} was left out: {reason}.")
    for name, m in result["methods"].items():
        if "refused" in m:
            console.note(f"{name} failed on {m['refused']} splits, which count as T = 1.")


def _title(result: dict[str, Any]) -> str:
    return (
        f"{result['splits']} splits of {result['samples']} rows, {result['fraction']:.0%} to "
        "calibrate; mean ± sd"
    )


def _marked(
    result: dict[str, Any], m: dict[str, _Cell], key: str, _: str, factor: float, digits: int
) -> str:
    if key not in m:
        return ""
    mark = (
        {"best": " *", "near": " ≈", "": "  "}[_standing(result, m, key)] if key in _LEAST else ""
    )
    return f"{_cell(m[key], factor, digits)}{mark}"


def _standing(result: dict[str, Any], m: dict[str, _Cell], key: str) -> str:
    """Whether a method is the best by a measure, or as near to it as the splits can tell.

    The standard error is that of the mean of the best over its splits, which share rows: it is a
    guide to the eye and no test.
    """
    best = min((other[key] for other in result["methods"].values()), key=lambda c: c["mean"])
    gap = (m[key]["mean"] or 0.0) - best["mean"]
    if gap <= 0:
        return "best"
    return "near" if gap <= (best["sd"] or 0.0) / math.sqrt(result["splits"]) else ""


def _cell(value: _Cell, factor: float, digits: int) -> str:
    mean, sd = value["mean"], value["sd"]
    if mean is not None and math.isinf(mean):
        return "∞"
    spread = "" if sd is None else f" ± {factor * sd:.{digits}f}"
    return f"{factor * (mean or 0.0):.{digits}f}{spread}"


def _csv(result: dict[str, Any]) -> str:
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


def _latex(result: dict[str, Any]) -> str:
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
    result: dict[str, Any], m: dict[str, _Cell], key: str, _: str, factor: float, digits: int
) -> str:
    if key not in m:
        return ""
    plain = _cell(m[key], factor, digits)
    text = f"${plain.replace('±', _SLASH + 'pm').replace('∞', _SLASH + 'infty')}$"
    standing = _standing(result, m, key) if key in _LEAST else ""
    wrap = {"best": r"{\boldmath%s}", "near": r"\underline{%s}", "": "%s"}[standing]
    return wrap % text
