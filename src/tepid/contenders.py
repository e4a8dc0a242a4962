"""The methods that can be compared, by name: what each is given of a split, and what it gives."""

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
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
    the labels may be looked at where a method takes but a few; `strength` is the regularisation of
    a method that takes one, chosen before.
    """

    logits: Array
    labels: Int64
    accuracy: float
    few: int
    others: tuple[Array, ...]
    source: tuple[Any, Any] | None
    strength: Mapping[str, tuple[float, float]]
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


def _scaled(name: str) -> Fit:
    """A method of `tepid.scaling`, which is imported when it is run: it needs SciPy."""

    def fit(part: Part) -> Any:
        function = getattr(importlib.import_module("tepid.scaling"), name)
        chosen = {"regularisation": part.strength[name]} if name in part.strength else {}
        return function(part.logits, part.labels, **chosen)

    return fit


# The methods whose regularisation is chosen once for a set and not in every split.
REGULARISED = ("vector", "matrix", "dirichlet")
_SCALING = (*REGULARISED, "histogram", "isotonic", "bbq", "ensemble", "beta")
# From so many classes on the squared number of weights is out of proportion.
_MANY = 500
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
    **{name: _scaled(name) for name in _SCALING},
}


def chosen(
    names: Iterable[str] | str, *, others: bool, source: bool, classes: int
) -> tuple[dict[str, Fit], dict[str, str]]:
    """The methods by name, and why others were left out; `all` are those that the data allow."""
    lacking = _lacking(others=others, source=source)
    if names == "all":
        left_out = {name: f"it needs {what}" for name, what in lacking.items()}
        if classes >= _MANY:
            left_out |= dict.fromkeys(("matrix", "dirichlet"), f"there are {classes} classes")
        return {name: fit for name, fit in _FITS.items() if name not in left_out}, left_out
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise InputError("methods must name at least one, got none")
    return {name: _known(name, lacking) for name in dict.fromkeys(wanted)}, {}


def _known(name: str, lacking: dict[str, str]) -> Fit:
    if name not in _FITS:
        raise InputError(f"methods must be among {', '.join(_FITS)} or all, got {name!r}")
    if name in lacking:
        raise InputError(f"methods must come with {lacking[name]} for {name}, got none")
    return _FITS[name]


def _lacking(*, others: bool, source: bool) -> dict[str, str]:
    """What each method that cannot be run would need."""
    lacking = {} if others else {"models": "another model"}
    if not source:
        kinds = [name for name in _FITS if name.startswith("source")]
        lacking |= dict.fromkeys(kinds, "an older labelled set")
    if not all(importlib.util.find_spec(name) for name in ("scipy", "sklearn")):
        lacking |= dict.fromkeys(_SCALING, "SciPy and scikit-learn (tepid[scaling])")
    return lacking
