"""`tepid score`, `tepid report` and `tepid demo`: what a calibration does, measured with labels."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import tepid
from tepid.cli import console, options
from tepid.cli.ask import choose_rows
from tepid.cli.deploy import check_groups, note_unknown_groups, unknown_groups
from tepid.cli.fit import Calibrator, load_calibration, show_temperature, uncalibrated
from tepid.cli.options import FileOptions

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from tepid.metrics import Interval
    from tepid.sources import Batch
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
    """Print ECE, log loss and other measures on labeled rows, before and after a calibration.

    Example: tepid score logits.npy labels.npy -c calibration.json
    """
    if draws < 0:
        raise tepid.InputError(f"--draws must not be below zero, got {draws}")
    reading = FileOptions.of(columns, where, header, probabilities, class_axis)
    source = reading.open(logits, labels=labels, groups=groups)
    calibrator = None if calibration is None else load_calibration(calibration)
    if calibrator is not None:
        console.note_warnings(calibrator)
        check_groups(calibrator, source)
    with console.threads_with_progress(threads) as engine:
        rows = engine.total(partial(_score_batch, calibrator), source, "scoring")
        note_unknown_groups(rows.unknown)
        if rows.batches is not None:
            with console.without_array_warnings():
                scores = _measure(rows.batches, calibrator, draws, engine)
        else:
            scores = Scores()
            if draws:
                console.note(
                    "There are too many rows to keep in memory, so the measures have no intervals."
                )
    show_scores(rows.reliability, scores, as_json=as_json)


@dataclass(frozen=True, eq=False)
class _ScoredRows:
    """The reliability before and after a calibration, and the rows while they fit in memory."""

    reliability: "dict[str, tepid.summaries.Reliability]"
    unknown: int  # rows of groups that were not fitted
    logits: int  # how many numbers the batches hold
    batches: "tuple[Batch, ...] | None"

    def __add__(self, other: "_ScoredRows") -> "_ScoredRows":
        size = self.logits + other.logits
        both = self.reliability.items()
        return _ScoredRows(
            {name: one + other.reliability[name] for name, one in both},
            self.unknown + other.unknown,
            size,
            None
            if self.batches is None or other.batches is None or size > _IN_MEMORY
            else self.batches + other.batches,
        )


def _score_batch(calibrator: Calibrator | None, batch: "Batch") -> _ScoredRows:
    reliability = {"before": tepid.summaries.Reliability.of_logits(batch.logits, batch.labels)}
    unknown = 0
    if calibrator is not None:
        reliability["after"] = _reliability(calibrator, batch)
        unknown = unknown_groups(calibrator, batch)
    size = len(batch.logits) * tepid.shapes.class_count(batch.logits)
    return _ScoredRows(reliability, unknown, size, (batch,))


def _reliability(calibrator: Calibrator, batch: "Batch") -> "tepid.summaries.Reliability":
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
    """Measures of all rows in memory: values and intervals by set of probabilities, and changes."""

    values: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
    intervals: "dict[str, dict[str, Interval]]" = dataclasses.field(default_factory=dict)
    changes: "dict[str, Interval]" = dataclasses.field(default_factory=dict)
    draws: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The intervals as plain JSON values."""
        intervals = {
            name: {key: [i.low, i.high] for key, i in found.items()}
            for name, found in self.intervals.items()
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
    probabilities = {
        "before": uncalibrated(tepid.shapes.joined([batch.logits for batch in batches]))
    }
    if calibrator is not None:
        probabilities["after"] = tepid.shapes.joined(
            [_calibrate(calibrator, batch) for batch in batches]
        )
    names = tuple(probabilities)
    scores = Scores({name: {} for name in names}, {name: {} for name in names}, draws=draws)
    for done, key in enumerate(_MEASURES, 1):
        _add_measure(key, labels, probabilities, scores)
        if engine.progress:
            engine.progress("measuring", done, len(_MEASURES))
    return scores


def _add_measure(key: str, labels: "Array", given: "dict[str, Array]", scores: Scores) -> None:
    measure = getattr(tepid.metrics, key)
    if key == "excess_nll":  # takes logits, in which no label may be impossible
        given = {name: tepid.validation.logits_of(p.clip(_LEAST)) for name, p in given.items()}
    if not scores.draws:
        for name, p in given.items():
            scores.values[name][key] = measure(labels, p)
        return
    if "after" in given:
        compared = tepid.metrics.intervals.compared
        *each, scores.changes[key] = compared(measure, labels, *given.values(), draws=scores.draws)
    else:
        each = [tepid.metrics.bootstrap(measure, labels, given["before"], draws=scores.draws)]
    for name, found in zip(given, each, strict=True):
        scores.values[name][key], scores.intervals[name][key] = found.value, found


def show_scores(
    reliability: "dict[str, tepid.summaries.Reliability]", scores: Scores, *, as_json: bool
) -> None:
    """Print every measure with its interval, and the reliability diagrams."""
    measured = {
        name: tepid.comparison.measures(r) | scores.values.get(name, {})
        for name, r in reliability.items()
    }
    if as_json:
        plain = {"samples": round(reliability["before"].rows)} | measured
        console.print_json(plain | (scores.as_dict() if scores.draws else {}))
        return
    screen = console.console()
    screen.print(_score_table(measured, scores))
    if scores.draws:
        screen.print(_interval_table(scores))
        screen.print(
            f"From {scores.draws} bootstrap draws of the rows. Errors over bins are biased"
        )
        screen.print("upwards, so a value may lie above its interval; one row decides an MCE.")
    screen.print()
    screen.print(_reliability_diagram(reliability))


def _score_table(measured: dict[str, dict[str, float]], scores: Scores) -> "Table":
    """One row for each measure, with the interval of its change where there is a calibration."""
    table = console.table(box=None, padding=(0, 1), title="score", title_justify="left")
    table.add_column(no_wrap=True)
    for name in [*measured, *(["change"] if scores.changes else [])]:
        table.add_column(name, justify="right", no_wrap=True)
    if scores.changes:
        table.add_column("its 95 % interval", no_wrap=True)
    for key, (title, form) in _MEASURES.items():
        values = [m[key] for m in measured.values() if key in m]
        if len(values) < len(measured):
            continue
        change = scores.changes.get(key)
        last = [] if change is None else [form(change.value), _interval(change, form)]
        table.add_row(title, *map(form, values), *last)
    return table


def _interval_table(scores: Scores) -> "Table":
    table = console.table(box=None, padding=(0, 1), title="95 % intervals", title_justify="left")
    table.add_column(no_wrap=True)
    for name in scores.intervals:
        table.add_column(name, no_wrap=True)
    for key, (title, form) in _MEASURES.items():
        table.add_row(title, *(_interval(each[key], form) for each in scores.intervals.values()))
    return table


def _interval(interval: "Interval", form: Callable[[float], str]) -> str:
    # NaN means that there is no interval, as for an infinite NLL.
    return "" if math.isnan(interval.low) else f"[{form(interval.low)}, {form(interval.high)}]"


_BAR = 20


def _reliability_diagram(reliability: "dict[str, tepid.summaries.Reliability]") -> "Table":
    """One column of bars per summary: accuracy as a bar, confidence as a mark, by bin."""
    table = console.table(
        box=None,
        padding=(0, 1),
        title="reliability (█ accuracy, ◆ confidence, ! over 0.1 apart)",
        title_justify="left",
    )
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


def _diagram_cells(r: "tepid.summaries.Reliability", b: int) -> tuple["Text", str]:
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


# --- tepid report


def report(
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
    columns: options.Columns = None,
    where: options.Where = None,
    header: options.Header = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Write a report: one HTML file with the verdict, diagrams and a slider for T.

    Example: tepid report logits.npy -c calibration.json -o report.html
    """
    options.check_suffix(out, ".html", ".htm", what="report")
    options.check_output(out, logits, labels, names, images, *(calibration or ()))
    reading = FileOptions.of(columns, where, header, probabilities, class_axis)
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


# --- tepid demo

_DEMO_REPORT = Path("tepid-demo.html")
# Of 40 draws of 25 labels, seed 5 is near the median by the ECE of the result.
_DEMO_LABELS, _DEMO_SEED = 25, 5


def demo(as_json: options.Json = False) -> None:
    """Calibrate a real network: from its logits alone, then with 25 labels.

    Example: tepid demo
    """
    import numpy as np  # noqa: PLC0415  # only when asked

    data = tepid.demo.fashion()
    logits, labels = data["logits"], data["labels"]
    chosen = choose_rows(tepid.open_source(logits), _DEMO_LABELS, _DEMO_SEED).chosen
    known = np.full(len(labels), -1)
    known[chosen] = labels[chosen]
    with console.without_calibration_warnings():
        alone, with_labels = tepid.calibrate(logits), tepid.calibrate(logits, known)
    temperatures = {
        "before": 1.0, "logits alone": float(alone), "with labels": float(with_labels),
    }  # fmt: skip
    reliability = {
        name: tepid.summaries.Reliability.of_logits(logits, labels, temperature=t)
        for name, t in temperatures.items()
    }
    if as_json:
        measured = {name: tepid.comparison.measures(r) for name, r in reliability.items()}
        fits = {"logits alone": alone.as_dict(), "with labels": with_labels.as_dict()}
        console.print_json({"calibrations": fits} | measured)
        return
    screen = console.console()
    screen.print(
        "A small network trained on Fashion-MNIST gave logits for 10,000 test images.\n\n"
        "tepid fit logits.npy\n"
    )
    show_temperature(alone, "logits.npy")
    screen.print(
        f"\ntepid ask logits.npy -n {_DEMO_LABELS} -o to_label.csv\n"
        f"... a person fills in {_DEMO_LABELS} labels ...\n"
        "tepid fit logits.npy --labels to_label.csv\n"
    )
    show_temperature(with_labels, "logits.npy", "to_label.csv")
    screen.print("\nWith all 10,000 labels, which tepid did not see, what that did:\n")
    show_scores(reliability, Scores(), as_json=False)
    tepid.report.write(
        _DEMO_REPORT,
        logits,
        labels=labels,
        temperatures={"25 labels": with_labels, "logits alone": alone},
        names=data["names"],
        images=dict(zip(data["image_rows"].tolist(), data["images"], strict=True)),
        title="Fashion-MNIST, a small network",
    )
    screen.print(f"\nwrote {_DEMO_REPORT}: open it in a browser and move the temperature")
