"""tepid: trustworthy confidence for any trained classifier, without labels."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tepid import (
        compare,
        demo,
        engines,
        errors,
        metrics,
        online,
        report,
        scaling,
        shapes,
        sources,
        summaries,
        validation,
    )
    from tepid import lab as lab
    from tepid import onnx as onnx
    from tepid import plots as plots
    from tepid import sklearn as sklearn
    from tepid import torch as torch
    from tepid.engines import Threads
    from tepid.errors import InputError
    from tepid.methods import (
        Advice,
        Summaries,
        advise,
        counted,
        from_few_labels,
        from_models,
        from_source,
        from_summaries,
        guarded,
        judged,
        labels_to_halve,
        match_accuracy,
        merged,
        summarize,
        temperature_scaling,
        uts,
        would_help,
    )
    from tepid.summaries.curve import Curve
    from tepid.summaries.lattice import Lattice
    from tepid.summaries.reliability import Reliability
    from tepid.summaries.tails import Tails
    from tepid.temperature import Temperature, load
    from tepid.validation import logits_of

# Names are imported when first used, so that `tepid --help` does not wait for numba.
_HOMES = {
    "Advice": "methods",
    "Summaries": "methods",
    "from_summaries": "methods",
    "merged": "methods",
    "summarize": "methods",
    "Curve": "summaries.curve",
    "InputError": "errors",
    "Lattice": "summaries.lattice",
    "Reliability": "summaries.reliability",
    "Tails": "summaries.tails",
    "Temperature": "temperature",
    "Threads": "engines",
    "advise": "methods",
    "counted": "methods",
    "match_accuracy": "methods",
    "from_few_labels": "methods",
    "temperature_scaling": "methods",
    "uts": "methods",
    "from_models": "methods",
    "from_source": "methods",
    "guarded": "methods",
    "judged": "methods",
    "labels_to_halve": "methods",
    "load": "temperature",
    "logits_of": "validation",
    "would_help": "methods",
}
_MODULES = (
    "compare",
    "demo",
    "engines",
    "errors",
    "metrics",
    "online",
    "report",
    "scaling",
    "shapes",
    "sources",
    "summaries",
    "validation",
)
# Reached by name and not by `import *`, which must work without the extra that each of them needs.
_EXTRAS = ("lab", "onnx", "plots", "sklearn", "torch")

__all__ = [
    "Advice",
    "Curve",
    "InputError",
    "Lattice",
    "Reliability",
    "Summaries",
    "Tails",
    "Temperature",
    "Threads",
    "advise",
    "compare",
    "counted",
    "demo",
    "engines",
    "errors",
    "from_few_labels",
    "from_models",
    "from_source",
    "from_summaries",
    "guarded",
    "judged",
    "labels_to_halve",
    "load",
    "logits_of",
    "match_accuracy",
    "merged",
    "metrics",
    "online",
    "report",
    "scaling",
    "shapes",
    "sources",
    "summaries",
    "summarize",
    "temperature_scaling",
    "uts",
    "validation",
    "would_help",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"tepid.{_HOMES[name]}"), name)
    if name in _MODULES or name in _EXTRAS:
        return importlib.import_module(f"tepid.{name}")
    raise AttributeError(f"module 'tepid' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
