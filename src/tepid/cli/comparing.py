"""`tepid compare`."""

from typing import Annotated, Literal, get_args

import typer

import tepid
from tepid.cli import options, output, standings

Form = Literal["table", "csv", "latex", "json"]


def compare(
    logits: options.Logits,
    labels: options.Labels = None,
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
    filter: options.Filter = None,  # noqa: A002  # the option's name
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
    data = tepid.sources.open_source(
        logits,
        labels=output.labels_beside(logits) if labels is None else labels,
        class_axis=class_axis,
        probabilities=probabilities,
        filter=filter,
    )
    with output.working(threads) as engine:
        result = tepid.protocol.compare(
            data.whole(),
            data.labels,
            methods="all" if methods == "all" else [m.strip() for m in methods.split(",")],
            others=[tepid.sources.open_source(other).whole() for other in also or ()],
            source=None if source is None else (source, output.labels_beside(source)),
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
