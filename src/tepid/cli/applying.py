"""`tepid apply`."""

from pathlib import Path
from typing import Annotated, Any

import typer

import tepid
from tepid.cli import options, output, scaled, spreading
from tepid.cli.inputs import Reading


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
    into = spreading.targets(out, logits, form, others) if spreading.is_folder(out) else None
    _check(out, form, class_axis, [*logits, *others], folder=into is not None)
    calibrator = scaled.load(calibration)
    output.doubts(calibrator)
    reading = Reading(columns, tuple(where or ()), header, probabilities, class_axis)
    source = reading.open(logits, groups=groups)
    output.note_strangers(calibrator, source)
    with output.working(threads) as engine:
        if into is None:
            rows = _apply(calibrator, source, engine, out, class_axis)
        else:
            rows = spreading.apply_each(calibrator, source, into, engine)
    summary = {"output": str(out), "samples": rows, "classes": calibrator.classes}
    if into is not None:
        summary["files"] = len(into)
    if as_json:
        output.print_json(summary)
        return
    written = f"{len(into)} files in {out}" if into is not None else str(out)
    output.console().print(f"wrote {rows} rows of probabilities to {written}", markup=False)


def _check(
    out: Path, form: str | None, class_axis: int | None, inputs: list[Any], *, folder: bool
) -> None:
    if folder and class_axis is not None:
        raise tepid.InputError("--class-axis must go with one file to write, got a folder")
    if folder:
        return
    if form is not None:
        raise tepid.InputError(f"--format must go with a folder to write to, got {out}")
    output.refuse_overwriting(out, *inputs)
    tepid.sources.writing.check_ending(out)


def _apply(
    calibrator: Any,
    source: "tepid.sources.Source",
    engine: "tepid.Threads",
    out: Path,
    class_axis: int | None,
) -> int:
    done = 0

    def tell(rows: int) -> None:
        nonlocal done
        done += rows
        if engine.progress:
            engine.progress("applying", done, source.rows)

    blocks = spreading.calibrated(calibrator, source, tell, allow_empty=False)
    if class_axis is not None and source.shape is not None:
        blocks = iter([_shaped(list(blocks), source.shape, class_axis)])
    written = tepid.sources.write_batches(out, blocks)
    return source.rows or written


def _shaped(blocks: list[Any], lead: tuple[int, ...], class_axis: int) -> Any:
    """All probabilities in the shape that their logits have."""
    whole = tepid.shapes.joined(blocks).reshape(*lead, -1)
    return tepid.shapes.class_back(whole, class_axis)
