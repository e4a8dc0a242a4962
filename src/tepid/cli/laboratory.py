"""`tepid lab …`: the paper's experiments."""

import dataclasses

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
