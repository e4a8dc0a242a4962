"""`tepid decide`, `tepid sets` and `tepid performance`: what to do with a calibrated model.

All three need no labels. The first two write a row for each row of the logits, batch by batch.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import tepid
from tepid.cli import console, options
from tepid.cli.deploy import check_groups, note_unknown_groups, unknown_groups
from tepid.cli.fit import class_names
from tepid.cli.options import FileOptions

if TYPE_CHECKING:
    from rich.table import Table

    from tepid.decisions import Accepted, Interval, Performance, PredictionSets, Threshold
    from tepid.sources import Batch, Source
    from tepid.sources.writing import Rows
    from tepid.validation import Array

Calibration = Annotated[
    Path, typer.Option("-c", "--calibration", help="A file that `tepid fit -o` wrote.")
]
Written = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="A row for each row of the logits: .csv or .parquet."),
]
GivenGroups = Annotated[
    str | None,
    typer.Option(
        help="The group of each row: a column or array in the logits' file, or another file."
    ),
]
# A larger confusion matrix does not fit on a screen.
_MOST_CLASSES = 20


def decide(
    logits: options.Shards,
    calibration: Calibration,
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
    classes: options.Classes = None,
    out: Written = None,
    ids: options.Ids = None,
    sample_weight: options.SampleWeight = None,
    groups: GivenGroups = None,
    columns: options.Columns = None,
    where: options.Where = None,
    header: options.Header = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Choose which predictions to accept, for a target precision, coverage or cost.

    Example: tepid decide logits.npy -c calibration.json --precision 0.95 -o decisions.csv
    """
    if cautious and out is None:
        raise tepid.InputError("--cautious must go with -o, got it alone")
    costs = None if cost is None else _parse_cost(cost)
    reading = FileOptions.of(columns, where, header, probabilities, class_axis)
    given = _Given(logits, calibration, classes, sample_weight, groups, ids, out)
    with given.open(reading, threads) as (rows, engine):
        found = rows.temperature.threshold(
            rows.source, precision=precision, coverage=coverage, cost=costs, per_class=per_class,
            names=rows.names, engine=engine,
        )  # fmt: skip
        if out is not None:
            rows.write(out, lambda batch: _decide_batch(rows, found, batch, cautious=cautious))
    if as_json:
        console.print_json(found.as_dict() | rows.describe(out))
        return
    _show_threshold(found)
    _show_end(found, rows, out)


def sets(
    logits: options.Shards,
    calibration: Calibration,
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
    classes: options.Classes = None,
    out: Written = None,
    ids: options.Ids = None,
    sample_weight: options.SampleWeight = None,
    groups: GivenGroups = None,
    columns: options.Columns = None,
    where: options.Where = None,
    header: options.Header = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Find a prediction set for each row: the classes that may be its label.

    Example: tepid sets logits.npy -c calibration.json --coverage 0.9 -o sets.csv
    """
    reading = FileOptions.of(columns, where, header, probabilities, class_axis)
    given = _Given(logits, calibration, classes, sample_weight, groups, ids, out, labeled)
    with given.open(reading, threads) as (rows, engine):
        found = rows.temperature.prediction_sets(
            rows.source,
            coverage,
            labeled=reading.open_labeled(labeled, classes=rows.names, groups=given.group_column),
            engine=engine,
        )
        if out is not None:
            rows.write(out, lambda batch: _sets_of_batch(rows, found, batch))
    if as_json:
        console.print_json(found.as_dict() | rows.describe(out))
        return
    _show_sets(found)
    _show_end(found, rows, out)


def performance(
    logits: options.Shards,
    calibration: Calibration,
    classes: options.Classes = None,
    sample_weight: options.SampleWeight = None,
    groups: GivenGroups = None,
    columns: options.Columns = None,
    where: options.Where = None,
    header: options.Header = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Estimate accuracy, precision, recall and the confusion matrix without labels.

    Example: tepid performance logits.npy -c calibration.json
    """
    reading = FileOptions.of(columns, where, header, probabilities, class_axis)
    given = _Given(logits, calibration, classes, sample_weight, groups)
    with given.open(reading, threads) as (rows, engine):
        found = rows.temperature.expected_performance(rows.source, names=rows.names, engine=engine)
    if as_json:
        console.print_json(found.as_dict())
        return
    _show_performance(found)
    _show_end(found, rows, None)


def _parse_cost(text: str) -> tuple[float, float]:
    try:
        error, review = (float(part) for part in text.split(":"))
    except ValueError:
        raise tepid.InputError(f"--cost must be ERROR:REVIEW, such as 10:1, got {text}") from None
    return error, review


# --- the rows


@dataclass(frozen=True)
class _Given:
    """What a command was given, as it was typed."""

    logits: list[str]
    calibration: Path
    classes: str | None = None
    sample_weight: str | None = None
    groups: str | None = None
    ids: str | None = None
    out: Path | None = None
    labeled: str | None = None

    @property
    def group_column(self) -> str | None:
        """The name of the column with the groups, unless they are a file of their own."""
        in_file = self.groups is not None and tepid.sources.paths.names_file(self.groups)
        return None if in_file else self.groups

    @contextmanager
    def open(
        self, reading: FileOptions, threads: int | None
    ) -> Iterator[tuple["_Rows", "tepid.Threads"]]:
        """The rows and the engine; refuses what cannot be written before anything is read."""
        if self.out is not None:
            beside = (self.sample_weight, self.groups, self.ids, self.labeled)
            tepid.sources.writing.check_ending(self.out, table=True)
            options.check_output(self.out, *self.logits, str(self.calibration), *beside)
        temperature = tepid.load(self.calibration)
        step = temperature.next_step.replace("LOGITS", " ".join(self.logits))
        temperature = dataclasses.replace(temperature, next_step=step)
        source = reading.open(
            self.logits, sample_weight=self.sample_weight, groups=self.groups, ids=self.ids
        )
        check_groups(temperature, source)
        names = class_names(self.classes, source)
        with console.threads_with_progress(threads) as engine:
            yield _Rows(temperature, source, names, engine), engine


@dataclass
class _Rows:
    """The rows to decide on; counts those that are written."""

    temperature: "tepid.Temperature"
    source: "Source"
    names: list[str] | None
    engine: "tepid.Threads"
    written: int = 0
    unknown: int = 0

    def write(self, out: Path, of: Any) -> None:
        """Write the table that `of` makes of each batch."""
        self.written = tepid.sources.write_table(out, self._tables(of))

    def _tables(self, of: Any) -> "Iterator[Rows]":
        size = tepid.shapes.rows_per_batch(self.temperature.classes)
        rows = self.source.select(weight=False, ids=True)
        done = 0
        for batch in rows.batches(size):
            try:
                yield {"id": batch.numbers() if batch.id is None else batch.id} | of(batch)
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

    def describe(self, out: Path | None) -> dict[str, Any]:
        """What was written, for JSON."""
        return {} if out is None else {"output": str(out), "written": self.written}


def _decide_batch(
    rows: _Rows, found: "Threshold", batch: "Batch", *, cautious: bool
) -> dict[str, Any]:
    p, _ = tepid.decisions.calibrated(batch.logits, found.temperatures, groups=batch.group)
    predicted, confidence = p.argmax(axis=1), p.max(axis=1)
    accepted = found.accept(confidence, predicted, cautious=cautious)
    return {"prediction": rows.name(predicted), "confidence": confidence, "accepted": accepted}


def _sets_of_batch(rows: _Rows, found: "PredictionSets", batch: "Batch") -> dict[str, Any]:
    table = {"set": _lists(rows, found(batch.logits, groups=batch.group))}
    if found.conformal is not None:
        inside = found.conformal(batch.logits, groups=batch.group)
        table["conformal"] = _lists(rows, inside)
    return table


def _lists(rows: _Rows, inside: "Array") -> Any:
    return tepid.sources.writing.Lists(rows.name(inside.nonzero()[1]), inside.sum(axis=1))


# --- the screen


def _show_end(
    found: "Threshold | PredictionSets | Performance", rows: _Rows, out: Path | None
) -> None:
    t = rows.temperature
    trust = f"verdict: {found.verdict}. {t.reason}" if found.verdict else f"status: {t.status}"
    console.print_line(f"T = {t.value:.4g}; {trust}")
    console.print_line(f"assumption: {found.assumption}")
    console.notes(t.warnings)
    note_unknown_groups(rows.unknown)
    if out is not None:
        console.print_line(f"wrote {rows.written} rows to {out}")


def _show_threshold(found: "Threshold") -> None:
    table = _table(found.wanted, "", "threshold", "rows accepted", "expected precision", "interval")
    table.add_row("threshold", *_accepted_cells(found.accepted))
    table.add_row("cautious", *_accepted_cells(found.cautious))
    screen = console.console()
    screen.print(table)
    if found.cost is not None:
        console.print_line(f"expected cost per row: {found.cost:.4g}")
    if found.classes:
        by_class = _table(
            "by predicted class", "class", "threshold", "rows accepted", "expected precision",
            "interval", "cautious",
        )  # fmt: skip
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
    console.console().print(console.two_columns(rows, title))


def _show_performance(found: "Performance") -> None:
    measures = {
        "accuracy": found.accuracy, "log loss": found.log_loss, "Brier score": found.brier,
        "ROC AUC": found.roc_auc, "average precision": found.average_precision,
    }  # fmt: skip
    table = _table("expected performance", "", "expected", "95 % interval")
    for name, value in measures.items():
        if value is not None:
            table.add_row(name, f"{value.value:.4f}", _ends(value))
    screen = console.console()
    screen.print(table)
    by_class = _table("classes", "class", "precision", "recall", "F1", "share", "predicted")
    for name, each in found.classes.items():
        values = ("" if v is None else f"{v.value:.3f}" for v in _measures(each))
        by_class.add_row(name, *values, f"{each.share:.4f}", f"{each.predicted:.4f}")
    screen.print(by_class)
    if found.confusion is not None and len(found.classes) <= _MOST_CLASSES:
        title = "expected confusion matrix: rows are classes, columns are predictions"
        confusion = _table(title, "", *found.classes)
        for name, row in zip(found.classes, found.confusion.tolist(), strict=True):
            confusion.add_row(name, *(f"{value:.0f}" for value in row))
        screen.print(confusion)


def _measures(each: Any) -> tuple["Interval | None", ...]:
    return each.precision, each.recall, each.f1


def _table(title: str, first: str, *others: str) -> "Table":
    table = console.table(box=None, padding=(0, 2), title=title, title_justify="left")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table
