"""A model with its temperature as one `torch.nn.Module`."""

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from tepid import shapes
from tepid.errors import InputError
from tepid.temperature import Temperature, parsed


def apply_except_dtype(
    module: Any,
    fn: Callable[..., Any],
    recurse: bool = True,  # noqa: FBT001, FBT002
) -> Any:
    """`nn.Module._apply` that moves the temperature to another device but not to another dtype.

    In half precision T would be wrong in its third digit. The logits decide the output's dtype.
    """
    kept = module.temperature
    nn.Module._apply(module, fn, recurse)  # noqa: SLF001  # what `.to` and `.half` go through
    if not kept.is_meta:
        module.temperature = kept.to(module.temperature.device)
    return module


class Calibrated(nn.Module):
    """A model that returns the output of another one with its logits divided by T.

    Tensors, named tuples, dictionaries and Hugging Face outputs keep their type and everything
    else in them, such as a loss. `model` is the wrapped model. `temperature` is a float32 buffer
    and stays float32 when the model is halved: one number, or one for each label of a multi-label
    calibration that has them. `calibration` is the whole `tepid.Temperature`. `state_dict` holds
    all of it.

    Args:
        model: A module that returns logits.
        calibration: The result of `tepid.calibrate` or of an exact method.
        class_axis: The axis of the classes, for logits of more than two dimensions.
        output: The name of the logits in the model's output, if it returns more than them.

    >>> from tepid import Temperature
    >>> t = Temperature(2.0, "labels", samples=10, classes=2, implied_accuracy=0.8)
    >>> calibrated = Calibrated(nn.Identity(), t)
    >>> calibrated(torch.tensor([[0.0, 4.0]]))
    tensor([[0., 2.]])
    >>> calibrated.probabilities(torch.tensor([[0.0, 4.0]]))
    tensor([[0.119, 0.881]])
    """

    temperature: torch.Tensor
    _apply = apply_except_dtype

    def __init__(
        self,
        model: nn.Module,
        calibration: Temperature,
        *,
        class_axis: int | None = None,
        output: str = "logits",
    ) -> None:
        super().__init__()
        self.model = model
        self.training = model.training
        self.calibration = calibration
        self.class_axis = class_axis
        self.output = output
        each = calibration.groups and calibration.per_label
        value = torch.tensor(each or calibration.value, dtype=torch.float32)
        self.register_buffer("temperature", value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output with calibrated logits."""
        answer = self.model(*args, **kwargs)
        logits = scale(find_logits(answer, self.output), self.temperature, self.class_axis)
        return replace_logits(answer, logits, self.output)

    def probabilities(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Calibrated probabilities, softmax(logits / T), as float64 or float32.

        float64 logits give float64, all others float32. A single logit per row, (n,) or (n, 1), is
        that of class 1 and gives (n, 2). For a multi-label calibration, sigmoid(logits / T).
        """
        logits = find_logits(self.model(*args, **kwargs), self.output)
        if self.calibration.label_names:
            z = logits if logits.dtype == torch.float64 else logits.float()
            return torch.sigmoid(scale(z, self.temperature, self.class_axis))
        return softmax(logits, self.temperature, self.class_axis)

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        saved = state.get(f"{prefix}temperature")
        if saved is not None:  # the saved calibration may have another number of temperatures
            self.temperature = self.temperature.new_ones(saved.shape)
        super()._load_from_state_dict(state, prefix, *rest)

    def get_extra_state(self) -> torch.Tensor:
        """The calibration, for `state_dict`."""
        return encode_calibration(self.calibration)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Restore the calibration, for `load_state_dict`."""
        self.calibration = decode_calibration(state)

    def extra_repr(self) -> str:
        """The part of `repr` in parentheses."""
        return f"T = {self.calibration.value:.4g} ({self.calibration.method})"


def scale(
    logits: torch.Tensor, temperature: torch.Tensor, class_axis: int | None = None
) -> torch.Tensor:
    """Logits / T in the dtype and on the device of the logits; T may be one for each label."""
    t = temperature.to(logits.device)
    if t.ndim == 0:
        return logits / t
    z = shapes.class_last(logits, class_axis)
    if z.ndim < 2 or z.shape[-1] != len(t):
        raise InputError(
            f"logits must be (n, {len(t)}), one for each label, got {tuple(logits.shape)}"
        )
    # A vector, unlike a single number, would widen float16.
    return shapes.class_back(z / t, class_axis).to(logits.dtype)


def softmax(
    logits: torch.Tensor, temperature: torch.Tensor, class_axis: int | None
) -> torch.Tensor:
    """Softmax of logits / T in float32, or float64 for float64 logits; binary logits give two."""
    z = shapes.class_last(logits, class_axis)
    z = z if z.dtype == torch.float64 else z.float()
    if z.ndim == 1 or z.shape[-1] == 1:
        z = z if z.ndim > 1 else z[:, None]
        z = torch.cat([torch.zeros_like(z), z], dim=-1)
    return shapes.class_back(torch.softmax(scale(z, temperature), dim=-1), class_axis)


def encode_calibration(calibration: Temperature) -> torch.Tensor:
    """A calibration as JSON in a byte tensor, which every format of weights can hold."""
    text = json.dumps(calibration.as_dict()).encode()
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


def decode_calibration(state: torch.Tensor) -> Temperature:
    """The calibration that `encode_calibration` encoded."""
    try:
        stored = json.loads(bytes(state.cpu().tolist()))
    except (AttributeError, TypeError, ValueError):
        raise InputError("state must hold a calibration of tepid, got no JSON") from None
    return parsed(stored, "state")


def find_logits(output: Any, name: str = "logits") -> torch.Tensor:
    """The logits in a model's output: itself, the entry or attribute `name`, or the first item."""
    found = output
    if isinstance(output, Mapping):
        found = output.get(name)
    elif hasattr(output, name) and not isinstance(output, torch.Tensor):
        found = getattr(output, name)
    elif isinstance(output, (tuple, list)) and output:
        found = output[0]
    if not isinstance(found, torch.Tensor):
        got = type(output).__name__
        if isinstance(output, Mapping):
            got += f" with {', '.join(map(str, output)) or 'nothing'}"
        raise InputError(f"model must return logits, or {name!r} among others, got {got}")
    return found


def replace_logits(output: Any, logits: torch.Tensor, name: str = "logits") -> Any:
    """An output of the same type with other logits; the given output is not changed."""
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
    same = copy.copy(output)
    object.__setattr__(same, name, logits)  # a dataclass may be frozen
    return same
