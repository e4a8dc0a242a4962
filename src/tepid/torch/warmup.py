"""A model in service that finds its own temperature from the first rows it answers."""

import threading
from typing import Any

import torch
from torch import nn

from tepid import shapes
from tepid.arrays import check_temperature
from tepid.errors import InputError
from tepid.temperature import Temperature
from tepid.torch import speaking
from tepid.torch.calibrated import Calibrated, calibration_of, scaled, softmax, text_of
from tepid.torch.evidence import Evidence
from tepid.torch.outputs import logits_in, with_logits


class Warmup(nn.Module):
    """A model that answers its first rows at a given T and, once it has seen enough, at its own.

    The logits of the first `samples` rows are kept where they are, since UTS reads them more than
    once, and are let go when T is fixed: the temperature is exactly that of `tepid.from_logits` on
    these rows, however they came in batches. The call that completes them takes as long as that.
    T is said once, to the logger `tepid`. Where the rows give none, the first T stays.

    Only evaluation mode counts, and rows whose logits are not finite do not. Threads may call it at
    once; `state_dict` holds what was kept, so that a warm-up goes on where it was saved. The first
    rows must be like the later ones: of a stream sorted by class, use `tepid.torch.calibrate` on a
    sample instead, and so for images and sequences, where a row is a pixel or a token. Put
    `DataParallel` and `torch.compile` inside: `Warmup(torch.compile(model))`.

    Args:
        model: Whatever returns logits.
        samples: How many rows to wait for.
        temperature: What they are answered at.
        accuracy: The known accuracy, as in `tepid.from_accuracy`.
        guarded: Abstain, with T = 1, unless it can help, as `tepid.guarded`.
        class_axis: Where the classes are, for logits of more than two dimensions.
        output: The name of the logits in the model's output, where it returns more than those.
    """

    temperature: Any

    def __init__(
        self,
        model: Any,
        samples: int = 2000,
        temperature: float = 1.0,
        *,
        accuracy: Any = None,
        guarded: bool = False,
        class_axis: int | None = None,
        output: str = "logits",
    ) -> None:
        super().__init__()
        if samples < 1:
            raise InputError(f"samples must be at least 1, got {samples}")
        self.evidence = Evidence(accuracy, guarded)
        self.evidence.check()
        self.model = model
        self.training = model.training
        self.samples, self.class_axis, self.output = samples, class_axis, output
        self.calibration: Temperature | None = None
        self.register_buffer("temperature", torch.tensor(check_temperature(temperature)))
        self._kept: list[Any] = []
        self._seen = self._unusable = 0
        self._lock = threading.Lock()

    @property
    def seen(self) -> int:
        """How many rows of the warm-up have been answered."""
        return self._seen

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output, with logits over the T of this moment."""
        answer, logits, temperature = self._answer(*args, **kwargs)
        return with_logits(answer, scaled(logits, temperature), self.output)

    def probabilities(self, *args: Any, **kwargs: Any) -> Any:
        """Probabilities at the T of this moment, as `Calibrated.probabilities`."""
        _, logits, temperature = self._answer(*args, **kwargs)
        return softmax(logits, temperature, self.class_axis)

    def calibrated(self) -> Calibrated:
        """The model with its temperature, once that is fixed."""
        if self.calibration is None:
            raise InputError(
                f"warm-up must have seen {self.samples} rows to be over, got {self.seen}"
            )
        fixed = Calibrated(
            self.model, self.calibration, class_axis=self.class_axis, output=self.output
        )
        fixed.temperature = self.temperature.clone()
        return fixed

    def _answer(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        answer = self.model(*args, **kwargs)
        logits, temperature = logits_in(answer, self.output), self.temperature
        if self.calibration is None and not self.training:
            self._watch(logits.detach())
        return answer, logits, temperature

    def _watch(self, logits: Any) -> None:
        z = shapes.class_last(logits, self.class_axis)
        z = z.reshape(-1, z.shape[-1] if z.ndim > 1 else 1)
        usable = torch.isfinite(z.amax(dim=1)) & ~z.isnan().any(dim=1)
        with self._lock:
            if self.calibration is not None:
                return
            self._unusable += int((~usable).sum())
            # Chosen rows are a copy, which the model does not write into again.
            self._kept.append(z[usable][: self.samples - self._seen])
            self._seen += len(self._kept[-1])
            if self._seen == self.samples:
                self._settle()

    def _settle(self) -> None:
        rows = torch.cat(self._kept)
        host = rows.device.type == "mps"
        calibration = self.evidence.temperature(rows.cpu() if host else rows)
        if calibration.status == "ok":
            # Another object: who has taken the old one answers a whole batch with it.
            self.temperature = torch.full_like(self.temperature, calibration.value)
        self.calibration, self._kept = calibration, []
        if self._unusable:
            speaking.left_out(self._unusable)
        speaking.settled(calibration, float(self.temperature))

    def get_extra_state(self) -> dict[str, Any]:
        """What was kept so far, or the calibration, for `state_dict`."""
        with self._lock:
            calibration = None if self.calibration is None else text_of(self.calibration)
            kept = torch.cat(self._kept) if self._kept else None
            counts = {"seen": self._seen, "unusable": self._unusable}
            return {"calibration": calibration, "kept": kept} | counts

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Go on where `get_extra_state` was."""
        text, kept = state["calibration"], state["kept"]
        with self._lock:
            self.calibration = None if text is None else calibration_of(text)
            self._kept = [] if kept is None else [kept[: self.samples - 1]]
            self._seen = int(state["seen"]) if kept is None else len(self._kept[0])
            self._unusable = int(state["unusable"])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._lock = threading.Lock()

    def _apply(self, fn: Any, recurse: bool = True) -> Any:  # noqa: FBT001, FBT002  # torch's own
        kept = self.temperature
        super()._apply(fn, recurse)
        if not kept.is_meta:
            self.temperature = kept.to(self.temperature.device)
        return self
