"""`tepid lab table`."""

from pathlib import Path
from typing import Annotated

import typer

import tepid
from tepid.cli import options, output
from tepid.replacing import replacing


def table(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folders of NETWORK_DATA.npz archives or of runs of tepid lab train."),
    ],
    seeds: Annotated[int, typer.Option(help="How many random splits.")] = 20,
    form: Annotated[
        str, typer.Option("--format", help="How to print: markdown, latex or html.")
    ] = "markdown",
    out: options.Output = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Give the paper's tables back: its protocol on logits at hand, beside its own figures.

    Example: tepid lab table runs
    """
    from tepid.lab import tables, writers  # noqa: PLC0415  # so that --help does not wait for numba

    if form not in writers.FORMS:
        raise tepid.InputError(f"--format must be one of {', '.join(writers.FORMS)}, got {form}")
    if out is not None:
        output.refuse_overwriting(out)
    with output.working(threads) as engine:
        found = tables.table(folders, seeds=seeds, engine=engine)
    if as_json:
        text = output.json_text(found.as_json()) + "\n"
    else:
        text = writers.FORMS[form](found.sheets, found.notes)
    if out is None:
        typer.echo(text, nl=False)
        return
    with replacing(out) as file:
        file.write(text.encode())
    output.console().print(f"wrote {out}", markup=False)
