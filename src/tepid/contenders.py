"""The methods that can be compared, by name: what each is given of a split, and what it gives."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tepid.arrays import Array, Int64
from tepid.engines import Threads
from tepid.errors import InputError
from tepid.methods import (
    from_accuracy,
    from_few_labels,
    from_labels,
    from_logits,
    from_models,
    from_odds,
    from_source,
    guarded,
)
from tepid.temperature import Temperature


@dataclass(frozen=True)
class Part:
    """The rows of a split to fit on, and what else is known.

    `accuracy` is that of all rows, the one number a model card would give; `few` says how many of
    the labels may be looked at where a method takes but a few.
    """

    logits: Array
    labels: Int64
    accuracy: float
    few: int
    others: tuple[Array, ...]
    source: tuple[Any, Any] | None
    engine: Threads


Fit = Callable[[Part], Any]
DEFAULT = ("uncalibrated", "uts", "temperature", "accuracy")


def _uncalibrated(part: Part) -> Temperature:
    rows, classes = part.logits.shape
    return Temperature(1.0, "none", samples=rows, classes=classes, implied_accuracy=1.0)


def _few_labels(part: Part) -> Temperature:
    few = min(part.few, len(part.labels))
    return from_few_labels(part.logits, part.logits[:few], part.labels[:few], engine=part.engine)


def _from_source(part: Part, shift: Any) -> Temperature:
    return from_source(part.logits, *(part.source or ()), shift=shift, engine=part.engine)


_FITS: dict[str, Fit] = {
    "uncalibrated": _uncalibrated,
    "uts": lambda part: from_logits(part.logits, engine=part.engine),
    "guarded": lambda part: guarded(part.logits, engine=part.engine),
    "odds": lambda part: from_odds(part.logits, engine=part.engine),
    "models": lambda part: from_models(part.logits, *part.others, engine=part.engine),
    "source-any": lambda part: _from_source(part, "any"),
    "source-label": lambda part: _from_source(part, "label"),
    "source-none": lambda part: _from_source(part, "none"),
    "few-labels": _few_labels,
    "temperature": lambda part: from_labels(part.logits, part.labels, engine=part.engine),
    "accuracy": lambda part: from_accuracy(part.logits, part.accuracy, engine=part.engine),
}


def chosen(names: Iterable[str] | str, *, others: bool, source: bool) -> dict[str, Fit]:
    """The methods by name; `all` are those that the data allow."""
    wanting = {
        name: evidence
        for name in _FITS
        for prefix, evidence, there in (
            ("models", "another model", others),
            ("source", "an older labelled set", source),
        )
        if name.startswith(prefix) and not there
    }
    if names == "all":
        return {name: fit for name, fit in _FITS.items() if name not in wanting}
    wanted = [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in _FITS:
            raise InputError(f"methods must be among {', '.join(_FITS)} or all, got {name!r}")
        if name in wanting:
            raise InputError(f"methods must come with {wanting[name]} for {name}, got none")
    if not wanted:
        raise InputError("methods must name at least one, got none")
    return {name: _FITS[name] for name in dict.fromkeys(wanted)}
