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
from tepid.cli.fit import Calibrator, Known, load_calibration, show_temperature
from tepid.cli.options import Reading

if TYPE_CHECKING:
    from tepid.methods.evidence import Evidence
    from tepid.sources import Source
    from tepid.validation import Array

_FORMATS = ("npy", "csv", "parquet")


# --- tepid apply


def apply(
    calibration: Annotated[Path, typer.Argument(help="A file that `tepid fit -o` wrote.")],
    logits: options.Shards,
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="Probabilities: .npy, .npz, .csv or .parquet; or a folder."
        ),
    ],
    form: Annotated[
        str | None,
        typer.Option("--format", help="Into a folder: npy, csv or parquet for every file."),
    ] = None,
    groups: options.Groups = None,
    columns: options.Columns = None,
    where: options.Where = None,
    header: options.Header = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Turn logits into calibrated probabilities, in one file or in one for each.

    Example: tepid apply calibration.json logits.npy -o probabilities.npy
    """
    others = [str(calibration), *([] if groups is None else [groups])]
    if out.is_dir() or not out.suffix:
        targets = _target_files(out, logits, form, others, class_axis)
    else:
        targets = None
        _check_one_file(out, form, [*logits, *others])
    calibrator = load_calibration(calibration)
    console.note_warnings(calibrator)
    source = Reading.of(columns, where, header, probabilities, class_axis).open(
        logits, groups=groups
    )
    check_groups(calibrator, source)
    with console.threads_with_progress(threads) as engine:
        application = _Application(calibrator, engine, source.rows)
        if targets is None:
            rows = application.write(source, out, class_axis)
        else:
            rows = application.write_each(source.files(), targets)
    note_unknown_groups(application.unknown)
    if as_json:
        described = {"output": str(out), "samples": rows, "classes": calibrator.classes}
        console.print_json(described | ({} if targets is None else {"files": len(targets)}))
        return
    written = str(out) if targets is None else f"{len(targets)} files in {out}"
    console.print_line(f"wrote {rows} rows of probabilities to {written}")


def _check_one_file(out: Path, form: str | None, inputs: list[str]) -> None:
    if form is not None:
        raise tepid.InputError(f"--format must go with a folder to write to, got {out}")
    options.check_output(out, *inputs)
    tepid.sources.writing.check_ending(out)


def _target_files(
    out: Path, logits: list[str], form: str | None, others: list[str], class_axis: int | None
) -> list[Path]:
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
        _check_target(target, out, [path, *others])
    if class_axis is not None:
        raise tepid.InputError("--class-axis must go with one file to write, got a folder")
    return targets


def _target_name(name: str, form: str | None) -> str:
    """The name with the ending of its new format; by default a table stays a table."""
    paths = tepid.sources.paths
    ending = paths.suffix(name)
    tables = {".csv": "csv", ".parquet": "parquet"}
    same = "parquet" if ending in paths.ARROW else tables.get(ending[:4], "npy")
    return f"{name[: len(name) - len(ending)]}.{form or same}"


def _check_target(target: Path, out: Path, inputs: list[str]) -> None:
    if not target.resolve().is_relative_to(out.resolve()):
        raise tepid.InputError(f"output must stay in {out}, got {target}, which leads elsewhere")
    if target.exists() and any(options.is_among(target, each) for each in inputs):
        raise tepid.InputError(f"output must not be one of the inputs, got {target}")


def check_groups(calibrator: Calibrator, source: "Source") -> None:
    """Refuse groups that the calibration does not have; note that its groups are not used."""
    groups = getattr(calibrator, "groups", {})
    if source.grouped and not groups:
        raise tepid.InputError(
            "--groups must go with a calibration that has groups, got one without"
        )
    if groups and not source.grouped:
        console.note(
            "The calibration has groups; without --groups every row gets the T of all rows."
        )


def unknown_groups(calibrator: Calibrator, batch: "tepid.sources.Batch") -> int:
    """Number of rows whose group was not fitted."""
    if batch.group is None:
        return 0
    groups = getattr(calibrator, "groups", {})
    return sum(name not in groups for name in batch.group)


def note_unknown_groups(rows: int) -> None:
    """Print how many rows get the temperature of all rows."""
    if rows:
        console.note(f"{rows} rows are of groups that were not fitted and get the T of all rows.")


class _Application:
    """Applies a calibration in one pass; counts rows from any thread."""

    def __init__(
        self, calibrator: Calibrator, engine: "tepid.Threads", expected: int | None
    ) -> None:
        self.calibrator, self.engine, self.expected = calibrator, engine, expected
        self.rows = self.unknown = 0
        self._lock = threading.Lock()

    def write(self, source: "Source", out: Path, class_axis: int | None) -> int:
        """Write all probabilities to one file, in the shape that the logits have."""
        batches = self._calibrate(source, allow_empty=False)
        if class_axis is not None and source.shape is not None:
            whole = tepid.shapes.joined(list(batches)).reshape(*source.shape, -1)
            batches = iter([tepid.shapes.class_back(whole, class_axis)])
        written = tepid.sources.write_batches(out, batches)
        return source.rows or written

    def write_each(self, files: "list[Source]", targets: list[Path]) -> int:
        """Write the probabilities of each file to its target, several files at a time."""
        with ThreadPoolExecutor(min(self.engine.threads, len(files))) as pool:
            try:
                return sum(pool.map(self._write_file, files, targets))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _write_file(self, file: "Source", target: Path) -> int:
        target.parent.mkdir(parents=True, exist_ok=True)
        batches = self._calibrate(file, allow_empty=True)
        return tepid.sources.write_batches(target, batches, classes=self.calibrator.classes)

    def _calibrate(self, source: "Source", *, allow_empty: bool) -> "Iterator[Array]":
        size = tepid.shapes.rows_per_batch(self.calibrator.classes)
        for batch in source.batches(size, allow_empty=allow_empty, once=True):
            groups = {} if batch.group is None else {"groups": batch.group}
            try:
                yield self.calibrator(batch.logits, **groups)
            except tepid.errors.RowError as error:
                raise batch.locate(error) from None
            self._count(batch)

    def _count(self, batch: "tepid.sources.Batch") -> None:
        unknown = unknown_groups(self.calibrator, batch)
        with self._lock:
            self.unknown += unknown
            self.rows += len(batch.logits)
            if self.engine.progress:
                self.engine.progress("applying", self.rows, self.expected)


# --- tepid onnx


def onnx(
    model: Annotated[Path, typer.Argument(help="A trained classifier as an .onnx file.")],
    out: Annotated[Path, typer.Option("-o", "--output", help="The calibrated model to write.")],
    calibration: options.Calibration = None,
    data: Annotated[
        str | None,
        typer.Option(help="Inputs to calibrate on: .npy, .npz (by input name) or a folder."),
    ] = None,
    logits: Annotated[
        str | None, typer.Option(help="The output or tensor that holds the logits, by name.")
    ] = None,
    keep_logits: Annotated[
        bool, typer.Option("--keep-logits", help="Output calibrated logits, not probabilities.")
    ] = False,
    labels: options.AllLabels = None,
    accuracy: options.Accuracy = None,
    correct: options.Correct = None,
    of: options.Of = None,
    few: options.Few = None,
    also: options.Also = None,
    source: options.OlderSet = None,
    guarded: options.Guarded = False,
    budget: options.Budget = 0.03,
    deviations: options.Deviations = 1.0,
    debias: options.Debias = False,
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
    """Put a temperature into an ONNX model: a saved one, or one found by running the model.

    Example: tepid onnx model.onnx --data images.npy --accuracy 0.93 -o calibrated.onnx
    """
    known = Known(
        labels, accuracy, correct, of, few, tuple(also or ()), source, guarded, budget, deviations,
        debias,
    )  # fmt: skip
    evidence = known.evidence(Reading())
    extra = known.given(evidence)
    if save_calibration is not None:
        extra.append("--save-calibration")
        options.check_suffix(save_calibration, ".json")
    _check_origin(calibration, data, extra)
    for path in filter(None, (out, save_calibration)):
        options.check_output(path, model, calibration, data, labels, few, source, *(also or ()))
    bridge = _import_onnx()
    where: dict[str, Any] = {
        "logits": logits, "class_axis": class_axis, "probabilities": probabilities,
    }  # fmt: skip
    bridge.find(model, **where, keep_logits=keep_logits)
    if calibration is not None:
        temperature = tepid.load(calibration)
    else:
        outputs = bridge.run(model, data, **where, batch=batch, threads=threads)
        temperature = _fit_outputs(outputs, evidence, labels, threads)
    head = bridge.insert(model, temperature, out, **where, keep_logits=keep_logits)
    if save_calibration is not None:
        temperature.save(save_calibration)
    if as_json:
        place = {"output": str(out), "logits": head.tensor, "form": head.form}
        console.print_json(place | {"calibration": temperature.as_dict()})
        return
    if temperature.groups:
        console.note("The calibration has groups; the model divides by the T of all rows.")
    show_temperature(temperature)
    console.print_line(f"wrote {out}")
    console.print_line(_describe_change(head, keep_logits=keep_logits))


def _import_onnx() -> ModuleType:
    try:
        return tepid.onnx
    except ImportError as error:
        raise tepid.InputError(str(error)) from None


def _check_origin(calibration: Path | None, data: str | None, extra: list[str]) -> None:
    """Raise unless the temperature is either loaded or fitted."""
    if (calibration is None) == (data is None):
        got = "neither" if data is None else "both"
        raise tepid.InputError(f"temperature must come from --calibration or --data, got {got}")
    if calibration is not None and extra:
        raise tepid.InputError(f"{extra[0]} must go with --data, got it with --calibration")


def _fit_outputs(
    outputs: "Iterator[Array]", evidence: "Evidence", labels: str | None, threads: int | None
) -> "tepid.Temperature":
    # A fit reads its logits several times; the model, which takes longest, runs once.
    with (
        tempfile.TemporaryDirectory(prefix="tepid-", ignore_cleanup_errors=True) as folder,
        console.threads_with_progress(threads) as engine,
    ):
        path = Path(folder) / "logits.npy"
        tepid.sources.write_batches(path, _report_rows(outputs, engine))
        source = tepid.sources.open_source(path, labels=labels).renamed("logits")
        return evidence.fit(source, engine)


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
