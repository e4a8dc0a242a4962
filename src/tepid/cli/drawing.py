"""`tepid lab figures`."""

from pathlib import Path
from typing import Annotated

import typer

from tepid.cli import options, output


def figures(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folders of NETWORK_DATA.npz archives or of runs of tepid lab train."),
    ],
    out: Annotated[Path, typer.Option("-o", "--output", help="The folder to write into.")] = Path(
        "figures"
    ),
    images: Annotated[
        str | None,
        typer.Option(
            help="Pictures of the rows of one set: .npy or .npz of uint8, or .npz#member."
        ),
    ] = None,
    names: Annotated[
        Path | None, typer.Option(help="A text file with the name of a class on each line.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="png, svg or pdf.")] = "png",
    as_json: options.Json = False,
) -> None:
    """Draw the paper's figures: the division M_k, reliability, and galleries before and after.

    Example: tepid lab figures runs -o figures
    """
    from tepid.lab import figures as laboratory  # noqa: PLC0415  # matplotlib, only when asked
    from tepid.report.pictures import pixels  # noqa: PLC0415  # the same
    from tepid.report.writing import class_names  # noqa: PLC0415  # the same

    written = laboratory.write(
        folders,
        out,
        form=form,
        images=None if images is None else pixels(images),
        names=None if names is None else class_names(names),
    )
    if as_json:
        output.print_json([str(path) for path in written])
        return
    for path in written:
        output.console().print(f"wrote {path}", markup=False)
