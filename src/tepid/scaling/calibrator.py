"""What all calibrators share: the call on logits, the checks of a saved file, optional packages."""

import importlib
import sys
from typing import Any, Protocol

import numpy as np

from tepid import errors, shapes, store, validation
from tepid.errors import InputError
from tepid.scaling.rows import usable
from tepid.validation import Array, Float64


class Fitted(Protocol):
    """A frozen dataclass of plain arrays, which assigns `calibrate` as its `__call__`."""

    @property
    def classes(self) -> int: ...  # noqa: D102

    def apply(self, z: Float64) -> Float64:
        """Probabilities of checked logits (n, k), `-inf` where a class is masked."""
        ...


def calibrate(
    self: Fitted, logits: Any, *, class_axis: int | None = None, probabilities: bool = False
) -> Any:
    """Probabilities, in the shape of the logits.

    float64 gives float64, everything else float32; torch tensors give tensors on their device;
    binary logits (n,) or (n, 1) give (n, 2). Everything is computed in float64.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(logits, torch.Tensor):
        array = validation.as_array(logits.detach().cpu())
        out = calibrate(self, array, class_axis=class_axis, probabilities=probabilities)
        return torch.from_numpy(out).to(logits.device)
    if validation.flag(probabilities, "probabilities"):
        logits = validation.log_probabilities(logits, class_axis)
    z = shapes.class_last(validation.as_array(logits), class_axis)
    shapes.check_classes(z, self.classes)
    if validation.look_like_probabilities(z):
        validation.warn_probabilities()
    return shapes.class_back(_in_batches(self, z), class_axis)


def _in_batches(fitted: Fitted, z: Array) -> Array:
    k = fitted.classes
    lead = z.shape[:1] if z.ndim == 1 else z.shape[:-1]
    wide = z.dtype.kind == "f" and z.dtype.itemsize >= np.float64().itemsize
    out = np.empty((*lead, k), np.float64 if wide else np.float32)
    start = 0
    for part in shapes.parts(lead, shapes.rows_per_batch(k)):
        batch = z[part].reshape(-1, z.shape[-1] if z.ndim > 1 else 1)
        try:
            out[part] = fitted.apply(usable(batch)).reshape(out[part].shape)
        except errors.RowError as error:
            raise error.moved(start) from None
        start += len(batch)
    return out


def check_counts(samples: int, classes: int) -> None:
    """Raise unless a loaded calibrator can have so many rows and classes."""
    store.check_count("samples", samples)
    store.check_count("classes", classes, 2)


def import_optional(module: str, name: str) -> Any:
    """An attribute of SciPy or scikit-learn, which fitting needs and applying does not."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        raise InputError(
            "Fitting needs SciPy and scikit-learn: pip install 'tepid[scaling]'"
        ) from None
