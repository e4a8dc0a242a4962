"""tepid: the temperature of a trained classifier, from few labels or none.

`calibrate` takes the logits and whatever else is known, and returns a `Temperature`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tepid import comparison as comparison
    from tepid import decisions as decisions
    from tepid import demo as demo
    from tepid import engines as engines
    from tepid import errors as errors
    from tepid import lab as lab
    from tepid import llm as llm
    from tepid import metrics as metrics
    from tepid import online as online
    from tepid import onnx as onnx
    from tepid import plots as plots
    from tepid import report as report
    from tepid import scaling as scaling
    from tepid import shapes as shapes
    from tepid import sklearn as sklearn
    from tepid import sources as sources
    from tepid import summaries as summaries
    from tepid import torch as torch
    from tepid import validation as validation
    from tepid.comparison import compare
    from tepid.engines import Threads
    from tepid.errors import CalibrationWarning, InputError
    from tepid.methods import Counted, Range, match_accuracy, temperature_scaling, uts
    from tepid.posterior import calibrate, summarize
    from tepid.sources import open_source
    from tepid.summaries.shared import Summaries
    from tepid.temperature import Temperature, load

    __version__: str

# Names are imported when first used, so that `tepid --help` does not wait for NumPy.
_HOMES = {
    "CalibrationWarning": "errors",
    "Counted": "methods",
    "InputError": "errors",
    "Range": "methods",
    "Summaries": "summaries.shared",
    "Temperature": "temperature",
    "Threads": "engines",
    "calibrate": "posterior",
    "compare": "comparison",
    "load": "temperature",
    "match_accuracy": "methods",
    "open_source": "sources",
    "summarize": "posterior",
    "temperature_scaling": "methods",
    "uts": "methods",
}
_MODULES = (
    "lab", "llm", "metrics", "online", "onnx", "plots", "report", "scaling", "sklearn", "torch",
)  # fmt: skip
# Reached by name where they are needed; not part of the public interface.
_INTERNAL = (
    "comparison",
    "decisions",
    "demo",
    "engines",
    "errors",
    "shapes",
    "sources",
    "summaries",
    "validation",
)

# Modules are reached by name and not by `import *`, which must work without their extras.
__all__ = [
    "CalibrationWarning",
    "Counted",
    "InputError",
    "Range",
    "Summaries",
    "Temperature",
    "Threads",
    "calibrate",
    "compare",
    "load",
    "match_accuracy",
    "open_source",
    "summarize",
    "temperature_scaling",
    "uts",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"tepid.{_HOMES[name]}"), name)
    if name in _MODULES or name in _INTERNAL:
        return importlib.import_module(f"tepid.{name}")
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("tepid")
    raise AttributeError(f"module 'tepid' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
