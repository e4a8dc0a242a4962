"""`tepid fit`."""

from pathlib import Path
from typing import Annotated

import typer

import tepid
from tepid.cli import options, output


def fit(
    logits: options.Logits,
    labels: Annotated[
        str | None, typer.Option(help="Labels of every row, if there are any.")
    ] = None,
    accuracy: Annotated[
        str | None, typer.Option(help="The model's accuracy, 0.93, or a range, 0.91..0.95.")
    ] = None,
    out: options.Output = None,
    deviations: Annotated[
        float, typer.Option(help="Standard deviations in the threshold of UTS.")
    ] = 1.0,
    debias: Annotated[
        bool, typer.Option("--debias", help="Remove UTS's bias; for fewer than 1000 rows.")
    ] = False,
    sample_weight: Annotated[str | None, typer.Option(help="A file of one weight per row.")] = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Find a temperature: from logits alone, or from labels, or from a known accuracy.

    Example: tepid fit logits.npy -o calibration.json
    """
    if (labels or accuracy) and (debias or deviations != 1.0):
        raise tepid.InputError("--deviations and --debias must go with logits alone, got more")
    if out is not None:
        output.refuse_overwriting(out, logits, labels, sample_weight)
        _check_name(out)
    source = tepid.sources.open_source(
        logits,
        labels=labels,
        sample_weight=sample_weight,
        class_axis=class_axis,
        probabilities=probabilities,
    )
    if source.binary:
        output.note("One value for each row was read as the binary logit of class 1.")
    with output.working(threads) as engine:
        if accuracy is not None:
            result = _from_accuracy(source, accuracy, engine)
        elif labels is not None:
            result = tepid.from_labels(source, engine=engine)
        else:
            result = tepid.from_logits(source, deviations=deviations, debias=debias, engine=engine)
    _deliver(result, out, as_json=as_json)


def _check_name(out: Path) -> None:
    if out.suffix.lower() != ".json":
        raise tepid.InputError(f"output must end in .json, got {out.name}")


def _deliver(result: "tepid.Temperature", out: Path | None, *, as_json: bool) -> None:
    if out is not None:
        result.save(out)
    if as_json:
        output.print_json(result.as_dict())
    else:
        show(result, str(out) if out else None)


def _from_accuracy(
    source: "tepid.sources.Source", accuracy: str, engine: "tepid.Threads"
) -> "tepid.Temperature":
    if source.labels is not None:
        raise tepid.InputError("evidence must be one of --labels and --accuracy, got both")
    return tepid.from_accuracy(source, _accuracy(accuracy), engine=engine)


def _accuracy(text: str) -> float | tuple[float, float]:
    try:
        numbers = tuple(float(part) for part in text.split(".."))
    except ValueError:
        numbers = ()
    if len(numbers) == 2:
        return numbers[0], numbers[1]
    if len(numbers) == 1:
        return numbers[0]
    raise tepid.InputError(f"accuracy must be a number or a range low..high, got {text}")


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
        name = "interval of T" if result.method == "accuracy" else "95 % interval of T"
        rows[name] = "{:.4f} to {:.4f}".format(*result.interval)
    if result.sensitivity:
        rows["T with ½ σ, 2 σ"] = "{:.4f}, {:.4f}".format(*result.sensitivity)
    screen = output.console()
    screen.print(output.two_columns(rows, "calibration"))
    output.doubts(result)
    if path:
        screen.print(f"wrote {path}", markup=False)
