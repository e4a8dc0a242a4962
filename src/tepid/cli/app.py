"""The Typer app: every command, the greeting and `--version`.

The modules of the commands import NumPy and everything heavier only when a command runs.
"""

from typing import Annotated

import typer

import tepid
from tepid.cli import ask, compare, decide, deploy, doctor, evaluate, fit, lab, summarize
from tepid.cli.console import with_notes

_GREETING = """\
tepid {}: calibrate a trained classifier with few labels or none.

  tepid demo                                 what it does, on a real network
  tepid fit logits.npy -o calibration.json   find a temperature and save it
  tepid ask logits.npy -o to_label.csv       choose 25 rows to label

tepid --help lists every command, tepid COMMAND --help its options.
"""

app = typer.Typer(
    name="tepid",
    help="Calibrate a trained classifier with few labels or none.",
    epilog="Tab completes commands and options after `tepid --install-completion`.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tepid {tepid.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _greet(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001  # typer calls _print_version
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version of tepid."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(_GREETING.format(tepid.__version__), nl=False)


app.command()(with_notes(fit.fit))
app.command()(with_notes(ask.ask))
app.command(name="apply")(with_notes(deploy.apply))
app.command()(with_notes(decide.decide))
app.command()(with_notes(decide.sets))
app.command()(with_notes(decide.performance))
app.command()(with_notes(evaluate.score))
app.command()(with_notes(compare.compare))
app.command(name="onnx")(with_notes(deploy.onnx))
app.command()(with_notes(evaluate.report))
app.command()(with_notes(summarize.summarize))
app.command()(summarize.merge)
app.command()(evaluate.demo)
app.command()(doctor.doctor)
app.add_typer(lab.lab)
