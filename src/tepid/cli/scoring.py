"""`tepid score`."""

import math
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.table import Table

import tepid
from tepid.cli import diagram, judging, options, output, scaled
from tepid.cli.inputs import Reading

# More logits than this are summed batch by batch, without the measures that need all rows.
_IN_MEMORY = 1 << 26


def score(
    logits: options.Logits,
    labels: options.Labels = "labels",
    calibration: options.Calibration = None,
    groups: options.Groups = None,
    draws: Annotated[
        int, typer.Option(help="Bootstrap draws for the intervals; 0 for none.")
    ] = 200,
    columns: options.Columns = None,
    where: options.Where = None,
    header: options.Header = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Measure confidence against labels, before and after a calibration.

    Example: tepid score logits.npy labels.npy -c calibration.json
    """
    if draws < 0:
        raise tepid.InputError(f"--draws must not be below zero, got {draws}")
    reading = Reading(columns, tuple(where or ()), header, probabilities, class_axis)
    source = reading.open(logits, labels=labels, groups=groups)
    fitted = {} if calibration is None else {"after": scaled.load(calibration)}
    for calibrator in fitted.values():
        output.doubts(calibrator)
        output.note_strangers(calibrator, source)
    with output.working(threads) as engine:
        scored = {"before": engine.total(_reliability(None), source, "scoring before")}
        for name, calibrator in fitted.items():
            scored[name] = engine.total(_reliability(calibrator), source, f"scoring {name}")
        judged = judging.Judged({}, {}, {}, 0)
        if scored["before"].rows * (source.classes or 2) <= _IN_MEMORY:
            with output.noted():
                judged = judging.judged(source, fitted, draws, engine)
        elif draws:
            output.note("There are too many rows to hold at once: sums alone, without intervals.")
    show(scored, judged, as_json=as_json)


def show(
    scored: dict[str, "tepid.Reliability"], judged: "judging.Judged", *, as_json: bool
) -> None:
    """Print every measure with its interval, and the reliability diagrams."""
    measured = {
        name: tepid.protocol.measures(r) | judged.values.get(name, {}) for name, r in scored.items()
    }
    if as_json:
        plain = {"samples": round(scored["before"].rows)} | measured
        output.print_json(plain | (judged.as_dict() if judged.draws else {}))
        return
    screen = output.console()
    screen.print(_table(measured, judged))
    if judged.draws:
        screen.print(_intervals(judged))
        screen.print(
            f"From {judged.draws} bootstrap draws of the rows. Errors over bins are biased"
        )
        screen.print("upwards, so a value may lie above its interval; one row decides an MCE.")
    screen.print()
    screen.print(diagram.side_by_side(scored))


def _table(measured: dict[str, dict[str, float]], judged: "judging.Judged") -> Table:
    """One row for each measure, with the interval of its change where there is a calibration."""
    table = Table(box=None, padding=(0, 1), title="score", title_justify="left")
    table.add_column(no_wrap=True)
    for name in [*measured, *(["change"] if judged.changes else [])]:
        table.add_column(name, justify="right", no_wrap=True)
    if judged.changes:
        table.add_column("its 95 % interval", no_wrap=True)
    for key, (title, form) in judging.TITLES.items():
        values = [m[key] for m in measured.values() if key in m]
        if len(values) < len(measured):
            continue
        change: Any = judged.changes.get(key)
        last = [] if change is None else [form(change.value), _range(change, form)]
        table.add_row(title, *map(form, values), *last)
    return table


def _intervals(judged: "judging.Judged") -> Table:
    """The interval of every measure, before and after."""
    table = Table(box=None, padding=(0, 1), title="95 % intervals", title_justify="left")
    table.add_column(no_wrap=True)
    for name in judged.intervals:
        table.add_column(name, no_wrap=True)
    for key, (title, form) in judging.TITLES.items():
        table.add_row(title, *(_range(each[key], form) for each in judged.intervals.values()))
    return table


def _range(interval: Any, form: Callable[[float], str]) -> str:
    # NaN stands where there is no interval, as of an infinite NLL.
    return "" if math.isnan(interval.low) else f"[{form(interval.low)}, {form(interval.high)}]"


def _reliability(calibrator: Any) -> Callable[["tepid.sources.Batch"], "tepid.Reliability"]:
    def of(batch: tepid.sources.Batch) -> tepid.Reliability:
        if calibrator is None:
            return tepid.Reliability.of_logits(batch.logits, batch.labels)
        if isinstance(calibrator, tepid.Temperature) and batch.group is None:
            calibrator.check_classes(tepid.shapes.class_count(batch.logits))
            t = calibrator.value
            return tepid.Reliability.of_logits(batch.logits, batch.labels, temperature=t)
        return tepid.Reliability.of(judging.calibrated(calibrator, batch), batch.labels)

    return of
