"""`tepid compare`."""

from typing import Annotated, Any

import typer
from rich.table import Table

import tepid
from tepid.cli import options, output


def compare(
    logits: options.Logits,
    labels: options.Labels = None,
    splits: Annotated[int, typer.Option(help="How many random splits.")] = 10,
    fraction: Annotated[float, typer.Option(help="The part of the rows to calibrate on.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Which splits.")] = 0,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Run the paper's protocol: calibrate on a random part, report on the rest.

    Example: tepid compare logits.npz --splits 10
    """
    source = tepid.sources.open_source(
        logits,
        labels=output.labels_beside(logits) if labels is None else labels,
        class_axis=class_axis,
        probabilities=probabilities,
    )
    with output.working(threads) as engine:
        result = tepid.protocol.compare(
            source.whole(),
            source.labels,
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
    accuracy = result["methods"]["uncalibrated"]["accuracy"]["mean"]
    title = (
        f"{result['splits']} splits of {result['samples']} rows, {result['fraction']:.0%} to "
        f"calibrate; mean ± sd; accuracy {100 * accuracy:.2f} %"
    )
    table = Table(box=None, padding=(0, 2))
    table.add_column()
    for name in ("T", "NLL", "ECE %"):
        table.add_column(name, justify="right")
    for name, m in result["methods"].items():
        table.add_row(
            name,
            _cell(m["temperature"], 1, 3),
            _cell(m["nll"], 1, 4),
            _cell(m["ece"], 100, 2),
        )
    screen = output.console()
    screen.print(title, soft_wrap=True)
    screen.print(table)
    screen.print(f"uts took {result['cost_of_uts']:.1f} times as long as temperature")


def _cell(value: dict[str, float | None], factor: float, digits: int) -> str:
    mean, sd = value["mean"], value["sd"]
    spread = "" if sd is None else f" ± {factor * sd:.{digits}f}"
    return f"{factor * (mean or 0.0):.{digits}f}{spread}"
