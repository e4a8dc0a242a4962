"""`tepid summarize` and `tepid merge`: sums over rows, for `tepid fit --summary`.

Summaries are sums over rows. They may leave a site whose rows may not.
"""

from pathlib import Path
from typing import Annotated

import typer

import tepid
from tepid.cli import console, options
from tepid.cli.fit import read_classes
from tepid.cli.options import EngineOptions, FileOptions

_Output = Annotated[Path, typer.Option("-o", "--output", help="The summaries to write: .npz.")]


def summarize(
    logits: options.Shards,
    out: _Output,
    labels: options.AllLabels = None,
    classes: options.Classes = None,
    given: Annotated[
        Path | None, typer.Option(help="The merged summaries of the first round.")
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
    """Write sums over rows that must not be shared, for `tepid merge` and `tepid fit --summary`.

    Example: tepid summarize logits.npy -o sums.npz
    """
    engine_options = EngineOptions(threads, engine, scheduler)
    engine_options.check()
    options.check_suffix(out, ".npz")
    options.check_output(out, *logits, labels, given, sample_weight)
    first = None if given is None else tepid.Summaries.load(given)
    reading = FileOptions.of(columns, where, header, probabilities, class_axis)
    names = None if classes is None else read_classes(classes)
    source = reading.open(logits, labels=labels, classes=names, sample_weight=sample_weight)
    with engine_options.start() as started:
        total = tepid.summarize(source, given=first, engine=started)
    _save(total, out, as_json=as_json)


def merge(
    summaries: Annotated[
        list[Path],
        typer.Argument(help="Files that `tepid summarize` wrote, all of the same round."),
    ],
    out: _Output,
    as_json: options.Json = False,
) -> None:
    """Add the summaries of several sites or shards.

    Example: tepid merge sums.npz -o all.npz
    """
    options.check_suffix(out, ".npz")
    options.check_output(out)
    total = tepid.Summaries.load(summaries[0])
    for path in summaries[1:]:
        one = tepid.Summaries.load(path)
        try:
            total = total + one
        except tepid.InputError as error:
            raise tepid.InputError(f"{path}: {error}") from None
    _save(total, out, as_json=as_json)


def _save(total: "tepid.Summaries", out: Path, *, as_json: bool) -> None:
    total.save(out)
    number = 2 if len(total.curve.thresholds) else 1
    labeled = total.labels is not None
    if as_json:
        described = {
            "output": str(out),
            "samples": total.rows,
            "classes": total.tails.classes,
            "parts": len(total.prints),
            "labeled": labeled,
            "round": number,
        }
        console.print_json(described)
        return
    again = "" if number == 2 else "; merge them, then summarize again --given the merged ones"
    console.print_line(f"wrote the sums over {total.rows} rows to {out}, round {number}{again}")
