"""`tepid onnx`."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

import tepid
from tepid.cli import fitting, options, output
from tepid.cli.evidence import Evidence


def deploy(
    model: Annotated[Path, typer.Argument(help="A trained classifier as an .onnx file.")],
    out: Annotated[Path, typer.Option("-o", "--output", help="The calibrated model to write.")],
    calibration: options.Calibration = None,
    data: Annotated[
        str | None,
        typer.Option(help="Inputs to calibrate on: .npy, .npz (by input name) or a folder."),
    ] = None,
    logits: Annotated[
        str | None, typer.Option(help="The output or tensor that holds the logits, by name.")
    ] = None,
    keep_logits: Annotated[
        bool, typer.Option("--keep-logits", help="Give calibrated logits, not probabilities.")
    ] = False,
    labels: options.AllLabels = None,
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
    deviations: options.Deviations = 1.0,
    debias: options.Debias = False,
    save_calibration: Annotated[
        Path | None, typer.Option(help="Where to save the temperature as JSON.")
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="The model gives probabilities, not logits.")
    ] = False,
    class_axis: options.ClassAxis = None,
    batch: Annotated[int | None, typer.Option(help="How many rows to run at once.")] = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Put a temperature into an ONNX model: a saved one, or one found by running the model.

    Example: tepid onnx model.onnx --data images.npy --accuracy 0.93 -o calibrated.onnx
    """
    evidence = Evidence(
        labels, accuracy, correct, of, few, tuple(also or ()), source, shift, guarded, budget,
        deviations, debias, odds=odds, prior=prior,
    )  # fmt: skip
    evidence.check()
    _check_sources(calibration, data, evidence, save_calibration)
    given = (calibration, data, labels, few, source, prior, *(also or ()))
    for path in filter(None, (out, save_calibration)):
        output.refuse_overwriting(path, model, *given)
    onnx = _bridge()
    where: dict[str, Any] = {
        "logits": logits, "class_axis": class_axis, "probabilities": probabilities,
    }  # fmt: skip
    onnx.find(model, **where, keep_logits=keep_logits)
    if calibration is not None:
        temperature = tepid.load(calibration)
    else:
        blocks = onnx.run(model, data, **where, batch=batch, threads=threads)
        temperature = _fitted(blocks, evidence, threads)
    head = onnx.insert(model, temperature, out, **where, keep_logits=keep_logits)
    if save_calibration is not None:
        temperature.save(save_calibration)
    _deliver(temperature, head, out, keep_logits=keep_logits, as_json=as_json)


def _bridge() -> ModuleType:
    try:
        return tepid.onnx
    except ImportError as error:
        raise tepid.InputError(str(error)) from None


def _check_sources(
    calibration: Path | None, data: str | None, evidence: Evidence, saved: Path | None
) -> None:
    """Either a temperature or what it is found from."""
    if (calibration is None) == (data is None):
        got = "neither" if data is None else "both"
        raise tepid.InputError(f"temperature must come from --calibration or --data, got {got}")
    extra = [*evidence.given(), *evidence.tuned()]
    extra += ["--save-calibration"] if saved is not None else []
    if calibration is not None and extra:
        raise tepid.InputError(f"{extra[0]} must go with --data, got it with --calibration")
    if saved is not None:
        fitting.check_name(saved)


def _fitted(blocks: Iterator[Any], evidence: Evidence, threads: int | None) -> "tepid.Temperature":
    # A fit reads its logits several times; the model, which is what takes long, runs once.
    with (
        tempfile.TemporaryDirectory(prefix="tepid-", ignore_cleanup_errors=True) as folder,
        output.working(threads) as engine,
    ):
        path = Path(folder) / "logits.npy"
        tepid.sources.write_batches(path, _watched(blocks, engine))
        source = tepid.sources.open_source(path, labels=evidence.labels).renamed("logits")
        return evidence.fit(source, engine)


def _watched(blocks: Iterator[Any], engine: "tepid.Threads") -> Iterator[Any]:
    done = 0
    for batch in blocks:
        yield batch
        done += len(batch)
        if engine.progress:
            engine.progress("running the model", done, None)


def _deliver(
    temperature: "tepid.Temperature", head: Any, out: Path, *, keep_logits: bool, as_json: bool
) -> None:
    if as_json:
        place = {"output": str(out), "logits": head.tensor, "form": head.form}
        output.print_json(place | {"calibration": temperature.as_dict()})
        return
    if temperature.groups:
        output.note("The calibration has groups; the model divides by the T of all rows.")
    fitting.show(temperature, str(out))
    output.console().print(_changed(head, keep_logits=keep_logits), markup=False)


def _changed(head: Any, *, keep_logits: bool) -> str:
    """What the model gives now that it did not give before."""
    if keep_logits:
        return f"its output {head.output!r} gives calibrated logits"
    if head.form == "logits":
        return f"its output {head.output!r} gave logits and gives calibrated probabilities"
    return (
        f"its logits {head.tensor!r} are divided by T"
        if head.form == "activated"
        else (f"its probabilities {head.tensor!r} are calibrated")
    )
