"""A model in service that fits its temperature to the first rows it is given."""

import logging
import threading
from typing import Any

import torch
from torch import nn

from tepid import shapes
from tepid.engines import choose_engine
from tepid.errors import InputError
from tepid.methods.accuracy import estimate
from tepid.posterior.calibration import fit_evidence
from tepid.posterior.evidence import Evidence
from tepid.sources import open_source
from tepid.temperature import Temperature, describe_doubts
from tepid.torch.module import (
    Calibrated,
    apply_except_dtype,
    decode_calibration,
    encode_calibration,
    find_logits,
    replace_logits,
    scale,
    softmax,
)
from tepid.validation import check_temperature

_log = logging.getLogger("tepid")
# Of all warm-ups, which take it only until their temperature is fitted. In a module it would have
# to be left out of every copy.
_lock = threading.Lock()


class Warmup(nn.Module):
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

    temperature: torch.Tensor
    _apply = apply_except_dtype

    def __init__(
        self,
        model: nn.Module,
        samples: int = 2000,
        temperature: float = 1.0,
        *,
        accuracy: Any = None,
        class_axis: int | None = None,
        output: str = "logits",
    ) -> None:
        super().__init__()
        if samples < 1:
            raise InputError(f"samples must be at least 1, got {samples}")
        if getattr(temperature, "label_names", ()):
            raise InputError(
                "temperature must be of rows with one label for a warm-up, got a multi-label one; "
                "use tepid.torch.calibrate(model, loader, multilabel=True)"
            )
        self.accuracy = None if accuracy is None else estimate(accuracy)
        self.model = model
        self.training = model.training
        self.samples, self.class_axis, self.output = samples, class_axis, output
        self.calibration: Temperature | None = None
        self.register_buffer("temperature", torch.tensor(check_temperature(float(temperature))))
        self._kept: list[torch.Tensor] = []
        self._unusable = 0

    @property
    def seen(self) -> int:
        """The number of rows of the warm-up so far."""
        return self.samples if self.calibration else sum(len(rows) for rows in self._kept)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output with its logits divided by the current T."""
        answer, logits, temperature = self._answer(*args, **kwargs)
        return replace_logits(answer, scale(logits, temperature), self.output)

    def probabilities(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Probabilities at the current T, as `Calibrated.probabilities`."""
        _, logits, temperature = self._answer(*args, **kwargs)
        return softmax(logits, temperature, self.class_axis)

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
        answer = self.model(*args, **kwargs)
        logits, temperature = find_logits(answer, self.output), self.temperature
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
                "calibration": self.calibration and encode_calibration(self.calibration),
                "kept": torch.cat(self._kept) if self._kept else None,
                "unusable": self._unusable,
            }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Continue from a saved state, for `load_state_dict`."""
        text, kept = state["calibration"], state["kept"]
        with _lock:
            self.calibration = None if text is None else decode_calibration(text)
            self._kept = [] if kept is None else [kept[: self.samples - 1]]
            self._unusable = int(state["unusable"])
