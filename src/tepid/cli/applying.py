"""`tepid apply`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

import tepid
from tepid.cli import options, output, scaled


def apply(
    calibration: Annotated[Path, typer.Argument(help="A file that `tepid fit -o` wrote.")],
    logits: options.Logits,
    out: Annotated[Path, typer.Option("-o", "--output", help="Probabilities: .npy, .npz or .csv.")],
    groups: options.Groups = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    as_json: options.Json = False,
) -> None:
    """Turn logits into calibrated probabilities.

    Example: tepid apply calibration.json logits.npy -o probabilities.npy
    """
    output.refuse_overwriting(out, logits, calibration)
    calibrator = scaled.load(calibration)
    output.doubts(calibrator)
    source = tepid.sources.open_source(
        logits, class_axis=class_axis, probabilities=probabilities, groups=groups
    )
    output.note_strangers(calibrator, source)
    with output.working(None) as engine:
        blocks = _calibrated(calibrator, source, engine)
        if class_axis is not None and source.lead is not None:
            blocks = iter([_shaped(list(blocks), source.lead, class_axis)])
        written = tepid.sources.write_blocks(out, blocks)
    rows = source.rows or written
    summary = {"output": str(out), "samples": rows, "classes": calibrator.classes}
    if as_json:
        output.print_json(summary)
    else:
        output.console().print(f"wrote {rows} rows of probabilities to {out}", markup=False)


def _calibrated(
    calibrator: Any, source: "tepid.sources.Source", engine: "tepid.Threads"
) -> Iterator[Any]:
    for block in source.blocks(tepid.shapes.rows_per_block(calibrator.classes)):
        try:
            groups = {} if block.groups is None else {"groups": block.groups}
            yield calibrator(block.logits, **groups)
        except tepid.errors.RowError as error:
            raise error.moved(block.start, block.name) from None
        if engine.progress:  # what was yielded has been written
            engine.progress("applying", block.start + len(block.logits), source.expected)


def _shaped(blocks: list[Any], lead: tuple[int, ...], class_axis: int) -> Any:
    """All probabilities in the shape that their logits have."""
    whole = tepid.shapes.joined(blocks).reshape(*lead, -1)
    return tepid.shapes.class_back(whole, class_axis)
