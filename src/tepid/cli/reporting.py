"""`tepid report`."""

from pathlib import Path
from typing import Annotated

import typer

import tepid
from tepid.cli import options, output
from tepid.cli.inputs import Reading


def report(
    logits: options.Logits,
    labels: options.AllLabels = None,
    calibration: Annotated[
        list[Path] | None,
        typer.Option(
            "-c", "--calibration", help="A file that `tepid fit -o` wrote; repeatable, main first."
        ),
    ] = None,
    names: Annotated[
        Path | None, typer.Option(help="A text file with the name of a class on each line.")
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Pictures of the rows: .npz or .npy of uint8, or a folder of files."),
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
    """Write one HTML file that says what was found and lets you move the temperature.

    Example: tepid report logits.npy -c calibration.json -o report.html
    """
    check_name(out)
    output.refuse_overwriting(out, logits, labels, names, images, *(calibration or ()))
    reading = Reading(columns, tuple(where or ()), header, probabilities, class_axis)
    data = reading.open(logits, labels=labels)
    temperatures = {str(path): tepid.load(path) for path in calibration or ()}
    with output.working(threads) as engine:
        tepid.report.write(
            out, data, temperatures=temperatures, names=names, images=images, title=title,
            engine=engine,
        )  # fmt: skip
    if as_json:
        output.print_json({"report": str(out)})
    else:
        output.console().print(f"wrote {out}", markup=False)


def check_name(out: Path) -> None:
    """Refuse a name that a browser would not open as a page."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise tepid.InputError(f"report must end in .html, got {out.name}")
