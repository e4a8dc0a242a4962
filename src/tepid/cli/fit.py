"""`tepid fit`, and `tepid summarize` and `tepid merge`, which write sums for it.

`EvidenceOptions` turns options into the arguments of `tepid.calibrate`.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import tepid
from tepid.cli import console, options
from tepid.cli.calibrations import show_temperature, uncalibrated
from tepid.cli.options import EngineOptions, FileOptions

if TYPE_CHECKING:
    from tepid.engines import Engine
    from tepid.methods.accuracy import Accuracy
    from tepid.sources import Source

# The exact methods of the literature that fit one number.
EXACT = ("uts", "temperature", "accuracy")
# The methods of `tepid.scaling`, which fit more than one number.
SCALING = (
    "vector", "matrix", "histogram", "isotonic", "bbq", "ensemble", "beta", "dirichlet",
)  # fmt: skip
# The options that state evidence. `--groups` and `--classes` go with every method.
EVIDENCE = (
    "--labels", "--labeled", "--accuracy", "--models", "--reference", "--source", "--multilabel",
    "--per-label", "--ids", "--clusters",
)  # fmt: skip
# From this many classes on, fitting a matrix takes minutes.
_MANY_CLASSES = 500


# --- options to evidence


@dataclass(frozen=True)
class EvidenceOptions:
    """The options of `tepid fit` and `tepid onnx` that state what is known, as they were typed."""

    labels: options.AllLabels = None
    labeled: Annotated[
        str | None,
        typer.Option(
            help="Labeled rows that are not among the logits: a file with `logits` and `labels`."
        ),
    ] = None
    accuracy: Annotated[
        str | None,
        typer.Option(
            help="The model's accuracy: 0.93, 93%, 0.93±0.01 (or +-), 186/200, 0.91..0.95."
        ),
    ] = None
    models: options.Models = None
    reference: options.Reference = None
    source: options.OlderSet = None
    classes: options.Classes = None
    multilabel: Annotated[
        bool,
        typer.Option(
            "--multilabel", help="Multi-label: a sigmoid per column, and one T for all columns."
        ),
    ] = False
    per_label: Annotated[
        bool, typer.Option("--per-label", help="Like --multilabel, with one T per label.")
    ] = False

    @property
    def files(self) -> tuple[str | None, ...]:
        """Every input that may be a file."""
        return self.labels, self.labeled, self.reference, self.source, *(self.models or ())

    @property
    def splits(self) -> bool | Literal["per-label"]:
        """The argument `multilabel` of `tepid.calibrate`."""
        return "per-label" if self.per_label else self.multilabel

    @property
    def answers(self) -> str | None:
        """The file of labels by id, if `--labels` names one."""
        if self.labels is None or self.splits or not tepid.sources.is_answers(self.labels):
            return None
        return self.labels

    @property
    def label_column(self) -> str | None:
        """The labels to open with the logits: not those by id, and not those of several labels."""
        return None if self.answers or self.splits else self.labels

    @property
    def class_names(self) -> list[str] | None:
        """The names of the classes."""
        return None if self.classes is None else options.read_classes(self.classes)

    def parse_accuracy(self) -> "Accuracy | None":
        """The accuracy; raises if it cannot be read."""
        from tepid.methods.accuracy import parse_accuracy  # noqa: PLC0415  # NumPy

        return None if self.accuracy is None else parse_accuracy(self.accuracy)

    def calibrate(
        self,
        rows: "Source",
        reading: FileOptions,
        engine: "Engine",
        *,
        logits: list[str],
        ids: str | None = None,
        groups: str | None = None,
    ) -> "tepid.Temperature":
        """The temperature of all evidence on rows that are open; `logits` is where they are."""
        names = self.class_names
        if self.splits:
            labels: Any = self._open_labels(reading, logits)
            labeled: Any = _open_pair(self.labeled, reading)
            source: Any = _open_pair(self.source, reading)
        else:
            labels = self.answers
            column = options.column_name(groups)
            labeled = reading.open_labeled(self.labeled, classes=names, groups=column)
            source = reading.open_labeled(self.source, classes=names)
        with console.without_calibration_warnings():
            return tepid.calibrate(
                rows,
                labels,
                labeled=labeled,
                accuracy=self.parse_accuracy(),
                models=[reading.open_other(path, ids=ids) for path in self.models or ()],
                reference=self._open_reference(reading, ids),
                source=source,
                classes=names,
                multilabel=self.splits,
                engine=engine,
            )

    def _open_labels(self, reading: FileOptions, logits: list[str]) -> "Source | None":
        """The labels (n, K) of multi-label rows: a file, or columns of the logits' table."""
        if self.labels is None:
            return None
        if tepid.sources.paths.names_file(self.labels):
            return FileOptions(class_axis=reading.class_axis).open(self.labels)
        return replace(reading, columns=self.labels, probabilities=False).open(logits)

    def _open_reference(self, reading: FileOptions, ids: str | None) -> "Source | str | None":
        path = self.reference
        if path is None or tepid.sources.is_answers(path) or tepid.sources.holds_classes(path):
            return path
        return reading.open_other(path, ids=ids)


def _open_pair(path: str | None, reading: FileOptions) -> "tuple[Source, Source] | None":
    """The members or columns `logits` and `labels` of a file, both (n, K)."""
    if path is None:
        return None
    plain = replace(reading, columns=None, probabilities=False)
    return plain.open_other(f"{path}#logits"), plain.open_other(f"{path}#labels")


# --- tepid fit


def fit(
    *,
    context: typer.Context,
    logits: options.SomeShards = None,
    evidence: EvidenceOptions,
    ids: options.Ids = None,
    groups: options.Groups = None,
    clusters: Annotated[
        str | None,
        typer.Option(
            help="The image, patient or other unit of each row, if rows are not independent: "
            f"{options.IN_FILE}."
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"Use a single method instead of all evidence: {', '.join((*EXACT, *SCALING))}."
        ),
    ] = None,
    out: options.Output = None,
    report: Annotated[Path | None, typer.Option(help="Also write a report: an .html file.")] = None,
    sample_weight: options.SampleWeight = None,
    reading: FileOptions,
    summary: Annotated[
        Path | None, typer.Option(help="Fit to a file that `tepid merge` wrote, without rows.")
    ] = None,
    engines: EngineOptions,
    as_json: options.Json = False,
) -> None:
    """Fit a temperature to logits and other evidence: labels, an accuracy, other models.

    Example: tepid fit logits.npy --accuracy 186/200 -o calibration.json
    """
    names_file = options.classes_file(evidence.classes)
    inputs = (
        *(logits or ()), sample_weight, groups, clusters, summary, names_file, *evidence.files,
    )  # fmt: skip
    _check_outputs(out, report, method, evidence, inputs)
    given = options.given_options(context)
    if method is not None:
        _check_method(method, evidence, engines.engine, given)
    if summary is not None:
        _check_summary(given)
        show_fit(_fit(tepid.Summaries.load(summary), method, evidence), out, as_json=as_json)
        return
    if not logits:
        raise tepid.InputError("logits must be given, got neither them nor a --summary")
    data = reading.open(
        logits,
        labels=evidence.label_column,
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
    with engines.start() as engine:

        def fit_rows(rows: "Source") -> "tepid.Temperature":
            if method is not None:
                return _fit(rows, method, evidence, engine)
            return evidence.calibrate(rows, reading, engine, logits=logits, ids=ids, groups=groups)

        result = fit_rows(data)
        halved = tepid.sources.logs.halved(data)
        if halved is not None:
            console.note(
                f"With half the bound for options that are not listed T is "
                f"{fit_rows(halved).value:.4f} instead of {result.value:.4f}."
            )
        if report is not None:
            tepid.report.write(report, data, temperatures=[result], engine=engine)
    show_fit(result, out, report, as_json=as_json, logits=" ".join(logits), labels=evidence.answers)


def _fit(
    rows: "Source | tepid.Summaries",
    method: str | None,
    evidence: EvidenceOptions,
    engine: "Engine | None" = None,
) -> "tepid.Temperature":
    """A temperature by an exact method or, of summaries, by `calibrate`."""
    if method == "uts":
        return tepid.uts(rows, engine=engine)
    if method == "temperature":
        return tepid.temperature_scaling(rows, engine=engine)
    if method == "accuracy":
        return tepid.match_accuracy(rows, evidence.parse_accuracy() or 0.0, engine=engine)
    with console.without_calibration_warnings():
        return tepid.calibrate(rows, accuracy=evidence.parse_accuracy())


def _check_outputs(
    out: Path | None,
    report: Path | None,
    method: str | None,
    evidence: EvidenceOptions,
    inputs: tuple[str | Path | None, ...],
) -> None:
    if out is not None:
        options.check_output(out, *inputs)
        options.check_suffix(out, ".npz" if method in SCALING else ".json")
    if report is None:
        return
    if method in SCALING:
        raise tepid.InputError(f"--report must go with a temperature, got --method {method}")
    if evidence.splits:
        raise tepid.InputError("--report must go with rows of one label, got --multilabel")
    options.check_suffix(report, ".html", ".htm", what="report")
    options.check_output(report, *inputs)


def _check_summary(given: list[str]) -> None:
    allowed = ("--summary", "--method", "--accuracy", "--output", "--threads", "--json")
    for name in given:
        if name not in allowed:
            raise tepid.InputError(f"--summary must go without {name}, which needs rows, got both")


def _check_method(method: str, evidence: EvidenceOptions, engine: str, given: list[str]) -> None:
    """Raise unless a method gets the evidence that it uses, and no other."""
    if method not in (*EXACT, *SCALING):
        known = ", ".join((*EXACT, *SCALING))
        raise tepid.InputError(f"--method must be one of {known}, got {method}")
    summed = "--summary" in given
    if summed and method in SCALING:
        raise tepid.InputError(
            f"--summary must go without --method {method}, which needs rows, got both"
        )
    # Summaries have the labels in them.
    needed = {"uts": None, "accuracy": "--accuracy"}.get(method, None if summed else "--labels")
    if needed is not None and needed not in given:
        raise tepid.InputError(f"--method {method} must go with {needed}, got it alone")
    allowed = {needed}
    if method in ("temperature", "accuracy"):
        allowed.add("--clusters")  # they widen the interval
    other = [name for name in given if name in EVIDENCE and name not in allowed]
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


# --- tepid fit --method


def _fit_scaling(data: "Source", method: str, out: Path | None, *, as_json: bool) -> None:
    """Fit a method of `tepid.scaling`, save it, and print what it does to the accuracy."""
    if data.grouped:
        raise tepid.InputError(f"--groups must go with a temperature, got --method {method}")
    if method in ("matrix", "dirichlet") and (data.classes or 0) >= _MANY_CLASSES:
        weights = (data.classes or 0) ** 2
        console.note(f"Fitting {weights} weights takes minutes; --method vector is faster.")
    rows = data.whole()
    function = getattr(tepid.scaling, method)
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
    console.print_pairs(title, table)
    console.notes(fitted.warnings)
    console.note(
        f"The accuracy after is of the fitted rows and too optimistic; "
        f"tepid compare --methods {fitted.method} scores held-out rows."
    )
    if out is not None:
        console.print_line(f"wrote {out}")


# --- tepid summarize and tepid merge


_Summaries = Annotated[Path, typer.Option("-o", "--output", help="The summaries to write: .npz.")]


def summarize(
    *,
    logits: options.Shards,
    out: _Summaries,
    labels: options.AllLabels = None,
    classes: options.Classes = None,
    given: Annotated[
        Path | None, typer.Option(help="The merged summaries of the first round.")
    ] = None,
    sample_weight: options.SampleWeight = None,
    reading: FileOptions,
    engines: EngineOptions,
    as_json: options.Json = False,
) -> None:
    """Write sums over rows that must not be shared, for `tepid merge` and `tepid fit --summary`.

    Example: tepid summarize logits.npy -o sums.npz
    """
    options.check_suffix(out, ".npz")
    names_file = options.classes_file(classes)
    options.check_output(out, *logits, labels, given, sample_weight, names_file)
    first = None if given is None else tepid.Summaries.load(given)
    names = None if classes is None else options.read_classes(classes)
    source = reading.open(logits, labels=labels, classes=names, sample_weight=sample_weight)
    with engines.start() as engine:
        total = tepid.summarize(source, given=first, engine=engine)
    _save(total, out, as_json=as_json)


def merge(
    summaries: Annotated[
        list[Path],
        typer.Argument(help="Files that `tepid summarize` wrote, all of the same round."),
    ],
    out: _Summaries,
    as_json: options.Json = False,
) -> None:
    """Add the summaries of several sites or shards.

    Example: tepid merge sums.npz -o all.npz
    """
    options.check_suffix(out, ".npz")
    options.check_output(out)
    total = tepid.Summaries.load(summaries[0])
    for path in summaries[1:]:
        one = tepid.Summaries.load(path)
        try:
            total = total + one
        except tepid.InputError as error:
            raise tepid.InputError(f"{path}: {error}") from None
    _save(total, out, as_json=as_json)


def _save(total: "tepid.Summaries", out: Path, *, as_json: bool) -> None:
    total.save(out)
    number = 2 if len(total.curve.thresholds) else 1
    if as_json:
        described = {
            "output": str(out),
            "samples": total.rows,
            "classes": total.tails.classes,
            "parts": len(total.prints),
            "labeled": total.labels is not None,
            "round": number,
        }
        console.print_json(described)
        return
    again = "" if number == 2 else "; merge them, then summarize again --given the merged ones"
    console.print_line(f"wrote the sums over {total.rows} rows to {out}, round {number}{again}")
