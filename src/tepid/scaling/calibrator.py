"""The base of every calibrator: its common fields, the call on logits, and saving."""

import abc
import dataclasses
import importlib
import os
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid import errors, shapes, store, validation
from tepid.errors import InputError
from tepid.scaling.rows import usable
from tepid.validation import Array, Float64


@dataclass(frozen=True, eq=False)
class Calibrator(abc.ABC):
    """A fitted calibrator: call it on logits to get probabilities.

    `method` is the function that fitted it, `samples` the number of rows that it was fitted to,
    `warnings` sentences on what may be wrong with the fit.
    """

    method: str
    _: dataclasses.KW_ONLY
    samples: int
    classes: int
    warnings: tuple[str, ...] = ()

    @property
    @abc.abstractmethod
    def keeps_argmax(self) -> bool:
        """Whether a row's largest logit always has its largest probability."""

    @abc.abstractmethod
    def of_rows(self, z: Float64) -> Float64:
        """Probabilities of checked logits (n, k), `-inf` where a class is masked."""

    def __call__(
        self, logits: Any, *, class_axis: int | None = None, probabilities: bool = False
    ) -> Any:
        """Probabilities, in the shape of the logits.

        float64 gives float64, everything else float32; torch tensors give tensors on their device;
        binary logits (n,) or (n, 1) give (n, 2). Everything is computed in float64.
        """
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(logits, torch.Tensor):
            array = validation.as_array(logits.detach().cpu())
            out = self(array, class_axis=class_axis, probabilities=probabilities)
            return torch.from_numpy(out).to(logits.device)
        if probabilities:
            logits = validation.log_probabilities(logits, class_axis)
        z = shapes.class_last(validation.as_array(logits), class_axis)
        _check_classes(self.classes, z)
        if validation.look_like_probabilities(z):
            validation.warn_probabilities()
        return shapes.class_back(self._in_batches(z), class_axis)

    def _in_batches(self, z: Array) -> Array:
        lead = z.shape[:1] if z.ndim == 1 else z.shape[:-1]
        wide = z.dtype.kind == "f" and z.dtype.itemsize >= np.float64().itemsize
        out = np.empty((*lead, self.classes), np.float64 if wide else np.float32)
        start = 0
        for part in shapes.parts(lead, shapes.rows_per_batch(self.classes)):
            batch = z[part].reshape(-1, z.shape[-1] if z.ndim > 1 else 1)
            try:
                out[part] = self.of_rows(usable(batch)).reshape(out[part].shape)
            except errors.RowError as error:
                raise error.moved(start) from None
            start += len(batch)
        return out

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to `.npz`, atomically; `tepid.scaling.load` reads it back."""
        store.save(self, path)


def _check_classes(classes: int, z: Array) -> None:
    if z.ndim == 1 and classes > 2:
        raise InputError(
            f"logits must be (n, {classes}), or logits[None] for one row, got shape {z.shape}"
        )
    k = shapes.class_count(z)
    if k != classes:
        raise InputError(f"logits must have the {classes} classes of the calibration, got {k}")


def import_optional(module: str, name: str) -> Any:
    """An attribute of SciPy or scikit-learn, which fitting needs and applying does not."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        raise InputError(
            "Fitting needs SciPy and scikit-learn: pip install 'tepid[scaling]'"
        ) from None
