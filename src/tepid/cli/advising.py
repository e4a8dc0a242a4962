"""`tepid advise`."""

from typing import Annotated

import typer

import tepid
from tepid.cli import evidence, options, output


def advise(
    logits: options.Logits,
    accuracy: Annotated[str | None, typer.Option(help="The model's accuracy, if known.")] = None,
    also: options.Also = None,
    source: options.OlderSet = None,
    few: options.Few = None,
    labels: Annotated[str | None, typer.Option(help="Labels of every row, if there are.")] = None,
    filter: options.Filter = None,  # noqa: A002  # the option's name
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Say which method to use with what is there, and what would help most.

    Example: tepid advise logits.npy --accuracy 0.93
    """
    data = tepid.sources.open_source(logits, labels=labels, filter=filter)
    with output.working(threads) as engine:
        advice = tepid.advise(
            data,
            accuracy=None if accuracy is None else evidence.accuracy_of(accuracy)[0],
            others=tuple(also or ()),
            source=_labelled(source),
            few=_labelled(few),
            labels=None if labels is None else data.labels,
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


def _labelled(path: str | None) -> tuple[str, str] | None:
    return None if path is None else (path, output.labels_beside(path))
