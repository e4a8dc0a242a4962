"""Where a model's output holds its logits, and the same output with others in their place."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from tepid.errors import InputError


def logits_in(output: Any, name: str = "logits") -> Any:
    """The logits of a tensor, of what has them under a name, or of a sequence that begins so."""
    found = output
    if isinstance(output, Mapping):
        found = output.get(name)
    elif hasattr(output, name) and not isinstance(output, torch.Tensor):
        found = getattr(output, name)
    elif isinstance(output, (tuple, list)) and output:
        found = output[0]
    if not isinstance(found, torch.Tensor):
        raise InputError(f"model must return logits, or {name!r} among others, got {_kind(output)}")
    return found


def with_logits(output: Any, logits: Any, name: str = "logits") -> Any:
    """An output of the same kind with these logits; what was given is left as it is."""
    if isinstance(output, torch.Tensor):
        return logits
    if isinstance(output, Mapping):
        same: Any = copy.copy(output)
        same[name] = logits
        return same
    if hasattr(output, "_replace"):
        return output._replace(**{name if hasattr(output, name) else output._fields[0]: logits})
    if isinstance(output, (tuple, list)):
        return type(output)([logits, *output[1:]])
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return dataclasses.replace(output, **{name: logits})
    same = copy.copy(output)
    setattr(same, name, logits)
    return same


def _kind(output: Any) -> str:
    if isinstance(output, Mapping):
        return f"{type(output).__name__} with {', '.join(map(str, output)) or 'nothing'}"
    return type(output).__name__
