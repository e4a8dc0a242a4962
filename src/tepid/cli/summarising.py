"""`tepid summarise` and `tepid merge`: sums that may leave a site whose rows may not."""

from pathlib import Path
from typing import Annotated

import typer

import tepid
from tepid.cli import options, output
from tepid.cli.inputs import Reading
from tepid.cli.machines import Machine

_Out = Annotated[Path, typer.Option("-o", "--output", help="The summaries to write: .npz.")]


def summarise(
    logits: options.Shards,
    out: _Out,
    labels: options.AllLabels = None,
    given: Annotated[
        Path | None, typer.Option(help="The merged summaries of the first round, for UTS.")
    ] = None,
    sample_weight: options.SampleWeight = None,
    columns: options.Columns = None,
    where: options.Where = None,
    header: options.Header = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    engine: options.EngineName = "threads",
    scheduler: options.Scheduler = None,
    as_json: options.Json = False,
) -> None:
    """Sum up rows that must stay where they are, for `tepid merge` and `tepid fit --summary`.

    Example: tepid summarise logits.npy -o sums.npz
    """
    machine = Machine(threads, engine, scheduler)
    machine.check()
    _check_name(out)
    output.refuse_overwriting(out, *logits, labels, given, sample_weight)
    first = None if given is None else tepid.Summaries.load(given)
    reading = Reading(columns, tuple(where or ()), header, probabilities, class_axis)
    source = reading.open(logits, labels=labels, sample_weight=sample_weight)
    with machine.working() as place:
        summed = tepid.summarise(source, given=first, engine=place)
    summed.save(out)
    _tell(summed, out, as_json=as_json)


def merge(
    summaries: Annotated[
        list[Path], typer.Argument(help="Files that `tepid summarise` wrote, of one round.")
    ],
    out: _Out,
    as_json: options.Json = False,
) -> None:
    """Add the summaries of several sites or shards.

    Example: tepid merge sums.npz -o all.npz
    """
    _check_name(out)
    output.refuse_overwriting(out)
    total = None
    for path in summaries:
        one = tepid.Summaries.load(path)
        try:
            total = one if total is None else total + one
        except tepid.InputError as error:
            raise tepid.InputError(f"{path}: {error}") from None
    if total is not None:
        total.save(out)
        _tell(total, out, as_json=as_json)


def _check_name(out: Path) -> None:
    if out.suffix.lower() != ".npz":
        raise tepid.InputError(f"output must end in .npz, got {out.name}")


def _tell(summed: "tepid.Summaries", out: Path, *, as_json: bool) -> None:
    told = {
        "output": str(out),
        "samples": summed.rows,
        "classes": summed.tails.classes,
        "parts": len(summed.prints),
        "labelled": summed.curve.labelled,
        "round": 2 if len(summed.curve.thresholds) else 1,
    }
    if as_json:
        output.print_json(told)
        return
    again = (
        "" if told["round"] == 2 or told["labelled"] else "; for UTS, summarise again --given them"
    )
    output.console().print(
        f"wrote the sums over {summed.rows} rows to {out}, round {told['round']}{again}",
        markup=False,
    )
