"""`tepid lab figures`."""

from pathlib import Path
from typing import Annotated, Any

import typer

import tepid
from tepid.cli import options, output
from tepid.cli.laboratory import needing_torch


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
    data: Annotated[
        Path | None, typer.Option(help="Where the images of one run are, in place of --images.")
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
    from tepid.lab import figures as laboratory  # noqa: PLC0415  # numba, only when asked
    from tepid.report.pictures import pixels  # noqa: PLC0415  # the same
    from tepid.report.writing import class_names  # noqa: PLC0415  # the same

    shown = None if images is None else pixels(images)
    called = None if names is None else class_names(names)
    if data is not None:
        shown, own = _of_run(folders, data)
        called = called or own
    try:
        written = laboratory.write(folders, out, form=form, images=shown, names=called)
    except ImportError as error:
        raise tepid.InputError(str(error)) from None
    if as_json:
        output.print_json([str(path) for path in written])
        return
    for path in written:
        output.console().print(f"wrote {path}", markup=False, soft_wrap=True)


def _of_run(folders: list[Path], data: Path) -> tuple[Any, list[str]]:
    """The images that a run was tested on, and the names of its classes."""
    if len(folders) != 1:
        raise tepid.InputError(f"--data must be that of one run, got {len(folders)} folders")
    needing_torch()
    from tepid.lab import skin, trained  # noqa: PLC0415  # after torch was looked for

    found = trained.data_of(folders[0], data)
    return found.test.pixels.permute(0, 2, 3, 1).numpy(), skin.named(found.names)
