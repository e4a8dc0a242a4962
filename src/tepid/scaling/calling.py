"""How every calibrator is called: logits of any form in, probabilities in the same form out."""

import sys
from typing import Any, Protocol

import numpy as np

from tepid import arrays, errors, shapes
from tepid.arrays import Float64
from tepid.errors import InputError
from tepid.scaling.rows import usable


class Calibrator(Protocol):
    """What `applied` needs: the number of classes, and probabilities for checked rows."""

    @property
    def classes(self) -> int:
        """How many classes the calibration was fitted to."""

    def of_rows(self, z: Float64) -> Float64:
        """Probabilities (n, k) of logits (n, k) in float64, `-inf` where a class is masked."""


def applied(
    calibrator: Calibrator, logits: Any, class_axis: int | None, *, probabilities: bool = False
) -> Any:
    """Probabilities in the shape of the logits, as `Temperature.__call__` gives them.

    float64 gives float64, everything else float32; torch tensors give tensors on their device;
    binary logits (n,) or (n, 1) give (n, 2). Everything is computed in float64.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(logits, torch.Tensor):
        array = arrays.as_array(logits.detach().cpu())
        out = applied(calibrator, array, class_axis, probabilities=probabilities)
        return torch.from_numpy(out).to(logits.device)
    if probabilities:
        logits = arrays.log_probabilities(logits, class_axis)
    z = shapes.class_last(arrays.as_array(logits), class_axis)
    k = _checked(calibrator.classes, z)
    if arrays.look_like_probabilities(z):
        arrays.warn_probabilities()
    lead = z.shape[:1] if z.ndim == 1 else z.shape[:-1]
    wide = z.dtype.kind == "f" and z.dtype.itemsize >= np.float64().itemsize
    out = np.empty((*lead, k), np.float64 if wide else np.float32)
    start = 0
    for part in shapes.parts(lead, shapes.rows_per_block(k)):
        block = z[part].reshape(-1, z.shape[-1] if z.ndim > 1 else 1)
        try:
            out[part] = calibrator.of_rows(usable(block)).reshape(out[part].shape)
        except errors.RowError as error:
            raise error.moved(start) from None
        start += len(block)
    return shapes.class_back(out, class_axis)


def _checked(classes: int, z: Any) -> int:
    if z.ndim == 1 and classes > 2:
        raise InputError(
            f"logits must be (n, {classes}), or logits[None] for one row, got shape {z.shape}"
        )
    k = shapes.class_count(z)
    if k != classes:
        raise InputError(f"logits must have the {classes} classes of the calibration, got {k}")
    return k
