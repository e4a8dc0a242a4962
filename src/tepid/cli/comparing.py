"""`tepid compare`."""

from typing import Annotated, Literal, get_args

import typer

import tepid
from tepid.cli import options, output, standings
from tepid.cli.inputs import Reading

Form = Literal["table", "csv", "latex", "json"]


def compare(
    logits: options.Logits,
    labels: options.Labels = "labels",
    methods: Annotated[
        str, typer.Option(help="Which methods, with commas between, or all that the data allow.")
    ] = "uncalibrated,uts,temperature,accuracy",
    also: options.Also = None,
    source: options.OlderSet = None,
    few: Annotated[int, typer.Option(help="How many labels few-labels may see.")] = 25,
    splits: Annotated[int, typer.Option(help="How many random splits.")] = 10,
    fraction: Annotated[float, typer.Option(help="The part of the rows to calibrate on.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Which splits.")] = 0,
    form: Annotated[
        str, typer.Option("--format", help="How to print: table, csv, latex or json.")
    ] = "table",
    columns: options.Columns = None,
    where: options.Where = None,
    header: options.Header = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Run the paper's protocol: calibrate on a random part, report on the rest.

    Example: tepid compare logits.npz --methods all --also other.npy
    """
    if form not in get_args(Form):
        raise tepid.InputError(f"--format must be one of {', '.join(get_args(Form))}, got {form}")
    reading = Reading(columns, tuple(where or ()), header, probabilities, class_axis)
    data = reading.open(logits, labels=labels).whole()
    others = [reading.open_other(other).whole().logits for other in also or ()]
    older = None if source is None else reading.open_other(source, labels="labels")
    with output.noted(), output.working(threads) as engine:
        result = tepid.protocol.compare(
            data.logits,
            data.labels,
            methods="all" if methods == "all" else [m.strip() for m in methods.split(",")],
            others=others,
            source=None if older is None else (older, None),
            few=few,
            splits=splits,
            fraction=fraction,
            seed=seed,
            engine=engine,
        )
    if as_json or form == "json":
        output.print_json(result)
    elif form == "table":
        standings.show(result)
    else:
        printed = standings.as_csv if form == "csv" else standings.as_latex
        typer.echo(printed(result), nl=False)
