"""The `tepid` command. Nothing heavy is imported until a verb runs."""

import importlib.metadata
import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import tepid
from tepid.cli import (
    advising,
    applying,
    comparing,
    demonstrating,
    deploying,
    drawing,
    examining,
    fitting,
    laboratory,
    lesions,
    reporting,
    scoring,
    summarising,
    tabling,
)
from tepid.cli.output import with_notes

_GREETING = """\
tepid {}: trustworthy confidence for any trained classifier, without labels.

  tepid demo                                 what it does, on a real network
  tepid advise logits.npy                    which method suits what you know
  tepid fit logits.npy -o calibration.json   find a temperature and save it

tepid --help lists every command, tepid COMMAND --help its options.
"""

app = typer.Typer(
    name="tepid",
    help="Trustworthy confidence for any trained classifier, without labels.",
    epilog="Tab completes commands and options after `tepid --install-completion`.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tepid {importlib.metadata.version('tepid')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001  # typer calls _version
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which tepid.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(_GREETING.format(importlib.metadata.version("tepid")), nl=False)


app.command()(with_notes(fitting.fit))
app.command()(with_notes(advising.advise))
app.command(name="apply")(with_notes(applying.apply))
app.command()(with_notes(scoring.score))
app.command()(with_notes(comparing.compare))
app.command(name="onnx")(with_notes(deploying.deploy))
app.command()(with_notes(reporting.report))
app.command()(with_notes(summarising.summarise))
app.command()(summarising.merge)
app.command()(demonstrating.demo)
app.command()(examining.doctor)
app.add_typer(laboratory.lab)
laboratory.lab.command()(tabling.table)
laboratory.lab.command()(drawing.figures)
laboratory.lab.command()(lesions.isic)
laboratory.lab.command()(lesions.predict)


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
        app(prog_name="tepid")
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
