"""The `tepid` command. Nothing heavy is imported until a verb runs."""

import importlib.metadata
import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import tepid
from tepid.cli import advising, applying, comparing, demonstrating, fitting, scoring

app = typer.Typer(
    name="tepid",
    help="Trustworthy confidence for any trained classifier, without labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tepid {importlib.metadata.version('tepid')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # typer calls _version
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which tepid.")
    ] = False,
) -> None:
    pass


app.command()(fitting.fit)
app.command()(advising.advise)
app.command(name="apply")(applying.apply)
app.command()(scoring.score)
app.command()(comparing.compare)
app.command()(demonstrating.demo)


def _mend_streams() -> None:
    """Streams that are closed swallow what is said; others replace what they cannot write."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115  # until the process ends
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def main() -> None:
    """Run the command; bad input is one sentence and exit code 2."""
    _mend_streams()
    try:
        app()
    except (ValueError, OSError) as error:
        if isinstance(error, OSError):
            sentence = error.strerror or str(error)
            sentence += f": {error.filename}" if error.filename else ""
        elif isinstance(error, tepid.InputError):
            sentence = str(error)
        else:
            raise
        sys.stderr.write(f"tepid: {sentence}\n")
        sys.exit(2)
