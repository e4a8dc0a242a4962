"""The `tepid` command. Nothing heavy is imported until a verb runs."""

import importlib.metadata
import sys
from typing import Annotated

import typer

import tepid
from tepid.cli import applying, comparing, demonstrating, fitting, scoring

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
app.command(name="apply")(applying.apply)
app.command()(scoring.score)
app.command()(comparing.compare)
app.command()(demonstrating.demo)


def main() -> None:
    """Run the command; bad input is one sentence and exit code 2."""
    try:
        app()
    except (ValueError, OSError) as error:
        if isinstance(error, OSError):
            sentence = f"{error.strerror or error}: {error.filename}"
        elif isinstance(error, tepid.InputError):
            sentence = str(error)
        else:
            raise
        sys.stderr.write(f"tepid: {sentence}\n")
        sys.exit(2)
