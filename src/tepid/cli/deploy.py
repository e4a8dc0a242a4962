"""`tepid apply` and `tepid onnx`: use a calibration.

`apply` writes calibrated probabilities, to one file or to one for each input; `onnx` writes a
calibrated model.
"""

import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
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
    show_temperature,
    unknown_groups,
)
from tepid.cli.fit import EVIDENCE, EvidenceOptions
from tepid.cli.options import FileOptions

if TYPE_CHECKING:
    from tepid.sources import Source
    from tepid.validation import Array

_FORMATS = ("npy", "csv", "parquet")
# The options of `tepid onnx` that say how to fit a temperature.
_WITH_DATA = (*EVIDENCE, "--classes", "--save-calibration")


# --- tepid apply


def apply(
    *,
    calibration: Annotated[Path, typer.Argument(help="A file that `tepid fit -o` wrote.")],
    logits: options.Shards,
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="Probabilities: a .npy, .npz, .csv or .parquet file, or a folder.",
        ),
    ],
    form: Annotated[
        str | None,
        typer.Option("--format", help="File format in an output folder: npy, csv or parquet."),
    ] = None,
    groups: options.Groups = None,
    reading: FileOptions,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Apply a calibration: write calibrated probabilities to a file or a folder.

    Example: tepid apply calibration.json logits.npy -o probabilities.npy
    """
    others = [str(calibration), *([] if groups is None else [groups])]
    targets = None
    if out.is_dir() or not out.suffix:
        if reading.class_axis is not None:
            raise tepid.InputError("--class-axis must go with one file to write, got a folder")
        targets = _target_files(out, logits, form, others)
    else:
        if form is not None:
            raise tepid.InputError(f"--format must go with a folder to write to, got {out}")
        options.check_output(out, *logits, *others)
        tepid.sources.writing.check_ending(out)
    calibrator = load_calibration(calibration)
    note_warnings(calibrator)
    source = reading.open(logits, groups=groups)
    check_groups(calibrator, source)
    if isinstance(calibrator, tepid.Temperature):
        calibrator.check_label_order(source.names)
    with console.threads_with_progress(threads) as engine:
        application = _Application(calibrator, engine, source)
        if targets is None:
            application.write(source, out, reading.class_axis)
        else:
            application.write_each(source.files(), targets)
    rows = application.rows
    note_unknown_groups(application.unknown)
    if as_json:
        described = {"output": str(out), "samples": rows, "classes": application.columns}
        console.print_json(described | ({} if targets is None else {"files": len(targets)}))
        return
    written = str(out) if targets is None else f"{len(targets)} files in {out}"
    console.print_line(f"wrote {rows} rows of probabilities to {written}")


def _target_files(out: Path, logits: list[str], form: str | None, others: list[str]) -> list[Path]:
    """The file to write for each input, under the input's name in the folder `out`."""
    if form is not None and form not in _FORMATS:
        raise tepid.InputError(f"--format must be one of {', '.join(_FORMATS)}, got {form}")
    if not out.parent.is_dir():
        raise tepid.InputError(f"output must be in a folder that exists, got {out}")
    paths = tepid.sources.paths
    found = paths.expand(logits, "logits file")
    names = [_target_name(name, form) for name in paths.short_names(found)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise tepid.InputError(f"files must have names of their own, got two that make {twice}")
    targets = [out / name for name in names]
    for target, path in zip(targets, found, strict=True):
        if not target.resolve().is_relative_to(out.resolve()):
            raise tepid.InputError(
                f"output must stay in {out}, got {target}, which leads elsewhere"
            )
        if target.exists() and any(options.is_among(target, each) for each in (path, *others)):
            raise tepid.InputError(f"output must not be one of the inputs, got {target}")
    return targets


def _target_name(name: str, form: str | None) -> str:
    """The name with the ending of its new format; by default a table stays a table."""
    paths = tepid.sources.paths
    ending = paths.suffix(name)
    same = "parquet" if ending in paths.ARROW else "csv" if ending in paths.CSV else "npy"
    return f"{name[: len(name) - len(ending)]}.{form or same}"


class _Application:
    """Applies a calibration in one pass; counts rows from any thread."""

    def __init__(self, calibrator: Calibrator, engine: "tepid.Threads", source: "Source") -> None:
        self.calibrator, self.engine, self.expected = calibrator, engine, source.rows
        # Probabilities of multi-label rows do not sum to one, so that no logarithms are read.
        self.independent = source.probabilities and bool(getattr(calibrator, "label_names", ()))
        self.columns = len(getattr(calibrator, "label_names", ())) or calibrator.classes
        self.rows = self.unknown = 0
        self._lock = threading.Lock()

    def write(self, source: "Source", out: Path, class_axis: int | None) -> None:
        """Write all probabilities to one file, in the shape that the logits have."""
        batches = self._calibrate(source, allow_empty=False)
        if class_axis is not None and source.shape is not None:
            whole = tepid.shapes.joined(list(batches)).reshape(*source.shape, -1)
            batches = iter([tepid.shapes.class_back(whole, class_axis)])
        tepid.sources.write_batches(out, batches)

    def write_each(self, files: "list[Source]", targets: list[Path]) -> None:
        """Write the probabilities of each file to its target, several files at a time."""

        def write(file: "Source", target: Path) -> None:
            target.parent.mkdir(parents=True, exist_ok=True)
            batches = self._calibrate(file, allow_empty=True)
            tepid.sources.write_batches(target, batches, classes=self.columns)

        with ThreadPoolExecutor(min(self.engine.threads, len(files))) as pool:
            try:
                list(pool.map(write, files, targets))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _calibrate(self, source: "Source", *, allow_empty: bool) -> "Iterator[Array]":
        if self.independent:
            source = source.replaced(probabilities=False)
        size = tepid.shapes.rows_per_batch(self.calibrator.classes)
        for batch in source.batches(size, allow_empty=allow_empty, once=True):
            given: dict[str, Any] = {} if batch.group is None else {"groups": batch.group}
            if self.independent:
                given["probabilities"] = True
            try:
                yield self.calibrator(batch.logits, **given)
            except tepid.errors.RowError as error:
                raise batch.locate(error) from None
            unknown = unknown_groups(self.calibrator, batch)
            with self._lock:
                self.unknown += unknown
                self.rows += len(batch.logits)
                if self.engine.progress:
                    self.engine.progress("applying", self.rows, self.expected)


# --- tepid onnx


def onnx(
    *,
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A trained classifier as an .onnx file.")],
    out: Annotated[Path, typer.Option("-o", "--output", help="The calibrated model to write.")],
    calibration: options.Calibration = None,
    data: Annotated[
        str | None,
        typer.Option(help="Inputs of the model: .npy, .npz (one array per input) or a folder."),
    ] = None,
    logits: Annotated[
        str | None, typer.Option(help="The name of the output or tensor with the logits.")
    ] = None,
    keep_logits: Annotated[
        bool, typer.Option("--keep-logits", help="Output calibrated logits, not probabilities.")
    ] = False,
    evidence: EvidenceOptions,
    save_calibration: Annotated[
        Path | None, typer.Option(help="Where to save the temperature as JSON.")
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="The model outputs probabilities, not logits.")
    ] = False,
    class_axis: options.ClassAxis = None,
    batch: Annotated[int | None, typer.Option(help="Number of rows to run at once.")] = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Insert a temperature into an ONNX model: a saved one, or one fitted by running the model.

    Example: tepid onnx model.onnx --data images.npy --accuracy 0.93 -o calibrated.onnx
    """
    _check_origin(calibration, data, options.given_options(context))
    if save_calibration is not None:
        options.check_suffix(save_calibration, ".json")
    _check_evidence(evidence)
    for path in filter(None, (out, save_calibration)):
        names_file = options.classes_file(evidence.classes)
        options.check_output(path, model, calibration, data, names_file, *evidence.files)
    bridge = _import_onnx()
    saved = None if calibration is None else tepid.load(calibration)
    split = bool(evidence.splits if saved is None else saved.label_names)
    where: dict[str, Any] = {
        "logits": logits, "class_axis": class_axis, "probabilities": probabilities,
        "multilabel": split,
    }  # fmt: skip
    bridge.find(model, **where, keep_logits=keep_logits)
    if saved is not None:
        temperature = saved
    else:
        outputs = bridge.run(model, data, **where, batch=batch, threads=threads)
        temperature = _fit_outputs(outputs, evidence, class_axis, threads)
    head = bridge.insert(model, temperature, out, **where, keep_logits=keep_logits)
    if save_calibration is not None:
        temperature.save(save_calibration)
    if as_json:
        place = {"output": str(out), "logits": head.tensor, "form": head.form}
        console.print_json(place | {"calibration": temperature.as_dict()})
        return
    if temperature.groups and not split:
        console.note("The calibration has groups; the model divides by the T of all rows.")
    show_temperature(temperature)
    if temperature.verdict == "keep":
        kind = "sigmoid" if split else "softmax"
        console.note(f"The model gets T = 1: its probabilities are a plain {kind} of its logits.")
    console.print_line(f"wrote {out}")
    console.print_line(_describe_change(head, keep_logits=keep_logits))


def _import_onnx() -> ModuleType:
    try:
        return tepid.onnx
    except ImportError as error:
        raise tepid.InputError(str(error)) from None


def _check_origin(calibration: Path | None, data: str | None, given: list[str]) -> None:
    """Raise unless the temperature is either loaded or fitted."""
    if (calibration is None) == (data is None):
        got = "neither" if data is None else "both"
        raise tepid.InputError(f"temperature must come from --calibration or --data, got {got}")
    if calibration is not None:
        for name in given:
            if name in _WITH_DATA:
                raise tepid.InputError(f"{name} must go with --data, got it with --calibration")


def _check_evidence(evidence: EvidenceOptions) -> None:
    """Raise where evidence cannot be used, before the model is run, which takes longest."""
    evidence.parse_accuracy()
    paths = tepid.sources.paths
    for given in evidence.files:
        if given is not None and paths.names_file(given):
            for path in paths.expand(given, "evidence file"):
                paths.check_file(paths.split_member(path)[0], "evidence file")


def _fit_outputs(
    outputs: "Iterator[Array]",
    evidence: EvidenceOptions,
    class_axis: int | None,
    threads: int | None,
) -> "tepid.Temperature":
    # A fit reads its logits several times; the model, which takes longest, runs once.
    with (
        tempfile.TemporaryDirectory(prefix="tepid-", ignore_cleanup_errors=True) as folder,
        console.threads_with_progress(threads) as engine,
    ):
        path = Path(folder) / "logits.npy"
        tepid.sources.write_batches(path, _report_rows(outputs, engine))
        labels, names = evidence.label_column, evidence.class_names
        rows = tepid.open_source(path, labels=labels, classes=names).renamed("logits")
        # The rows are flat, but labels (n, K, …) beside them are not.
        reading = FileOptions(class_axis=class_axis if evidence.splits else None)
        return evidence.calibrate(rows, reading, engine, logits=[str(path)])


def _report_rows(outputs: "Iterator[Array]", engine: "tepid.Threads") -> "Iterator[Array]":
    done = 0
    for batch in outputs:
        yield batch
        done += len(batch)
        if engine.progress:
            engine.progress("running the model", done, None)


def _describe_change(head: Any, *, keep_logits: bool) -> str:
    """What the model outputs now that it did not output before."""
    if keep_logits:
        return f"its output {head.output!r} gives calibrated logits"
    if head.form == "logits":
        return f"its output {head.output!r} gave logits and gives calibrated probabilities"
    if head.form == "activated":
        return f"its logits {head.tensor!r} are divided by T"
    return f"its probabilities {head.tensor!r} are calibrated"
