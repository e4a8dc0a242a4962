"""`tepid summarise` and `tepid merge`: sums that may leave a site whose rows may not."""

from pathlib import Path
from typing import Annotated, Literal, cast

import typer

import tepid
from tepid.cli import options, output
from tepid.cli.machines import Machine

_Out = Annotated[Path, typer.Option("-o", "--output", help="The summaries to write: .npz.")]


def summarise(
    logits: options.Shards,
    out: _Out,
    labels: Annotated[
        str | None, typer.Option(help="Labels of every row, for one round instead of two.")
    ] = None,
    given: Annotated[
        Path | None, typer.Option(help="The merged summaries of the first round, for UTS.")
    ] = None,
    sample_weight: options.SampleWeight = None,
    filter: options.Filter = None,  # noqa: A002  # the option's name
    on_error: options.OnError = "stop",
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    engine: options.EngineName = "threads",
    scheduler: options.Scheduler = None,
    checkpoint: options.Checkpoint = None,
    as_json: options.Json = False,
) -> None:
    """Sum up rows that must stay where they are, for `tepid merge` and `tepid fit --summary`.

    Example: tepid summarise logits.npy -o sums.npz
    """
    machine = Machine(threads, engine, scheduler, checkpoint)
    machine.check()
    _check_name(out)
    output.refuse_overwriting(out, *logits, labels, given, sample_weight)
    first = None if given is None else tepid.Summaries.load(given)
    source = tepid.sources.open_source(
        machine.files(logits),
        labels=labels,
        sample_weight=sample_weight,
        class_axis=class_axis,
        probabilities=probabilities,
        filter=filter,
        on_error=cast("Literal['stop', 'skip']", on_error),
    )
    for sentence in source.notes:
        output.note(sentence)
    about = f"summarise {None if first is None else first.prints}"
    with machine.working(about) as place:
        told = None if labels is None else source.labels
        summed = tepid.summarise(source, told, given=first, engine=place)
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
