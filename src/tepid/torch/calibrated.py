"""A model with its temperature: the same outputs, with calibrated logits."""

import json
from typing import Any

import torch
from torch import nn

from tepid import shapes
from tepid.errors import InputError
from tepid.temperature import Temperature, parsed
from tepid.torch.outputs import logits_in, with_logits


def scaled(logits: Any, temperature: Any) -> Any:
    """Logits over T, in their own precision and on their own device."""
    return logits / temperature.to(logits.device)


def softmax(logits: Any, temperature: Any, class_axis: int | None) -> Any:
    """Probabilities in float32, or float64 of such logits; one logit stands for the pair (0, z)."""
    z = shapes.class_last(logits, class_axis)
    z = z if z.dtype == torch.float64 else z.float()
    if z.ndim == 1 or z.shape[-1] == 1:
        z = z if z.ndim > 1 else z[:, None]
        z = torch.cat([torch.zeros_like(z), z], dim=-1)
    return shapes.class_back(torch.softmax(scaled(z, temperature), dim=-1), class_axis)


def text_of(calibration: Temperature) -> Any:
    """A calibration as the bytes of its JSON: a tensor, which every format of weights can hold."""
    text = json.dumps(calibration.as_dict()).encode()
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


def calibration_of(text: Any) -> Temperature:
    """The calibration that `text_of` wrote."""
    try:
        stored = json.loads(bytes(text.cpu().tolist()))
    except (AttributeError, TypeError, ValueError):
        raise InputError("state must hold a calibration of tepid, got no JSON") from None
    return parsed(stored, "state")


class Calibrated(nn.Module):
    """A model whose output is its own, with logits over T in the place of its logits.

    Tensors, named tuples, dictionaries and the outputs of Hugging Face keep their kind, and
    whatever else they hold, such as a loss, is passed on. `model` is what was wrapped,
    `temperature` a buffer of float32 that stays so when the model is halved, `calibration` the
    whole `tepid.Temperature` with what is needed to distrust it; all of it is in `state_dict`.

    Args:
        model: Whatever returns logits.
        calibration: As `tepid.from_logits` and the others give it.
        class_axis: Where the classes are, for logits of more than two dimensions.
        output: The name of the logits in the model's output, where it returns more than those.

    >>> from tepid import Temperature
    >>> t = Temperature(2.0, "labels", samples=10, classes=2, implied_accuracy=0.8)
    >>> calibrated = Calibrated(nn.Identity(), t)
    >>> calibrated(torch.tensor([[0.0, 4.0]]))
    tensor([[0., 2.]])
    >>> calibrated.probabilities(torch.tensor([[0.0, 4.0]]))
    tensor([[0.119, 0.881]])
    """

    temperature: Any

    def __init__(
        self,
        model: Any,
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
        self.register_buffer("temperature", torch.tensor(calibration.value, dtype=torch.float32))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output, with calibrated logits."""
        answer = self.model(*args, **kwargs)
        logits = scaled(logits_in(answer, self.output), self.temperature)
        return with_logits(answer, logits, self.output)

    def probabilities(self, *args: Any, **kwargs: Any) -> Any:
        """Calibrated probabilities, softmax(logits / T), float32 or float64, also of half logits.

        A single logit per row, (n,) or (n, 1), is that of class 1, and gives (n, 2).
        """
        logits = logits_in(self.model(*args, **kwargs), self.output)
        return softmax(logits, self.temperature, self.class_axis)

    def get_extra_state(self) -> Any:
        """The calibration, for `state_dict`."""
        return text_of(self.calibration)

    def set_extra_state(self, state: Any) -> None:
        """The calibration, from `load_state_dict`."""
        self.calibration = calibration_of(state)

    def extra_repr(self) -> str:
        """What `repr` says of it."""
        return f"T = {self.calibration.value:.4g} ({self.calibration.method})"

    def _apply(self, fn: Any, recurse: bool = True) -> Any:  # noqa: FBT001, FBT002  # torch's own
        kept = self.temperature
        super()._apply(fn, recurse)
        if not kept.is_meta:
            # Half a number would be wrong in its third digit; the logits' own type decides anyway.
            self.temperature = kept.to(self.temperature.device)
        return self
