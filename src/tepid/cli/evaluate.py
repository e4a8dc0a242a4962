"""`tepid score`, `tepid compare` and `tepid report`: what a calibration does to labeled rows."""

import csv
import dataclasses
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import tepid
from tepid.cli import console, options
from tepid.cli.calibrations import (
    Calibrator,
    check_groups,
    load_calibration,
    note_unknown_groups,
    note_warnings,
    uncalibrated,
    unknown_groups,
)
from tepid.cli.options import FileOptions

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from tepid.metrics import Interval
    from tepid.sources import Batch, Source
    from tepid.summaries import Reliability
    from tepid.validation import Array

# More logits than this are summed batch by batch, without the measures that need all rows.
_IN_MEMORY = 1 << 26
# Replaces a probability of zero where its logarithm is taken.
_LEAST = 1.2e-38


def _percent(value: float) -> str:
    return f"{100 * value:.2f} %"


def _number(value: float) -> str:
    return f"{value:.4f}"


# Every measure by its name in `tepid.metrics`, with its title and format on the screen.
_MEASURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "accuracy": ("accuracy", _percent),
    "confidence": ("mean confidence", _percent),
    "nll": ("NLL", _number),
    "excess_nll": ("NLL above the best T", _number),
    "brier": ("Brier", _number),
    "brier_calibration": ("  calibration part", _number),
    "brier_refinement": ("  refinement part", _number),
    "ece": ("ECE", _percent),
    "ece_equal_mass": ("ECE, equal mass", _percent),
    "ece_classwise": ("ECE, class-wise", _percent),
    "mce": ("MCE", _percent),
    "rmsce_debiased": ("L2, debiased", _percent),
    "smooth_ece": ("smooth ECE", _percent),
    "ks_error": ("KS error", _percent),
    "aurc": ("AURC", _number),
}


# --- tepid score


def score(
    *,
    logits: options.Logits,
    labels: options.Labels = "labels",
    calibration: options.Calibration = None,
    groups: options.Groups = None,
    draws: Annotated[
        int, typer.Option(help="Bootstrap draws for the intervals; 0 for none.")
    ] = 200,
    reading: FileOptions,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Print ECE, log loss and other measures on labeled rows, before and after a calibration.

    Example: tepid score logits.npy labels.npy -c calibration.json
    """
    if draws < 0:
        raise tepid.InputError(f"--draws must not be below zero, got {draws}")
    source = reading.open(logits, labels=labels, groups=groups)
    calibrator = None if calibration is None else load_calibration(calibration)
    if calibrator is not None:
        note_warnings(calibrator)
        check_groups(calibrator, source)
    with console.threads_with_progress(threads) as engine:
        rows = engine.total(partial(_score_batch, calibrator), source, "scoring")
        note_unknown_groups(rows.unknown)
        scores = Scores()
        if rows.batches is not None:
            with console.without_array_warnings():
                scores = _measure(rows.batches, calibrator, draws, engine)
        elif draws:
            console.note(
                "There are too many rows to keep in memory, so the measures have no intervals."
            )
    show_scores(rows.reliability, scores, as_json=as_json)


@dataclass(frozen=True, eq=False)
class _ScoredRows:
    """The reliability before and after a calibration, and the rows while they fit in memory."""

    reliability: "dict[str, Reliability]"
    unknown: int  # rows of groups that were not fitted
    logits: int  # how many numbers the batches hold
    batches: "tuple[Batch, ...] | None"

    def __add__(self, other: "_ScoredRows") -> "_ScoredRows":
        size, batches = self.logits + other.logits, None
        if self.batches is not None and other.batches is not None and size <= _IN_MEMORY:
            batches = self.batches + other.batches
        both = {name: one + other.reliability[name] for name, one in self.reliability.items()}
        return _ScoredRows(both, self.unknown + other.unknown, size, batches)


def _score_batch(calibrator: Calibrator | None, batch: "Batch") -> _ScoredRows:
    reliability = {"before": tepid.summaries.Reliability.of_logits(batch.logits, batch.labels)}
    unknown = 0
    if calibrator is not None:
        reliability["after"] = _reliability(calibrator, batch)
        unknown = unknown_groups(calibrator, batch)
    size = len(batch.logits) * tepid.shapes.class_count(batch.logits)
    return _ScoredRows(reliability, unknown, size, (batch,))


def _reliability(calibrator: Calibrator, batch: "Batch") -> "Reliability":
    if isinstance(calibrator, tepid.Temperature) and batch.group is None:
        calibrator.check_classes(tepid.shapes.class_count(batch.logits))
        t = calibrator.value
        return tepid.summaries.Reliability.of_logits(batch.logits, batch.labels, temperature=t)
    return tepid.summaries.Reliability.of(_calibrate(calibrator, batch), batch.labels)


def _calibrate(calibrator: Calibrator, batch: "Batch") -> "Array":
    """The probabilities of a batch, by group where it has groups."""
    groups = {} if batch.group is None else {"groups": batch.group}
    logits = batch.logits
    if not isinstance(calibrator, tepid.Temperature):
        # In float32 the probability of an unlikely label would round to zero, its NLL to inf.
        logits = logits.astype("float64")
    probabilities: Array = calibrator(logits, **groups)
    return probabilities


@dataclass(frozen=True)
class Scores:
    """Measures of all rows in memory, before and after a calibration, and how they change.

    Without `draws` the ends of every interval are NaN, and there are no changes.
    """

    measured: "dict[str, dict[str, Interval]]" = dataclasses.field(default_factory=dict)
    changes: "dict[str, Interval]" = dataclasses.field(default_factory=dict)
    draws: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The intervals as plain JSON values."""
        intervals = {
            name: {key: [i.low, i.high] for key, i in found.items()}
            for name, found in self.measured.items()
        }
        changes = {key: dataclasses.asdict(change) for key, change in self.changes.items()}
        plain = {"draws": self.draws, "intervals": intervals}
        return plain | ({"change": changes} if changes else {})


def _measure(
    batches: "tuple[Batch, ...]",
    calibrator: Calibrator | None,
    draws: int,
    engine: "tepid.Threads",
) -> Scores:
    """Every measure before and after, with the intervals of `draws` bootstrap draws."""
    import numpy as np  # noqa: PLC0415  # only when asked

    labels = np.concatenate([batch.labels for batch in batches])
    joined = tepid.shapes.joined
    probabilities = {"before": uncalibrated(joined([batch.logits for batch in batches]))}
    if calibrator is not None:
        probabilities["after"] = joined([_calibrate(calibrator, batch) for batch in batches])
    scores = Scores({name: {} for name in probabilities}, draws=draws)
    for done, key in enumerate(_MEASURES, 1):
        given = list(probabilities.values())
        if key == "excess_nll":  # takes logits, in which no label may be impossible
            given = [tepid.validation.logits_of(p.clip(_LEAST)) for p in given]
        found = _intervals(getattr(tepid.metrics, key), labels, given, draws)
        for name, interval in zip(probabilities, found, strict=False):
            scores.measured[name][key] = interval
        if len(found) > len(probabilities):
            scores.changes[key] = found[-1]
        if engine.progress:
            engine.progress("measuring", done, len(_MEASURES))
    return scores


def _intervals(measure: Any, labels: "Array", given: "list[Array]", draws: int) -> "list[Interval]":
    """A measure of each set of probabilities and, if there are two and draws, of their change."""
    if not draws:
        nan = math.nan
        return [tepid.metrics.Interval(measure(labels, p), nan, nan, nan, 0) for p in given]
    if len(given) == 1:
        return [tepid.metrics.bootstrap(measure, labels, given[0], draws=draws)]
    return list(tepid.metrics.intervals.compared(measure, labels, *given, draws=draws))


def show_scores(reliability: "dict[str, Reliability]", scores: Scores, *, as_json: bool) -> None:
    """Print every measure with its interval, and the reliability diagrams."""
    values = {
        name: tepid.comparison.measures(r)
        | {key: interval.value for key, interval in scores.measured.get(name, {}).items()}
        for name, r in reliability.items()
    }
    if as_json:
        plain = {"samples": round(reliability["before"].rows)} | values
        console.print_json(plain | (scores.as_dict() if scores.draws else {}))
        return
    screen = console.console()
    screen.print(_score_table(values, scores.changes))
    if scores.draws:
        columns = ("", *scores.measured)
        table = console.table(
            *columns, title="95 % intervals", left=len(columns), padding=1, wrap=False
        )
        for key, (title, form) in _MEASURES.items():
            table.add_row(title, *(_ends(each[key], form) for each in scores.measured.values()))
        screen.print(table)
        screen.print(
            f"From {scores.draws} bootstrap draws of the rows. Errors over bins are biased"
        )
        screen.print("upwards, so a value may lie above its interval; one row decides an MCE.")
    screen.print()
    screen.print(_reliability_diagram(reliability))


def _score_table(values: dict[str, dict[str, float]], changes: "dict[str, Interval]") -> "Table":
    """One row for each measure, with the interval of its change where there is a calibration."""
    more = ("change", "its 95 % interval") if changes else ()
    table = console.table("", *values, *more, title="score", padding=1, wrap=False)
    for key, (title, form) in _MEASURES.items():
        if not all(key in each for each in values.values()):
            continue
        change = changes.get(key)
        last = [] if change is None else [form(change.value), _ends(change, form)]
        table.add_row(title, *(form(each[key]) for each in values.values()), *last)
    if changes:
        table.columns[-1].justify = "left"
    return table


def _ends(interval: "Interval", form: Callable[[float], str]) -> str:
    # NaN means that there is no interval, as for an infinite NLL.
    return "" if math.isnan(interval.low) else f"[{form(interval.low)}, {form(interval.high)}]"


_BAR = 20


def _reliability_diagram(reliability: "dict[str, Reliability]") -> "Table":
    """One column of bars per summary: accuracy as a bar, confidence as a mark, by bin."""
    title = "reliability (█ accuracy, ◆ confidence, ! over 0.1 apart)"
    table = console.table(title=title, padding=1)
    table.add_column("bin", justify="right")
    for name in reliability:
        table.add_column(name)
        table.add_column("rows", justify="right")
    bins = next(iter(reliability.values())).bins
    for b in reversed(range(bins)):
        if any(r.count[b] for r in reliability.values()):
            cells = [cell for r in reliability.values() for cell in _diagram_cells(r, b)]
            table.add_row(f"{b / bins:.2f}–{(b + 1) / bins:.2f}", *cells)
    return table


def _diagram_cells(r: "Reliability", b: int) -> tuple["Text", str]:
    n = r.count[b]
    if not n:
        return console.styled(""), ""
    accuracy, mark = r.correct[b] / n, round(_BAR * r.confidence[b] / n)
    filled = round(_BAR * accuracy)
    bar = [*"█" * filled, *"·" * (_BAR - filled), " "]
    bar[min(mark, _BAR)] = "◆"
    apart = abs(accuracy - r.confidence[b] / n) > 0.1
    bar.append("!" if apart else " ")
    return console.styled("".join(bar), style="red" if apart else "cyan"), f"{n:.0f}"


# --- tepid compare

_FORMATS = ("table", "csv", "latex", "json")
_Cell = dict[str, float | None]
# What is shown of each method: its key, its title, a factor and how many digits.
_COLUMNS = (
    ("temperature", "T", 1, 3),
    ("nll", "NLL", 1, 4),
    ("ece", "ECE %", 100, 2),
    ("accuracy", "accuracy %", 100, 2),
)


def compare(
    *,
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
    reading: FileOptions,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Compare methods on labeled rows: fit a random part, score the rest, and repeat.

    Example: tepid compare logits.npz --methods all --models other.npy
    """
    if form not in _FORMATS:
        raise tepid.InputError(f"--format must be one of {', '.join(_FORMATS)}, got {form}")
    rows = reading.open(logits, labels=labels)
    data = rows.whole()
    others = [_read_other(reading, other, rows, data) for other in models or ()]
    judge = None if reference is None else _read_other(reading, reference, rows, data)
    older = reading.open_labeled(source)
    chosen: str | list[str] = methods
    if methods not in ("all", "default"):
        chosen = [name.strip() for name in methods.split(",")]
    with console.without_array_warnings(), console.threads_with_progress(threads) as engine:
        result = tepid.compare(
            data.logits,
            data.labels,
            methods=chosen,
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
        _show_comparison(result)
    else:
        typer.echo(_csv(result) if form == "csv" else _latex(result), nl=False)


def _read_other(reading: FileOptions, path: str, rows: "Source", data: "Batch") -> "Array":
    """Another model's logits in the order of the rows; of logs by id, NaN without an answer."""
    other = reading.open_other(path)
    if data.id is None or "id" not in other.columns:
        logits: Array = other.whole().logits
        return logits
    import numpy as np  # noqa: PLC0415  # only for logs

    found = tepid.sources.logs.resized(other, rows.classes).whole()
    index = tepid.sources.match_ids(data.id, found.id, path)
    console.notes(tepid.sources.ids.describe_unmatched(data.id, found.id, index, path))
    return np.where((index >= 0)[:, None], found.logits[index], np.nan)


def _show_comparison(result: dict[str, Any]) -> None:
    """Print a comparison as a table, within 80 columns for figures of ordinary length."""
    console.print_line(
        f"{result['splits']} splits of {result['samples']} rows, {result['fraction']:.0%} to "
        "calibrate; mean ± sd"
    )
    table = console.table("", *(title for _, title, _, _ in _COLUMNS), wrap=False)
    table.padding, table.pad_edge = (0, 1, 0, 0), False
    marks = {"best": " *", "near": " ≈", "": "  ", None: ""}
    for name, cells in _comparison_cells(result).items():
        table.add_row(name, *(text and text + marks[standing] for text, standing in cells))
    screen = console.console()
    screen.print(table)
    screen.print("* least, ≈ within one standard error of it")
    if result["cost_of_uts"] is not None:
        screen.print(f"uts took {result['cost_of_uts']:.1f} times as long as temperature")
    for name, reason in result["left_out"].items():
        console.note(f"{name} was left out: {reason}.")
    for name, m in result["methods"].items():
        if "refused" in m:
            console.note(f"{name} failed on {m['refused']} splits, which count as T = 1.")


def _latex(result: dict[str, Any]) -> str:
    """A tabular of booktabs, the best in bold and what is near it underlined."""
    titles = ["method", *(title.replace("%", r"\%") for _, title, _, _ in _COLUMNS)]
    lines = [r"\begin{tabular}{l" + "r" * len(_COLUMNS) + "}", r"\toprule"]
    lines += [" & ".join(titles) + r" \\", r"\midrule"]
    marks = {"best": r"{\boldmath%s}", "near": r"\underline{%s}", "": "%s", None: "%s"}
    for name, cells in _comparison_cells(result).items():
        row = [name]
        for text, standing in cells:
            number = text.replace("±", r"\pm").replace("∞", r"\infty")
            row.append(marks[standing] % f"${number}$" if text else "")
        lines.append(" & ".join(row) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _csv(result: dict[str, Any]) -> str:
    """One line for each method and measure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("method", "measure", "mean", "sd", "standing"))
    for name, m in result["methods"].items():
        for key, value in m.items():
            if key != "refused":
                standing = _standing(result, m, key) or ""
                writer.writerow((name, key, value["mean"], value["sd"], standing))
    return text.getvalue()


def _comparison_cells(result: dict[str, Any]) -> dict[str, list[tuple[str, str | None]]]:
    """For each method the text of every column, empty where it has none, and its standing."""
    return {
        name: [
            (_cell(m[key], factor, digits), _standing(result, m, key)) if key in m else ("", None)
            for key, _, factor, digits in _COLUMNS
        ]
        for name, m in result["methods"].items()
    }


def _standing(result: dict[str, Any], m: dict[str, _Cell], key: str) -> str | None:
    """Whether a method is the best by a loss, or as near to it as the splits can tell.

    The standard error is that of the mean of the best over its splits, which share rows: it is a
    guide to the eye and no test. Other measures have no standing.
    """
    if key not in ("nll", "ece"):
        return None
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


# --- tepid report


def report(
    *,
    logits: options.Logits,
    labels: options.AllLabels = None,
    calibration: Annotated[
        list[Path] | None,
        typer.Option(
            "-c",
            "--calibration",
            help="A file that `tepid fit -o` wrote; repeatable, the main one first.",
        ),
    ] = None,
    names: Annotated[
        Path | None, typer.Option(help="A text file with one class name per line.")
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Images of the rows: .npz or .npy of uint8, or a folder of files."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The heading of the report.")] = None,
    out: Annotated[Path, typer.Option("-o", "--output", help="The .html file to write.")] = Path(
        "report.html"
    ),
    reading: FileOptions,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Write a report: one HTML file with the verdict, diagrams and a slider for T.

    Example: tepid report logits.npy -c calibration.json -o report.html
    """
    options.check_suffix(out, ".html", ".htm", what="report")
    options.check_output(out, logits, labels, names, images, *(calibration or ()))
    data = reading.open(logits, labels=labels)
    temperatures = {str(path): tepid.load(path) for path in calibration or ()}
    with console.threads_with_progress(threads) as engine:
        tepid.report.write(
            out, data, temperatures=temperatures, names=names, images=images, title=title,
            engine=engine,
        )  # fmt: skip
    if as_json:
        console.print_json({"report": str(out)})
    else:
        console.print_line(f"wrote {out}")
