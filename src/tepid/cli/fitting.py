"""`tepid fit`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

import tepid
from tepid.cli import options, output, reporting, scaled, summed
from tepid.cli.evidence import Evidence
from tepid.cli.inputs import Reading
from tepid.cli.machines import Machine

# A precision as coarse as this is that of sums, not of float32.
SUMMED = 1e-5


def fit(
    logits: options.SomeShards = None,
    labels: options.AllLabels = None,
    method: Annotated[
        str, typer.Option(help=f"With --labels: temperature, {', '.join(scaled.METHODS)}.")
    ] = "temperature",
    accuracy: options.Accuracy = None,
    correct: options.Correct = None,
    of: options.Of = None,
    few: options.Few = None,
    also: options.Also = None,
    source: options.OlderSet = None,
    shift: options.Shift = "any",
    guarded: options.Guarded = False,
    budget: options.Budget = 0.03,
    odds: options.Odds = False,
    prior: options.Prior = None,
    groups: options.Groups = None,
    out: options.Output = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a report on the result too: an .html file.")
    ] = None,
    deviations: options.Deviations = 1.0,
    debias: options.Debias = False,
    sample_weight: options.SampleWeight = None,
    columns: options.Columns = None,
    where: options.Where = None,
    header: options.Header = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    summary: Annotated[
        Path | None, typer.Option(help="Fit from what `tepid merge` wrote, without any rows.")
    ] = None,
    threads: options.ThreadCount = None,
    engine: options.EngineName = "threads",
    scheduler: options.Scheduler = None,
    as_json: options.Json = False,
) -> None:
    """Find a temperature: from logits alone, or with what else is known.

    Example: tepid fit logits.npy -o calibration.json
    """
    evidence = Evidence(
        labels,
        accuracy,
        correct,
        of,
        few,
        tuple(also or ()),
        source,
        shift,
        guarded,
        budget,
        deviations,
        debias,
        groups,
        odds,
        prior,
        method,
    )
    evidence.check()
    inputs = (*(logits or ()), labels, sample_weight, few, source, prior, *(also or ()))
    _check_outputs(out, report, method, inputs)
    machine = Machine(threads, engine, scheduler)
    machine.check()
    reading = Reading(columns, tuple(where or ()), header, probabilities, class_axis)
    if summary is not None:
        summed.check(
            evidence, machine, reading, logits=logits, sample_weight=sample_weight, report=report
        )
        _deliver(summed.fit(evidence, summary), out, None, as_json=as_json)
        return
    if not logits:
        raise tepid.InputError("logits must be given, got neither them nor a --summary")
    if method != "temperature" and machine.engine != "threads":
        raise tepid.InputError(f"--engine must be threads for --method {method}, got {engine}")
    data = reading.open(logits, labels=labels, sample_weight=sample_weight, groups=groups)
    if data.binary:
        output.note("One value for each row was read as the binary logit of class 1.")
    if method != "temperature":
        scaled.fit(data, method, out, as_json=as_json)
        return
    with machine.working() as place:
        result = evidence.fit(data, place, reading)
        if report is not None:
            tepid.report.write(report, data, temperatures=[result], engine=place)
    _deliver(result, out, report, as_json=as_json)


def _check_outputs(
    out: Path | None, report: Path | None, method: str, inputs: tuple[str | None, ...]
) -> None:
    """Refuse what cannot be written before anything is read."""
    if out is not None:
        output.refuse_overwriting(out, *inputs)
        check_name(out, ".json" if method == "temperature" else ".npz")
    if report is not None:
        if method != "temperature":
            raise tepid.InputError(f"--report must go with a temperature, got --method {method}")
        reporting.check_name(report)
        output.refuse_overwriting(report, *inputs)


def check_name(out: Path, suffix: str = ".json") -> None:
    """Refuse to save a calibration under a name that does not say so."""
    if out.suffix.lower() != suffix:
        raise tepid.InputError(f"output must end in {suffix}, got {out.name}")


def _deliver(
    result: "tepid.Temperature", out: Path | None, report: Path | None, *, as_json: bool
) -> None:
    if out is not None:
        result.save(out)
    if as_json:
        output.print_json(result.as_dict())
    else:
        show(result, str(out) if out else None)
        if report is not None:
            output.console().print(f"wrote {report}", markup=False)


def show(result: "tepid.Temperature", path: str | None) -> None:
    """Print a result, its warnings, and where it was written."""
    rows = {
        "temperature": f"{result.value:.4f}",
        "method": result.method,
        "status": result.status,
        "implied accuracy": f"{100 * result.implied_accuracy:.2f} %",
        "rows × classes": f"{result.samples} × {result.classes}",
    }
    if result.interval:
        matched = result.method == "accuracy"  # for a range, of the temperatures of its ends
        name = "interval of the matching T" if matched else "95 % interval of T"
        rows[name] = "{:.4f} to {:.4f}".format(*result.interval)
    if result.sensitivity:
        rows["T with ½ σ, 2 σ"] = "{:.4f}, {:.4f}".format(*result.sensitivity)
    if result.precision >= SUMMED:
        rows["read off sums, within"] = f"{100 * result.precision:g} % of the fit to the rows"
    screen = output.console()
    screen.print(output.two_columns(rows, "calibration"))
    if result.groups:
        screen.print(_by_group(result))
    verdict, reason = tepid.judged(result)
    screen.print(f"would help most: {tepid.would_help(result)}", markup=False, soft_wrap=True)
    what = "a temperature here" if result.status == "abstained" else "this temperature"
    screen.print(f"{verdict} {what}: {reason}", markup=False, soft_wrap=True)
    output.doubts(result)
    if path:
        screen.print(f"wrote {path}", markup=False)


def _by_group(result: "tepid.Temperature") -> Table:
    table = Table(box=None, padding=(0, 2), title="groups", title_justify="left")
    table.add_column("group")
    for name in ("temperature", "implied accuracy", "rows", "status"):
        table.add_column(name, justify="right")
    for name, t in result.groups.items():
        accuracy = f"{100 * t.implied_accuracy:.2f} %"
        table.add_row(Text(name), f"{t.value:.4f}", accuracy, str(t.samples), t.status)
    return table
