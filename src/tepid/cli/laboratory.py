"""`tepid lab …`: the paper's experiments."""

import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

import tepid
from tepid.cli import options, output

lab = typer.Typer(
    name="lab",
    help="The paper's experiments: train its networks and get its tables back.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@lab.command()
def recipes(as_json: options.Json = False) -> None:
    """List the recipes: one for each row of the paper's tables.

    Example: tepid lab recipes
    """
    known = [tepid.lab.named(name) for name in tepid.lab.names()]
    if as_json:
        output.print_json([dataclasses.asdict(recipe) for recipe in known])
        return
    columns = ("recipe", "what", "accuracy in the paper", "epochs", "hours on one GPU")
    table = Table(*columns, box=None, padding=(0, 2, 0, 0))
    for recipe in known:
        accuracy, hours = f"{recipe.paper.accuracy:.2f} %", f"{recipe.expected_hours:g}"
        cells = (recipe.name, recipe.title, accuracy, str(recipe.epochs), hours)
        table.add_row(*map(Text, cells))
    output.console().print(table)


@lab.command()
def train(
    recipe: Annotated[str, typer.Argument(help="A recipe by name: `tepid lab recipes`.")],
    data: Annotated[Path, typer.Option(help="Where the images are, or --download puts them.")],
    out: options.RunFolder,
    settings: options.Settings = None,
    seed: options.Seed = 0,
    quick: options.Quick = False,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch images and weights that are not there.")
    ] = False,
    unchecked: Annotated[
        bool,
        typer.Option("--unchecked", help="Take files of other checksums; CIFAR's are pickles."),
    ] = False,
) -> None:
    """Train the network of one row of the paper's tables and write its logits and labels.

    The same command goes on where it was interrupted, and several GPUs share the work by
    torchrun --nproc-per-node N -m tepid lab train …

    Example: tepid lab train lenet5-mnist --data images -o runs/lenet5 --quick
    """
    chosen = tepid.lab.named(recipe)
    chosen = (chosen.quick() if quick else chosen).with_settings(settings or [])
    images, training = needing_torch()
    read = images.read(chosen, data, seed, download=download, checked=not unchecked)
    record = training.train(chosen, read, out, seed, download=download, told=Line())
    if record:
        said = f"{100 * record['accuracy']:.2f} % of {record['config']['rows']['test']} are right"
        output.console().print(f"{chosen.title}: {said}; wrote {out}", markup=False, soft_wrap=True)


def needing_torch() -> tuple[Any, Any]:
    """The modules of images and of training, or a sentence that says what they need."""
    try:
        from tepid.lab import data, training  # noqa: PLC0415  # seconds, and an extra
    except ImportError as error:
        raise tepid.InputError(
            f"tepid lab must have PyTorch and torchvision, got: {error}; "
            "pip install 'tepid[lab]' brings them"
        ) from None
    return data, training


class Line:
    """One line that is written over on a terminal, and one per epoch elsewhere."""

    def __call__(self, told: Any) -> None:
        """Say how far the training is."""
        whole = told.done == int(told.done)
        if not (whole or sys.stderr.isatty()):
            return
        minutes, seconds = divmod(round(told.seconds_left), 60)
        line = (
            f"epoch {told.done:.2f} of {told.epochs}: loss {told.loss:.4f}, "
            f"accuracy {100 * told.accuracy:.2f} %, {minutes}:{seconds:02} left"
        )
        sys.stderr.write(f"\r{line:<79}" if sys.stderr.isatty() else f"{line}\n")
        if whole and sys.stderr.isatty():
            sys.stderr.write("\n")
