"""`tepid summarize` and `tepid merge`, and fitting from their files.

Summaries are sums over rows. They may leave a site whose rows may not.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import tepid
from tepid.cli import console, options
from tepid.cli.options import EngineOptions, Reading

if TYPE_CHECKING:
    from tepid.methods.evidence import Evidence

_Output = Annotated[Path, typer.Option("-o", "--output", help="The summaries to write: .npz.")]


def summarize(
    logits: options.Shards,
    out: _Output,
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
    """Summarize rows that must stay where they are, for `tepid merge` and `tepid fit --summary`.

    Example: tepid summarize logits.npy -o sums.npz
    """
    engine_options = EngineOptions(threads, engine, scheduler)
    engine_options.check()
    options.check_suffix(out, ".npz")
    options.check_output(out, *logits, labels, given, sample_weight)
    first = None if given is None else tepid.Summaries.load(given)
    reading = Reading.of(columns, where, header, probabilities, class_axis)
    source = reading.open(logits, labels=labels, sample_weight=sample_weight)
    with engine_options.start() as started:
        total = tepid.summarize(source, given=first, engine=started)
    _save(total, out, as_json=as_json)


def merge(
    summaries: Annotated[
        list[Path], typer.Argument(help="Files that `tepid summarize` wrote, of one round.")
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
    labeled = total.curve.labeled
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
    again = "" if number == 2 or labeled else "; for UTS, summarize again --given them"
    console.print_line(f"wrote the sums over {total.rows} rows to {out}, round {number}{again}")


def fit_summary(evidence: "Evidence", path: Path) -> "tepid.Temperature":
    """The temperature of summaries, with an accuracy or a budget that is known."""
    summaries = tepid.Summaries.load(path)
    if evidence.accuracy is not None:
        error = evidence.standard_error
        return tepid.from_summaries(summaries, accuracy=evidence.accuracy, standard_error=error)
    if evidence.guarded and summaries.curve.labeled:
        raise tepid.InputError("--guarded must go with summaries without labels, got some with")
    return tepid.from_summaries(summaries, budget=evidence.budget if evidence.guarded else None)
