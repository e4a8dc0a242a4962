"""A model with its temperature as one `torch.nn.Module`: fitted before, or in service."""

import copy
import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from tepid import shapes
from tepid.engines import choose_engine
from tepid.errors import InputError
from tepid.methods.accuracy import Accuracy, estimate
from tepid.posterior.calibration import fit_evidence
from tepid.posterior.evidence import Evidence
from tepid.sources import open_source
from tepid.temperature import Temperature, describe_doubts, parsed
from tepid.validation import check_temperature

_log = logging.getLogger("tepid")
# Of all warm-ups, which take it only until their temperature is fitted. In a module it would have
# to be left out of every copy.
_lock = threading.Lock()


class _Divided(nn.Module):
    """A model whose logits are divided by the buffer `temperature`."""

    temperature: torch.Tensor
    calibration: Temperature | None

    def __init__(
        self, model: nn.Module, temperature: torch.Tensor, class_axis: int | None, output: str
    ) -> None:
        super().__init__()
        self.model = model
        self.training = model.training
        self.class_axis, self.output = class_axis, output
        self.register_buffer("temperature", temperature)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output with its logits divided by T."""
        answer, logits, temperature = self._answer(*args, **kwargs)
        scaled = _scale(logits, temperature, self.class_axis)
        return _replace_logits(answer, scaled, self.output)

    def probabilities(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Calibrated probabilities, softmax(logits / T), as float64 or float32.

        float64 logits give float64, all others float32. A single logit per row, (n,) or (n, 1), is
        that of class 1 and gives (n, 2). For a multi-label calibration, sigmoid(logits / T).
        """
        _, logits, temperature = self._answer(*args, **kwargs)
        z = logits if logits.dtype == torch.float64 else logits.float()
        if self.calibration is not None and self.calibration.label_names:
            return torch.sigmoid(_scale(z, temperature, self.class_axis))
        z = shapes.class_last(z, self.class_axis)
        if z.ndim == 1 or z.shape[-1] == 1:
            z = z if z.ndim > 1 else z[:, None]
            z = torch.cat([torch.zeros_like(z), z], dim=-1)
        return shapes.class_back(torch.softmax(_scale(z, temperature), dim=-1), self.class_axis)

    def _answer(self, *args: Any, **kwargs: Any) -> tuple[Any, torch.Tensor, torch.Tensor]:
        """The model's output, the logits in it, and the T to divide them by."""
        answer = self.model(*args, **kwargs)
        return answer, find_logits(answer, self.output), self.temperature

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:  # noqa: FBT001, FBT002
        """Move the temperature to another device but not to another dtype.

        In half precision T would be wrong in its third digit. The logits decide the output's dtype.
        """
        kept = self.temperature
        super()._apply(fn, recurse)  # what `.to` and `.half` go through
        if not kept.is_meta:
            self.temperature = kept.to(self.temperature.device)
        return self


class Calibrated(_Divided):
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

    calibration: Temperature

    def __init__(
        self,
        model: nn.Module,
        calibration: Temperature,
        *,
        class_axis: int | None = None,
        output: str = "logits",
    ) -> None:
        each = calibration.groups and calibration.per_label
        value = torch.tensor(each or calibration.value, dtype=torch.float32)
        super().__init__(model, value, class_axis, output)
        self.calibration = calibration

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        saved = state.get(f"{prefix}temperature")
        if saved is not None:  # the saved calibration may have another number of temperatures
            self.temperature = self.temperature.new_ones(saved.shape)
        super()._load_from_state_dict(state, prefix, *rest)

    def get_extra_state(self) -> torch.Tensor:
        """The calibration, for `state_dict`."""
        return _encode(self.calibration)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Restore the calibration, for `load_state_dict`."""
        self.calibration = _decode(state)

    def extra_repr(self) -> str:
        """The part of `repr` in parentheses."""
        return f"T = {self.calibration.value:.4g} ({self.calibration.method})"


class Warmup(_Divided):
    """A model that answers its first rows at a given T and fits its own T to them.

    A fit reads the rows more than once, so the logits of the first `samples` rows are kept on their
    device until T is fitted. T is exactly that of `tepid.calibrate` on these rows, however they are
    batched. The call that completes them waits for the fit. The result and its warnings are logged
    once by the logger `tepid`. With the verdict `keep` the given T stays: the rows do not identify
    another one. This is the usual result without an accuracy, unless the mean confidence is high.

    Only evaluation mode counts. Rows with logits that are not finite are left out. Several threads
    may call it. `state_dict` holds the rows kept so far, so a saved warm-up can be continued. The
    first rows must be like the later ones. For a stream sorted by class, and for images and
    sequences, whose rows are pixels or tokens, and for multi-label rows use
    `tepid.torch.calibrate` on a sample instead.
    Put `DataParallel` and `torch.compile` inside: `Warmup(torch.compile(model))`.

    Args:
        model: A module that returns logits.
        samples: The number of rows to wait for.
        temperature: The T at which these rows are answered.
        accuracy: The model's accuracy, as in `tepid.calibrate`.
        class_axis: The axis of the classes, for logits of more than two dimensions.
        output: The name of the logits in the model's output, if it returns more than them.
    """

    def __init__(
        self,
        model: nn.Module,
        samples: int = 2000,
        temperature: float = 1.0,
        *,
        accuracy: Accuracy | None = None,
        class_axis: int | None = None,
        output: str = "logits",
    ) -> None:
        if samples < 1:
            raise InputError(f"samples must be at least 1, got {samples}")
        if getattr(temperature, "label_names", ()):
            raise InputError(
                "temperature must be of rows with one label for a warm-up, got a multi-label one; "
                "use tepid.torch.calibrate(model, loader, multilabel=True)"
            )
        value = torch.tensor(check_temperature(float(temperature)))
        super().__init__(model, value, class_axis, output)
        self.samples = samples
        self.accuracy = None if accuracy is None else estimate(accuracy)
        self.calibration = None
        self._kept: list[torch.Tensor] = []
        self._unusable = 0

    @property
    def seen(self) -> int:
        """The number of rows of the warm-up so far."""
        return self.samples if self.calibration else sum(len(rows) for rows in self._kept)

    def calibrated(self) -> Calibrated:
        """The model with its temperature; raises before the warm-up is over."""
        if self.calibration is None:
            raise InputError(
                f"warm-up must have seen {self.samples} rows to be over, got {self.seen}"
            )
        fixed = Calibrated(
            self.model, self.calibration, class_axis=self.class_axis, output=self.output
        )
        fixed.temperature = self.temperature.clone()
        return fixed

    def _answer(self, *args: Any, **kwargs: Any) -> tuple[Any, torch.Tensor, torch.Tensor]:
        answer, logits, temperature = super()._answer(*args, **kwargs)
        if self.calibration is None and not self.training:
            self._keep(logits.detach())
        return answer, logits, temperature

    def _keep(self, logits: torch.Tensor) -> None:
        z = shapes.class_last(logits, self.class_axis)
        z = z.reshape(-1, z.shape[-1] if z.ndim > 1 else 1)
        usable = torch.isfinite(z.amax(dim=1)) & ~z.isnan().any(dim=1)
        with _lock:
            if self.calibration is not None:
                return
            self._unusable += int((~usable).sum())
            # Indexing copies the rows, so the model may reuse its memory.
            self._kept.append(z[usable][: self.samples - self.seen])
            if self.seen == self.samples:
                self._fit()

    def _fit(self) -> None:
        rows = torch.cat(self._kept)
        rows = rows.cpu() if rows.device.type == "mps" else rows  # which has no float64
        source = open_source(rows)
        evidence = Evidence(source, models=0, reference=False, labeled=None, source=None)
        found = fit_evidence(evidence, self.accuracy, choose_engine(None, source))
        kept = found.verdict == "keep"
        if not kept:
            # A new tensor: calls that hold the old one use it for their whole batch.
            self.temperature = torch.full_like(self.temperature, found.value)
        self.calibration, self._kept = found, []
        if self._unusable:
            _log.warning(
                "%d rows were left out of the warm-up: their logits are not finite", self._unusable
            )
        if kept:
            _log.info(
                "The first %d rows give no T, so T = %.4g stays. %s %s",
                found.samples, float(self.temperature), found.reason, found.next_step,
            )  # fmt: skip
        else:
            _log.info(
                "T = %.4g (%s, %s) from the first %d rows is used from here on. %s",
                found.value, found.verdict, found.status, found.samples, found.reason,
            )  # fmt: skip
        doubts = describe_doubts(found)
        if doubts:
            _log.warning("%s", doubts)

    def get_extra_state(self) -> dict[str, Any]:
        """The rows kept so far, or the calibration, for `state_dict`."""
        with _lock:
            return {
                "calibration": self.calibration and _encode(self.calibration),
                "kept": torch.cat(self._kept) if self._kept else None,
                "unusable": self._unusable,
            }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Continue from a saved state, for `load_state_dict`."""
        text, kept = state["calibration"], state["kept"]
        with _lock:
            self.calibration = None if text is None else _decode(text)
            self._kept = [] if kept is None else [kept[: self.samples - 1]]
            self._unusable = int(state["unusable"])


def _scale(
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


def _encode(calibration: Temperature) -> torch.Tensor:
    """A calibration as JSON in a byte tensor, which every format of weights can hold."""
    text = json.dumps(calibration.as_dict()).encode()
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


def _decode(state: torch.Tensor) -> Temperature:
    """The calibration that `_encode` encoded."""
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
    elif not isinstance(output, torch.Tensor) and hasattr(output, name):
        found = getattr(output, name)
    elif isinstance(output, (tuple, list)) and output:
        found = output[0]
    if not isinstance(found, torch.Tensor):
        got = type(output).__name__
        if isinstance(output, Mapping):
            got += f" with {', '.join(map(str, output)) or 'nothing'}"
        raise InputError(f"model must return logits, or {name!r} among others, got {got}")
    return found


def _replace_logits(output: Any, logits: torch.Tensor, name: str = "logits") -> Any:
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
