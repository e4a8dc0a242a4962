"""`tepid advise`."""

from typing import Annotated, Any

import typer

import tepid
from tepid.cli import evidence, options, output
from tepid.cli.inputs import Reading


def advise(
    logits: options.Logits,
    accuracy: Annotated[str | None, typer.Option(help="The model's accuracy, if known.")] = None,
    also: options.Also = None,
    source: options.OlderSet = None,
    few: options.Few = None,
    labels: options.AllLabels = None,
    columns: options.Columns = None,
    where: options.Where = None,
    header: options.Header = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Say which method to use with what is there, and what would help most.

    Example: tepid advise logits.npy --accuracy 0.93
    """
    reading = Reading(columns, tuple(where or ()), header, probabilities, class_axis)
    data = reading.open(logits, labels=labels)
    with output.working(threads) as engine:
        advice = tepid.advise(
            data,
            accuracy=None if accuracy is None else evidence.accuracy_of(accuracy)[0],
            others=tuple(reading.open_other(other) for other in also or ()),
            source=_labelled(source, reading),
            few=_labelled(few, reading),
            engine=engine,
        )
    if as_json:
        answers = {name: t.as_dict() for name, t in advice.answers.items()}
        plain = {
            "use": advice.use,
            "verdict": advice.verdict,
            "because": advice.because,
            "would_help": advice.would_help,
            "samples": advice.samples,
            "classes": advice.classes,
            "confidence": advice.confidence,
            "margin": advice.margin,
            "spread": advice.spread,
        }
        output.print_json(plain | {"answers": answers})
        return
    screen = output.console()
    screen.print(advice.seen, soft_wrap=True)
    screen.print(str(advice), markup=False, soft_wrap=True)


def _labelled(path: str | None, reading: Reading) -> tuple[Any, None] | None:
    return None if path is None else (reading.open_other(path, labels="labels"), None)
