"""`tepid fit` and `tepid advise`: from what is known to a calibration.

`Known` turns options into `tepid.methods.evidence.Evidence`, which chooses the method.
"""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer
from rich.table import Table

import tepid
from tepid.cli import console, options, summarize
from tepid.cli.options import EngineOptions, Reading

if TYPE_CHECKING:
    from tepid.methods.evidence import Evidence
    from tepid.sources import Source
    from tepid.validation import Array

# The methods of `tepid.scaling`, which fit more than one number.
METHODS = (
    "vector", "matrix", "histogram", "isotonic", "bbq", "ensemble", "beta", "dirichlet",
)  # fmt: skip
# From this many classes on, fitting a matrix takes minutes.
_MANY_CLASSES = 500
# A precision as coarse as this is that of a fit from summaries.
_COARSE = 1e-5

# What the command line calls each kind of evidence.
_OPTIONS = {
    "labels": "--labels",
    "accuracy": "--accuracy",
    "few": "--few",
    "models": "--also",
    "source": "--source",
    "guarded": "--guarded",
}


class Calibrator(Protocol):
    """A temperature or a calibrator of `tepid.scaling`."""

    @property
    def classes(self) -> int: ...  # noqa: D102

    @property
    def warnings(self) -> tuple[str, ...]: ...  # noqa: D102

    def __call__(self, *logits: Any, **options: Any) -> Any: ...  # noqa: D102


# --- options to evidence


@dataclass(frozen=True)
class Known:
    """The options of `tepid fit` and `tepid onnx` that say what is known, as they were typed."""

    labels: str | None
    accuracy: str | None
    correct: int | None
    of: int | None
    few: str | None
    also: tuple[str, ...]
    source: str | None
    guarded: bool
    budget: float
    deviations: float
    debias: bool
    groups: str | None = None

    def evidence(self, reading: Reading) -> "Evidence":
        """The evidence, with other files opened as the logits are; raises if it contradicts."""
        from tepid.methods.evidence import Evidence  # noqa: PLC0415  # NumPy, only when asked

        self._check_pairs()
        accuracy, error = self._accuracy()
        evidence = Evidence(
            labeled=self.labels is not None,
            accuracy=accuracy,
            standard_error=error,
            few=None if self.few is None else self._open_few(self.few, reading),
            models=tuple(reading.open_other(other) for other in self.also),
            source=reading.open_labeled(self.source),
            guarded=self.guarded,
            budget=self.budget,
            deviations=self.deviations,
            debias=self.debias,
        )
        evidence.check(self._names())
        return evidence

    def given(self, evidence: "Evidence") -> list[str]:
        """The options that a fit would use, by name."""
        names = [self._names()[kind] for kind in evidence.kinds]
        tuned = {"--deviations": self.deviations != 1.0, "--debias": self.debias}
        return names + [name for name, there in tuned.items() if there]

    def _names(self) -> dict[str, str]:
        return _OPTIONS | ({"accuracy": "--correct"} if self.accuracy is None else {})

    def _check_pairs(self) -> None:
        if self.budget != 0.03 and not self.guarded:
            raise tepid.InputError("--budget must go with --guarded, got it alone")
        if (self.correct is None) != (self.of is None):
            raise tepid.InputError("--correct and --of must go together, got one")
        if self.accuracy is not None and self.correct is not None:
            raise tepid.InputError("evidence must be of one kind, got --accuracy and --correct")

    def _accuracy(self) -> tuple[float | tuple[float, float] | None, float]:
        """The accuracy or its range, and its standard error."""
        if self.accuracy is not None:
            return parse_accuracy(self.accuracy)
        if self.correct is not None and self.of is not None:
            return tepid.counted(self.correct, self.of)
        return None, 0.0

    def _open_few(self, path: str, reading: Reading) -> "Source":
        if self.groups is not None and tepid.sources.paths.names_file(self.groups):
            raise tepid.InputError(
                f"--groups must name a column of both files with --few, got {self.groups}"
            )
        return reading.open_other(path, labels="labels", groups=self.groups)


def parse_accuracy(text: str) -> tuple[float | tuple[float, float], float]:
    """An accuracy or a range, and the standard error: 0.93, 0.93±0.01, 0.93+-0.01, 0.91..0.95."""
    value, sign, error = text.replace("+-", "±").partition("±")
    try:
        numbers = [float(part) for part in value.split("..")]
        standard_error = float(error) if sign else 0.0
    except ValueError:
        numbers, standard_error = [], 0.0
    if len(numbers) == 1:
        return numbers[0], standard_error
    if len(numbers) == 2 and not sign:
        return (numbers[0], numbers[1]), 0.0
    raise tepid.InputError(f"accuracy must be a number or a range low..high, got {text}")


# --- tepid fit


def fit(
    logits: options.SomeShards = None,
    labels: options.AllLabels = None,
    method: Annotated[
        str, typer.Option(help=f"With --labels: temperature, {', '.join(METHODS)}.")
    ] = "temperature",
    accuracy: options.Accuracy = None,
    correct: options.Correct = None,
    of: options.Of = None,
    few: options.Few = None,
    also: options.Also = None,
    source: options.OlderSet = None,
    guarded: options.Guarded = False,
    budget: options.Budget = 0.03,
    groups: options.Groups = None,
    out: options.Output = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a report on the result too: an .html file.")
    ] = None,
    deviations: options.Deviations = 1.0,
    debias: options.Debias = False,
    sample_weight: options.SampleWeight = None,
    columns: options.Columns = None,
    where: options.Where = None,
    header: options.Header = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    summary: Annotated[
        Path | None, typer.Option(help="Fit from what `tepid merge` wrote, without any rows.")
    ] = None,
    threads: options.ThreadCount = None,
    engine: options.EngineName = "threads",
    scheduler: options.Scheduler = None,
    as_json: options.Json = False,
) -> None:
    """Find a temperature: from logits alone, or with what else is known.

    Example: tepid fit logits.npy -o calibration.json
    """
    reading = Reading.of(columns, where, header, probabilities, class_axis)
    known = Known(
        labels, accuracy, correct, of, few, tuple(also or ()), source, guarded, budget, deviations,
        debias, groups,
    )  # fmt: skip
    _check_outputs(
        out, report, method, (*(logits or ()), labels, sample_weight, few, source, *(also or ()))
    )
    engine_options = EngineOptions(threads, engine, scheduler)
    engine_options.check()
    _check_method(method, labels, engine)
    evidence = known.evidence(reading)
    if summary is not None:
        beside = {"--groups": groups, "--sample-weight": sample_weight, "--report": report}
        need_rows = [
            *(name for name in known.given(evidence) if name not in _WITH_SUMMARY),
            *(name for name, value in beside.items() if value is not None),
            *reading.given,
            *(["--engine"] if engine != "threads" else []),
        ]
        _check_summary(logits, need_rows)
        show_fit(summarize.fit_summary(evidence, summary), out, as_json=as_json)
        return
    if not logits:
        raise tepid.InputError("logits must be given, got neither them nor a --summary")
    data = reading.open(logits, labels=labels, sample_weight=sample_weight, groups=groups)
    if data.binary:
        console.note("One value for each row was read as the binary logit of class 1.")
    if method != "temperature":
        _fit_scaling(data, method, out, as_json=as_json)
        return
    with engine_options.start() as started:
        result = evidence.fit(data, started)
        if report is not None:
            tepid.report.write(report, data, temperatures=[result], engine=started)
    show_fit(result, out, report, as_json=as_json)


# What may be known beside summaries.
_WITH_SUMMARY = ("--accuracy", "--correct", "--guarded")


def _check_outputs(
    out: Path | None, report: Path | None, method: str, inputs: tuple[str | None, ...]
) -> None:
    if out is not None:
        options.check_output(out, *inputs)
        options.check_suffix(out, ".json" if method == "temperature" else ".npz")
    if report is not None:
        if method != "temperature":
            raise tepid.InputError(f"--report must go with a temperature, got --method {method}")
        options.check_suffix(report, ".html", ".htm", what="report")
        options.check_output(report, *inputs)


def _check_method(method: str, labels: str | None, engine: str) -> None:
    if method == "temperature":
        return
    if labels is None:
        raise tepid.InputError("--method must go with --labels, got it alone")
    if method not in METHODS:
        known = ", ".join(("temperature", *METHODS))
        raise tepid.InputError(f"--method must be one of {known}, got {method}")
    if engine != "threads":
        raise tepid.InputError(f"--engine must be threads for --method {method}, got {engine}")


def _check_summary(logits: list[str] | None, need_rows: list[str]) -> None:
    if logits:
        raise tepid.InputError(f"--summary must go without logits, got {logits[0]}")
    if need_rows:
        raise tepid.InputError(
            f"--summary must go without {need_rows[0]}, which needs rows, got both"
        )


def show_fit(
    result: "tepid.Temperature", out: Path | None, report: Path | None = None, *, as_json: bool
) -> None:
    """Save a temperature where an output is named, and print it."""
    if out is not None:
        result.save(out)
    if as_json:
        console.print_json(result.as_dict())
        return
    show_temperature(result)
    for path in filter(None, (out, report)):
        console.print_line(f"wrote {path}")


def show_temperature(result: "tepid.Temperature") -> None:
    """Print a temperature, its groups, the verdict and its warnings."""
    rows = {
        "temperature": f"{result.value:.4f}",
        "method": result.method,
        "status": result.status,
        "implied accuracy": f"{100 * result.implied_accuracy:.2f} %",
        "rows × classes": f"{result.samples} × {result.classes}",
    }
    if result.interval:
        matched = result.method == "accuracy"  # for a range, of the temperatures of its ends
        name = "interval of the matching T" if matched else "95 % interval of T"
        rows[name] = "{:.4f} to {:.4f}".format(*result.interval)
    if result.sensitivity:
        rows["T with ½ σ, 2 σ"] = "{:.4f}, {:.4f}".format(*result.sensitivity)
    if result.precision >= _COARSE:
        rows["read off sums, within"] = f"{100 * result.precision:g} % of the fit to the rows"
    screen = console.console()
    screen.print(console.two_columns(rows, "calibration"))
    if result.groups:
        screen.print(_group_table(result))
    verdict, reason = tepid.judged(result)
    console.print_line(f"would help most: {tepid.would_help(result)}")
    what = "a temperature here" if result.status == "abstained" else "this temperature"
    console.print_line(f"{verdict} {what}: {reason}")
    console.note_warnings(result)


def _group_table(result: "tepid.Temperature") -> Table:
    table = Table(box=None, padding=(0, 2), title="groups", title_justify="left")
    table.add_column("group")
    for name in ("temperature", "implied accuracy", "rows", "status"):
        table.add_column(name, justify="right")
    for name, t in result.groups.items():
        accuracy = f"{100 * t.implied_accuracy:.2f} %"
        table.add_row(name, f"{t.value:.4f}", accuracy, str(t.samples), t.status)
    return table


# --- tepid fit --method


def _fit_scaling(data: "Source", method: str, out: Path | None, *, as_json: bool) -> None:
    """Fit a method of `tepid.scaling`, save it, and print what it does to the accuracy."""
    if data.grouped:
        raise tepid.InputError(f"--groups must go with a temperature, got --method {method}")
    if method in ("matrix", "dirichlet") and (data.classes or 0) >= _MANY_CLASSES:
        weights = (data.classes or 0) ** 2
        console.note(
            f"There are {weights} weights to fit; this takes minutes, and a vector does not."
        )
    rows = data.whole()
    function = getattr(importlib.import_module("tepid.scaling"), method)
    with console.without_array_warnings():
        fitted = function(rows.logits, rows.labels, sample_weight=rows.weight)
        before, after = (
            tepid.metrics.accuracy(rows.labels, p, sample_weight=rows.weight)
            for p in (uncalibrated(rows.logits), fitted(rows.logits))
        )
    if out is not None:
        fitted.save(out)
    if as_json:
        described = {
            "method": fitted.method,
            "samples": fitted.samples,
            "classes": fitted.classes,
            "keeps_argmax": fitted.keeps_argmax,
            "accuracy_before": before,
            "accuracy_after": after,
            "warnings": list(fitted.warnings),
        }
        console.print_json(described)
        return
    table = {
        "method": fitted.method,
        "rows × classes": f"{fitted.samples} × {fitted.classes}",
        "keeps the argmax": "yes, always" if fitted.keeps_argmax else "not always",
        "accuracy before": f"{100 * before:.2f} %",
        "accuracy after": f"{100 * after:.2f} %",
    }
    title = "calibration, measured on the rows it was fitted to"
    console.console().print(console.two_columns(table, title))
    console.notes(fitted.warnings)
    console.note(
        f"Rows that were fitted flatter; tepid compare --methods {fitted.method} holds out."
    )
    if out is not None:
        console.print_line(f"wrote {out}")


def uncalibrated(logits: "Array") -> "Array":
    """The probabilities at T = 1."""
    k = tepid.shapes.class_count(logits)
    one = tepid.Temperature(1.0, "none", samples=0, classes=k, implied_accuracy=0.0)
    probabilities: Array = one(logits)
    return probabilities


def load_calibration(path: Path) -> Calibrator:
    """A calibration that `tepid fit -o` wrote: a temperature, or a calibrator with arrays."""
    if path.suffix.lower() == ".npz":
        loaded: Calibrator = importlib.import_module("tepid.scaling").load(path)
        return loaded
    return tepid.load(path)


# --- tepid advise


def advise(
    logits: options.Logits,
    accuracy: Annotated[str | None, typer.Option(help="The model's accuracy, if known.")] = None,
    also: options.Also = None,
    source: options.OlderSet = None,
    few: options.Few = None,
    labels: options.AllLabels = None,
    columns: options.Columns = None,
    where: options.Where = None,
    header: options.Header = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Print which method to use with what is known, and what would help most.

    Example: tepid advise logits.npy --accuracy 0.93
    """
    reading = Reading.of(columns, where, header, probabilities, class_axis)
    data = reading.open(logits, labels=labels)
    older, labeled = reading.open_labeled(source), reading.open_labeled(few)
    with console.threads_with_progress(threads) as engine:
        advice = tepid.advise(
            data,
            accuracy=None if accuracy is None else parse_accuracy(accuracy)[0],
            others=tuple(reading.open_other(other) for other in also or ()),
            source=None if older is None else (older, None),
            few=None if labeled is None else (labeled, None),
            engine=engine,
        )
    if as_json:
        names = (
            "use", "verdict", "because", "would_help", "samples", "classes", "confidence", "margin",
            "spread",
        )  # fmt: skip
        answers = {name: t.as_dict() for name, t in advice.answers.items()}
        console.print_json({name: getattr(advice, name) for name in names} | {"answers": answers})
        return
    console.print_line(advice.seen)
    console.print_line(str(advice))
