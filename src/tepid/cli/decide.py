"""`tepid decide`, `tepid sets` and `tepid performance`: what to do with a calibrated model.

All three need no labels. The first two write a row for each row of the logits, batch by batch.
"""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import tepid
from tepid.cli import console, options
from tepid.cli.calibrations import check_groups, note_unknown_groups, unknown_groups
from tepid.cli.options import FileOptions

if TYPE_CHECKING:
    from tepid.decisions import Accepted, Interval, Performance, PredictionSets, Threshold
    from tepid.sources import Batch, Source
    from tepid.sources.writing import Lists, Rows
    from tepid.validation import Array

# A larger confusion matrix does not fit on a screen.
_MOST_CLASSES = 20


@dataclass(frozen=True)
class RowOptions:
    """The options that all three commands share: a calibration, and the rows to use it on."""

    logits: options.Shards
    calibration: Annotated[
        Path, typer.Option("-c", "--calibration", help="A file that `tepid fit -o` wrote.")
    ]
    classes: options.Classes = None
    sample_weight: options.SampleWeight = None
    groups: Annotated[
        str | None, typer.Option(help=f"The group of each row: {options.IN_FILE}.")
    ] = None
    threads: options.ThreadCount = None


@dataclass(frozen=True)
class TableOptions:
    """The options of the table that `decide` and `sets` write."""

    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="A row for each row of the logits: .csv or .parquet."),
    ] = None
    ids: options.Ids = None


def decide(
    *,
    given: RowOptions,
    precision: Annotated[
        float | None,
        typer.Option(help="The precision of accepted rows; 0.95 if no target is given."),
    ] = None,
    coverage: Annotated[float | None, typer.Option(help="The share of rows to accept.")] = None,
    cost: Annotated[
        str | None, typer.Option(help="The cost of an error and of a review, as in 10:1.")
    ] = None,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="One threshold per predicted class.")
    ] = False,
    cautious: Annotated[
        bool, typer.Option("--cautious", help="Write the decisions of the cautious threshold.")
    ] = False,
    table: TableOptions,
    reading: FileOptions,
    as_json: options.Json = False,
) -> None:
    """Choose which predictions to accept, for a target precision, coverage or cost.

    Example: tepid decide logits.npy -c calibration.json --precision 0.95 -o decisions.csv
    """
    if cautious and table.out is None:
        raise tepid.InputError("--cautious must go with -o, got it alone")
    costs = None if cost is None else _parse_cost(cost)
    with _open_rows(given, table, reading) as rows:
        found = rows.temperature.threshold(
            rows.source, precision=precision, coverage=coverage, cost=costs, per_class=per_class,
            names=rows.names, engine=rows.engine,
        )  # fmt: skip
        rows.write(lambda batch: _decide_batch(rows, found, batch, cautious=cautious))
    _show(found, rows, _show_threshold, as_json=as_json)


def sets(
    *,
    given: RowOptions,
    coverage: Annotated[
        float, typer.Option(help="The share of rows whose set should contain the label.")
    ] = 0.9,
    labeled: Annotated[
        str | None,
        typer.Option(
            help="A file with `logits` and `labels` that T was not fitted to: adds split "
            "conformal prediction."
        ),
    ] = None,
    table: TableOptions,
    reading: FileOptions,
    as_json: options.Json = False,
) -> None:
    """Find a prediction set for each row: the classes that may be its label.

    Example: tepid sets logits.npy -c calibration.json --coverage 0.9 -o sets.csv
    """
    with _open_rows(given, table, reading, labeled) as rows:
        column = options.column_name(given.groups)
        found = rows.temperature.prediction_sets(
            rows.source,
            coverage,
            labeled=reading.open_labeled(labeled, classes=rows.names, groups=column),
            engine=rows.engine,
        )
        rows.write(lambda batch: _sets_of_batch(rows, found, batch))
    _show(found, rows, _show_sets, as_json=as_json)


def performance(*, given: RowOptions, reading: FileOptions, as_json: options.Json = False) -> None:
    """Estimate accuracy, precision, recall and the confusion matrix without labels.

    Example: tepid performance logits.npy -c calibration.json
    """
    with _open_rows(given, TableOptions(), reading) as rows:
        found = rows.temperature.expected_performance(
            rows.source, names=rows.names, engine=rows.engine
        )
    _show(found, rows, _show_performance, as_json=as_json)


def _parse_cost(text: str) -> tuple[float, float]:
    try:
        error, review = (float(part) for part in text.split(":"))
    except ValueError:
        raise tepid.InputError(f"--cost must be ERROR:REVIEW, such as 10:1, got {text}") from None
    return error, review


# --- the rows


@dataclass
class _Rows:
    """The rows to decide on; counts those that are written."""

    temperature: "tepid.Temperature"
    source: "Source"
    names: list[str] | None
    engine: "tepid.Threads"
    out: Path | None
    written: int = 0
    unknown: int = 0

    def write(self, of: "Callable[[Batch], Rows]") -> None:
        """Write the table that `of` makes of each batch, if an output was named."""
        if self.out is not None:
            self.written = tepid.sources.write_table(self.out, self._tables(of))

    def _tables(self, of: "Callable[[Batch], Rows]") -> "Iterator[Rows]":
        size = tepid.shapes.rows_per_batch(self.temperature.classes)
        rows = self.source.select(weight=False, ids=True)
        done = 0
        for batch in rows.batches(size):
            try:
                yield {"id": batch.numbers() if batch.id is None else batch.id, **of(batch)}
            except tepid.errors.RowError as error:
                raise batch.locate(error) from None
            self.unknown += unknown_groups(self.temperature, batch)
            done += len(batch.logits)
            if self.engine.progress:
                self.engine.progress("writing", done, self.source.rows)

    def name(self, classes: "Array") -> "Array":
        """Numbers of classes as names, if there are names."""
        import numpy as np  # noqa: PLC0415  # only when asked

        return classes if self.names is None else np.array(self.names)[classes]


@contextmanager
def _open_rows(
    given: RowOptions, table: TableOptions, reading: FileOptions, labeled: str | None = None
) -> Iterator[_Rows]:
    """The rows and their engine; refuses what cannot be written before anything is read."""
    if table.out is not None:
        names_file = options.classes_file(given.classes)
        beside = (given.sample_weight, given.groups, table.ids, labeled, names_file)
        tepid.sources.writing.check_ending(table.out, table=True)
        options.check_output(table.out, *given.logits, given.calibration, *beside)
    temperature = tepid.load(given.calibration)
    step = temperature.next_step.replace("LOGITS", " ".join(given.logits))
    temperature = dataclasses.replace(temperature, next_step=step)
    source = reading.open(
        given.logits, sample_weight=given.sample_weight, groups=given.groups, ids=table.ids
    )
    check_groups(temperature, source)
    names = options.class_names(given.classes, source)
    with console.threads_with_progress(given.threads) as engine:
        yield _Rows(temperature, source, names, engine, table.out)


def _decide_batch(rows: _Rows, found: "Threshold", batch: "Batch", *, cautious: bool) -> "Rows":
    p, _ = tepid.decisions.calibrated(batch.logits, found.temperatures, groups=batch.group)
    predicted, confidence = p.argmax(axis=1), p.max(axis=1)
    accepted = found.accept(confidence, predicted, cautious=cautious)
    return {"prediction": rows.name(predicted), "confidence": confidence, "accepted": accepted}


def _sets_of_batch(rows: _Rows, found: "PredictionSets", batch: "Batch") -> "Rows":
    table = {"set": _lists(rows, found(batch.logits, groups=batch.group))}
    if found.conformal is not None:
        inside = found.conformal(batch.logits, groups=batch.group)
        table["conformal"] = _lists(rows, inside)
    return table


def _lists(rows: _Rows, inside: "Array") -> "Lists":
    return tepid.sources.writing.Lists(rows.name(inside.nonzero()[1]), inside.sum(axis=1))


# --- the screen


def _show(
    found: "Threshold | PredictionSets | Performance",
    rows: _Rows,
    show: Callable[[Any], None],
    *,
    as_json: bool,
) -> None:
    """Print what was found by `show`, what it rests on, and what was written; or JSON."""
    if as_json:
        written = {} if rows.out is None else {"output": str(rows.out), "written": rows.written}
        console.print_json(found.as_dict() | written)
        return
    show(found)
    t = rows.temperature
    trust = f"verdict: {found.verdict}. {t.reason}" if found.verdict else f"status: {t.status}"
    console.print_line(f"T = {t.value:.4g}; {trust}")
    console.print_line(f"assumption: {found.assumption}")
    console.notes(t.warnings)
    note_unknown_groups(rows.unknown)
    if rows.out is not None:
        console.print_line(f"wrote {rows.written} rows to {rows.out}")


def _show_threshold(found: "Threshold") -> None:
    columns = ("threshold", "rows accepted", "expected precision", "interval")
    table = console.table("", *columns, title=found.wanted)
    table.add_row("threshold", *_accepted_cells(found.accepted))
    table.add_row("cautious", *_accepted_cells(found.cautious))
    screen = console.console()
    screen.print(table)
    if found.cost is not None:
        console.print_line(f"expected cost per row: {found.cost:.4g}")
    if found.classes:
        by_class = console.table("class", *columns, "cautious", title="by predicted class")
        for name, each in found.classes.items():
            careful = each.cautious.threshold
            by_class.add_row(
                name, *_accepted_cells(each.accepted), "" if careful is None else f"{careful:.4f}"
            )
        screen.print(by_class)


def _accepted_cells(accepted: "Accepted") -> tuple[str, ...]:
    if accepted.threshold is None or accepted.precision is None:
        return "nothing can be accepted", "", "", ""
    return (
        f"{accepted.threshold:.4f}",
        f"{100 * accepted.share:.1f} %",
        f"{accepted.precision.value:.4f}",
        _ends(accepted.precision),
    )


def _ends(interval: "Interval") -> str:
    return f"{interval.low:.4f} to {interval.high:.4f}" if interval.low < interval.high else ""


def _show_sets(found: "PredictionSets") -> None:
    rows = {
        "probability at least": f"{found.level:.4g}",
        "expected coverage": f"{found.coverage.value:.4f}",
        "95 % interval": _ends(found.coverage),
        "mean size": f"{found.size:.2f}",
    }
    if found.conformal is not None:
        level = f"{found.conformal.level:.4g}, from {found.conformal.labeled} labeled rows"
        rows["split conformal level"] = level
    title = f"sets that contain the label in {100 * found.wanted:g} % of rows"
    console.print_pairs(title, rows)


def _show_performance(found: "Performance") -> None:
    overall = {
        "accuracy": found.accuracy, "log loss": found.log_loss, "Brier score": found.brier,
        "ROC AUC": found.roc_auc, "average precision": found.average_precision,
    }  # fmt: skip
    table = console.table("", "expected", "95 % interval", title="expected performance")
    for name, value in overall.items():
        if value is not None:
            table.add_row(name, f"{value.value:.4f}", _ends(value))
    screen = console.console()
    screen.print(table)
    columns = ("class", "precision", "recall", "F1", "share", "predicted")
    by_class = console.table(*columns, title="classes")
    for name, each in found.classes.items():
        measures = (each.precision, each.recall, each.f1)
        values = ("" if v is None else f"{v.value:.3f}" for v in measures)
        by_class.add_row(name, *values, f"{each.share:.4f}", f"{each.predicted:.4f}")
    screen.print(by_class)
    if found.confusion is not None and len(found.classes) <= _MOST_CLASSES:
        title = "expected confusion matrix: rows are classes, columns are predictions"
        confusion = console.table("", *found.classes, title=title)
        for name, row in zip(found.classes, found.confusion.tolist(), strict=True):
            confusion.add_row(name, *(f"{value:.0f}" for value in row))
        screen.print(confusion)
