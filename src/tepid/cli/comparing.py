"""`tepid compare`."""

from typing import Annotated, Any

import typer
from rich.table import Table

import tepid
from tepid.cli import options, output


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
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Run the paper's protocol: calibrate on a random part, report on the rest.

    Example: tepid compare logits.npz --methods all --also other.npy
    """
    data = tepid.sources.open_source(
        logits,
        labels=output.labels_beside(logits) if labels is None else labels,
        class_axis=class_axis,
        probabilities=probabilities,
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
    if as_json:
        output.print_json(result)
    else:
        _show(result)


def _show(result: dict[str, Any]) -> None:
    title = (
        f"{result['splits']} splits of {result['samples']} rows, {result['fraction']:.0%} to "
        "calibrate; mean ± sd"
    )
    table = Table(box=None, padding=(0, 2))
    table.add_column()
    for name in ("T", "NLL", "ECE %", "accuracy %"):
        table.add_column(name, justify="right")
    for name, m in result["methods"].items():
        table.add_row(
            name,
            _cell(m["temperature"], 1, 3) if "temperature" in m else "",
            _cell(m["nll"], 1, 4),
            _cell(m["ece"], 100, 2),
            _cell(m["accuracy"], 100, 2),
        )
    screen = output.console()
    screen.print(title, soft_wrap=True)
    screen.print(table)
    for name, m in result["methods"].items():
        if "refused" in m:
            output.note(f"{name} refused {m['refused']} splits, which count as T = 1.")
    if result["cost_of_uts"] is not None:
        screen.print(f"uts took {result['cost_of_uts']:.1f} times as long as temperature")


def _cell(value: dict[str, float | None], factor: float, digits: int) -> str:
    mean, sd = value["mean"], value["sd"]
    spread = "" if sd is None else f" ± {factor * sd:.{digits}f}"
    return f"{factor * (mean or 0.0):.{digits}f}{spread}"
