"""`tepid fit`: from what is known to a calibration.

`EvidenceOptions` turns options into the arguments of `tepid.calibrate`.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

import tepid
from tepid.cli import console, options
from tepid.cli.options import EngineOptions, FileOptions

if TYPE_CHECKING:
    from rich.table import Table

    from tepid.engines import Engine
    from tepid.sources import Source
    from tepid.validation import Array

# The exact methods of the literature that fit one number.
EXACT = ("uts", "temperature", "accuracy")
# The methods of `tepid.scaling`, which fit more than one number.
SCALING = (
    "vector", "matrix", "histogram", "isotonic", "bbq", "ensemble", "beta", "dirichlet",
)  # fmt: skip
# From this many classes on, fitting a matrix takes minutes.
_MANY_CLASSES = 500


class Calibrator(Protocol):
    """A temperature or a calibrator of `tepid.scaling`."""

    @property
    def classes(self) -> int: ...  # noqa: D102

    @property
    def warnings(self) -> tuple[str, ...]: ...  # noqa: D102

    def __call__(self, *logits: Any, **options: Any) -> Any: ...  # noqa: D102


# --- options to evidence


@dataclass(frozen=True)
class EvidenceOptions:
    """The options of `tepid fit` and `tepid onnx` that state what is known, as they were typed."""

    labels: str | None = None
    labeled: str | None = None
    accuracy: str | None = None
    models: tuple[str, ...] = ()
    reference: str | None = None
    source: str | None = None
    ids: str | None = None
    classes: str | None = None
    groups: str | None = None
    clusters: str | None = None
    multilabel: bool = False
    per_label: bool = False

    @property
    def files(self) -> tuple[str | None, ...]:
        """Every input that may be a file."""
        each = self.labels, self.labeled, self.reference, self.source, self.groups, self.clusters
        return *each, *self.models

    def given(self) -> list[str]:
        """The names of the options that were given."""
        return [f"--{name.replace('_', '-')}" for name, value in vars(self).items() if value]

    @property
    def splits(self) -> Any:
        """The argument `multilabel` of `tepid.calibrate`."""
        return "per-label" if self.per_label else self.multilabel

    def check_report(self, report: Path | None) -> None:
        """Raise if a report is wanted of rows that it cannot show."""
        if self.splits and report is not None:
            raise tepid.InputError("--report must go with rows of one label, got --multilabel")

    def calibrate(
        self, rows: "Source", reading: FileOptions, engine: "Engine", logits: Sequence[str] = ()
    ) -> "tepid.Temperature":
        """The temperature of all evidence on rows that are open; `logits` is where they are."""
        with console.without_calibration_warnings():
            return tepid.calibrate(
                rows,
                self._open_labels(reading, logits) if self.splits else self.answers,
                labeled=self._open_labeled(reading),
                accuracy=None if self.accuracy is None else parse_accuracy(self.accuracy),
                models=[self._open_model(path, reading) for path in self.models],
                reference=self._open_reference(reading),
                source=self._open_source(reading),
                classes=self.class_names,
                multilabel=self.splits,
                engine=engine,
            )

    @property
    def answers(self) -> str | None:
        """The file of labels by id, if `--labels` names one."""
        by_id = (
            self.labels is not None and not self.splits and tepid.sources.is_answers(self.labels)
        )
        return self.labels if by_id else None

    @property
    def class_names(self) -> list[str] | None:
        """The names of the classes."""
        return None if self.classes is None else read_classes(self.classes)

    def _open_labels(self, reading: FileOptions, logits: Sequence[str]) -> "Source | None":
        """The labels (n, K) of multi-label rows: a file, or columns of the logits' table."""
        if self.labels is None:
            return None
        if _names_file(self.labels):
            return FileOptions(class_axis=reading.class_axis).open(self.labels)
        return replace(reading, columns=self.labels, probabilities=False).open(list(logits))

    def _open_source(self, reading: FileOptions) -> Any:
        if self.splits:
            return _open_multilabel_pair(self.source, reading)
        return reading.open_labeled(self.source, classes=self.class_names)

    def _open_labeled(self, reading: FileOptions) -> Any:
        if self.splits:
            return _open_multilabel_pair(self.labeled, reading)
        named = None if self.groups is None or _names_file(self.groups) else self.groups
        return reading.open_labeled(self.labeled, classes=self.class_names, groups=named)

    def _open_reference(self, reading: FileOptions) -> Any:
        if self.reference is None:
            return None
        if tepid.sources.is_answers(self.reference) or tepid.sources.holds_classes(self.reference):
            return self.reference
        return self._open_model(self.reference, reading)

    def _open_model(self, path: str, reading: FileOptions) -> Any:
        return reading.open_other(path, ids=self.ids)


def _open_multilabel_pair(path: str | None, reading: FileOptions) -> Any:
    """The members or columns `logits` and `labels` of a file, both (n, K)."""
    if path is None:
        return None
    each = []
    for name in ("logits", "labels"):
        values = replace(reading, columns=None, probabilities=False)
        each.append(values.open_other(f"{path}#{name}"))
    return tuple(each)


def read_classes(text: str) -> list[str]:
    """The names of classes: separated by commas, or the lines of a text file."""
    names = read_lines(Path(text)) if Path(text).is_file() else text.split(",")
    return [name.strip() for name in names if name.strip()]


def class_names(text: str | None, source: "Source") -> list[str] | None:
    """The names of the classes of a source: those given, or those of its columns."""
    if text is None:
        return [str(name) for name in source.names or ()] or None
    names = read_classes(text)
    if source.classes is not None and len(names) != source.classes:
        raise tepid.InputError(
            f"--classes must name the {source.classes} classes of the logits, got {len(names)}"
        )
    return names


def read_lines(path: Path) -> list[str]:
    """The lines of a text file."""
    importlib.import_module("tepid.store").check_regular(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except ValueError:
        raise tepid.InputError(f"{path} must be text in UTF-8, got another file") from None
    return text.removesuffix("\n").split("\n")


def parse_accuracy(text: str) -> Any:
    """An accuracy as it was typed."""
    return importlib.import_module("tepid.methods.accuracy").parse_accuracy(text)


def _names_file(text: str) -> bool:
    return bool(tepid.sources.paths.names_file(text))


# --- tepid fit


def fit(
    logits: options.SomeShards = None,
    labels: options.AllLabels = None,
    labeled: options.LabeledRows = None,
    accuracy: options.Accuracy = None,
    models: options.Models = None,
    reference: options.Reference = None,
    source: options.OlderSet = None,
    ids: options.Ids = None,
    classes: options.Classes = None,
    groups: options.Groups = None,
    clusters: options.Clusters = None,
    multilabel: options.Multilabel = False,
    per_label: options.PerLabel = False,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"Use a single method instead of all evidence: {', '.join((*EXACT, *SCALING))}."
        ),
    ] = None,
    out: options.Output = None,
    report: Annotated[Path | None, typer.Option(help="Also write a report: an .html file.")] = None,
    sample_weight: options.SampleWeight = None,
    columns: options.Columns = None,
    where: options.Where = None,
    header: options.Header = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    summary: Annotated[
        Path | None, typer.Option(help="Fit to a file that `tepid merge` wrote, without rows.")
    ] = None,
    threads: options.ThreadCount = None,
    engine: options.EngineName = "threads",
    scheduler: options.Scheduler = None,
    as_json: options.Json = False,
) -> None:
    """Fit a temperature to logits and other evidence: labels, an accuracy, other models.

    Example: tepid fit logits.npy --accuracy 186/200 -o calibration.json
    """
    reading = FileOptions.of(columns, where, header, probabilities, class_axis)
    evidence = EvidenceOptions(
        labels, labeled, accuracy, tuple(models or ()), reference, source, ids, classes, groups,
        clusters, multilabel, per_label,
    )  # fmt: skip
    _check_outputs(out, report, method, (*(logits or ()), sample_weight, *evidence.files))
    evidence.check_report(report)
    engine_options = EngineOptions(threads, engine, scheduler)
    engine_options.check()
    _check_method(method, evidence, engine, summed=summary is not None)
    if summary is not None:
        beside = {"--sample-weight": sample_weight, "--report": report, "logits": logits}
        need_rows = [
            *(name for name in evidence.given() if name != "--accuracy"),
            *(name for name, value in beside.items() if value),
            *reading.given,
            *(["--engine"] if engine != "threads" else []),
        ]
        if need_rows:
            raise tepid.InputError(
                f"--summary must go without {need_rows[0]}, which needs rows, got both"
            )
        show_fit(_fit_summary(summary, method, accuracy), out, as_json=as_json)
        return
    if not logits:
        raise tepid.InputError("logits must be given, got neither them nor a --summary")
    data = reading.open(
        logits,
        labels=None if evidence.answers or evidence.splits else labels,
        classes=evidence.class_names,
        sample_weight=sample_weight,
        groups=groups,
        clusters=clusters,
        ids=ids,
    )
    if data.binary:
        console.note("One value for each row was read as the binary logit of class 1.")
    if method in SCALING:
        _fit_scaling(data, method, out, as_json=as_json)
        return
    with engine_options.start() as started:

        def fit_rows(rows: "Source") -> "tepid.Temperature":
            if method is None:
                return evidence.calibrate(rows, reading, started, logits)
            return _fit_exact(method, rows, accuracy, started)

        result = fit_rows(data)
        halved = tepid.sources.logs.halved(data)
        if halved is not None:
            console.note(
                f"With half the bound for options that are not listed T is "
                f"{fit_rows(halved).value:.4f} instead of {result.value:.4f}."
            )
        if report is not None:
            tepid.report.write(report, data, temperatures=[result], engine=started)
    show_fit(result, out, report, as_json=as_json, logits=" ".join(logits), labels=evidence.answers)


def _fit_exact(
    method: str, rows: Any, accuracy: str | None, engine: "Engine | None"
) -> "tepid.Temperature":
    if method == "uts":
        return tepid.uts(rows, engine=engine)
    if method == "temperature":
        return tepid.temperature_scaling(rows, engine=engine)
    return tepid.match_accuracy(rows, parse_accuracy(accuracy or ""), engine=engine)


def _fit_summary(path: Path, method: str | None, accuracy: str | None) -> "tepid.Temperature":
    summaries = tepid.Summaries.load(path)
    if method is not None:
        return _fit_exact(method, summaries, accuracy, None)
    known = None if accuracy is None else parse_accuracy(accuracy)
    with console.without_calibration_warnings():
        return tepid.calibrate(summaries, accuracy=known)


def _check_outputs(
    out: Path | None, report: Path | None, method: str | None, inputs: tuple[str | None, ...]
) -> None:
    if out is not None:
        options.check_output(out, *inputs)
        options.check_suffix(out, ".npz" if method in SCALING else ".json")
    if report is not None:
        if method in SCALING:
            raise tepid.InputError(f"--report must go with a temperature, got --method {method}")
        options.check_suffix(report, ".html", ".htm", what="report")
        options.check_output(report, *inputs)


def _check_method(
    method: str | None, evidence: EvidenceOptions, engine: str, *, summed: bool
) -> None:
    """Raise unless a method alone gets the evidence that it uses, and no other.

    Summaries have the labels in them.
    """
    if method is None:
        return
    if method not in (*EXACT, *SCALING):
        known = ", ".join((*EXACT, *SCALING))
        raise tepid.InputError(f"--method must be one of {known}, got {method}")
    if summed and method in SCALING:
        raise tepid.InputError(
            f"--summary must go without --method {method}, which needs rows, got both"
        )
    needed = {"uts": None, "accuracy": "--accuracy"}.get(method, None if summed else "--labels")
    given = set(evidence.given()) - {"--groups", "--classes"}
    if method in ("temperature", "accuracy"):
        given.discard("--clusters")  # they widen the interval
    if needed is not None and needed not in given:
        raise tepid.InputError(f"--method {method} must go with {needed}, got it alone")
    other = sorted(given - {needed})
    if other:
        raise tepid.InputError(f"--method {method} must go without {other[0]}, got both")
    if evidence.answers is not None:
        raise tepid.InputError(
            f"--method {method} must have a label for every row, got labels by id; leave out "
            "--method"
        )
    if method in SCALING and engine != "threads":
        raise tepid.InputError(f"--engine must be threads for --method {method}, got {engine}")


def show_fit(
    result: "tepid.Temperature",
    out: Path | None,
    report: Path | None = None,
    *,
    as_json: bool,
    logits: str = "LOGITS",
    labels: str | None = None,
) -> None:
    """Save a temperature where an output is named, and print it."""
    if out is not None:
        result.save(out)
    if as_json:
        console.print_json(result.as_dict())
        return
    show_temperature(result, logits, labels)
    for path in filter(None, (out, report)):
        console.print_line(f"wrote {path}")


def show_temperature(
    result: "tepid.Temperature", logits: str = "LOGITS", labels: str | None = None
) -> None:
    """Print a temperature, its evidence and groups, the verdict and its warnings.

    The next step names `logits` and `labels`, the file of labels by id if there is one.
    """
    rows = {
        "temperature": f"{result.value:.4f}",
        "95 % interval": "",
        "method": result.method,
        "status": result.status,
        "implied accuracy": f"{100 * result.implied_accuracy:.2f} %",
        "rows × classes": f"{result.samples} × {result.classes}",
    }
    if result.label_names:
        k = len(result.label_names)
        rows["rows × labels"] = f"{result.samples // k} × {k}"
        del rows["rows × classes"]
    if result.interval:
        rows["95 % interval"] = "{:.4f} to {:.4f}".format(*result.interval)
    else:
        del rows["95 % interval"]
    if result.sensitivity:
        rows["T with ½ σ, 2 σ"] = "{:.4f}, {:.4f}".format(*result.sensitivity)
    screen = console.console()
    screen.print(console.two_columns(rows, "calibration"))
    if len(result.evidence) > 1:
        screen.print(_evidence_table(result))
    if result.groups:
        screen.print(_group_table(result))
    if result.verdict is not None:
        console.print_line(f"verdict: {result.verdict}. {result.reason}")
        step = result.next_step.replace("LOGITS", logits)
        if labels is None:
            step = step.replace("--labels to_label.csv -o more.csv", "-o to_label.csv")
        else:
            step = step.replace("--labels to_label.csv", f"--labels {labels}")
            step = step.replace("-o more.csv", f"-o {_unused_name('more.csv')}")
        console.print_line(f"next step: {step}")
    console.notes(result.warnings)


def _unused_name(name: str) -> str:
    """The name of a file that does not exist yet: more.csv, more-2.csv and so on."""
    path, number = Path(name), 1
    while path.exists():
        number += 1
        path = path.with_stem(f"{Path(name).stem}-{number}")
    return str(path)


def _evidence_table(result: "tepid.Temperature") -> "Table":
    table = console.table(box=None, padding=(0, 2), title="evidence", title_justify="left")
    table.add_column("kind")
    for name in ("T", "95 % interval", "weight"):
        table.add_column(name, justify="right")
    for name, part in result.evidence.items():
        interval = "{:.3f} to {:.3f}".format(*part.interval)
        table.add_row(name, f"{part.value:.4f}", interval, f"{part.weight:.2f}")
    return table


def _group_table(result: "tepid.Temperature") -> "Table":
    kind = "label" if result.label_names else "group"
    table = console.table(box=None, padding=(0, 2), title=f"{kind}s", title_justify="left")
    table.add_column(kind)
    last = "verdict" if result.verdict else "status"
    for name in ("temperature", "implied accuracy", "rows", last):
        table.add_column(name, justify="right")
    for name, t in result.groups.items():
        accuracy = f"{100 * t.implied_accuracy:.2f} %"
        table.add_row(name, f"{t.value:.4f}", accuracy, str(t.samples), t.verdict or t.status)
    return table


# --- tepid fit --method


def _fit_scaling(data: "Source", method: str, out: Path | None, *, as_json: bool) -> None:
    """Fit a method of `tepid.scaling`, save it, and print what it does to the accuracy."""
    if data.grouped:
        raise tepid.InputError(f"--groups must go with a temperature, got --method {method}")
    if method in ("matrix", "dirichlet") and (data.classes or 0) >= _MANY_CLASSES:
        weights = (data.classes or 0) ** 2
        console.note(f"Fitting {weights} weights takes minutes; --method vector is faster.")
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
        f"The accuracy after is of the fitted rows and too optimistic; "
        f"tepid compare --methods {fitted.method} scores held-out rows."
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
