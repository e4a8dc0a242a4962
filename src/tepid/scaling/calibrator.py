"""What all calibrators share: the call on logits, saving, and the rows of a fit."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tepid import kernels, shapes, store, validation
from tepid.errors import InputError, RowError, require
from tepid.sources import open_source
from tepid.validation import Array, Float64, Int64

_FAR = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Calibrator:
    """A map from logits to probabilities, of plain numbers and arrays."""

    method: str
    samples: int
    classes: int
    warnings: tuple[str, ...] = field(default=(), kw_only=True)

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
        _check_shape(z, self.classes)
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
                out[part] = self.apply(usable(batch)).reshape(out[part].shape)
            except RowError as error:
                raise error.moved(start) from None
            start += len(batch)
        return out

    @property
    def keeps_argmax(self) -> bool:
        """Whether a row's largest logit always has its largest probability."""
        return False

    def apply(self, z: Float64) -> Float64:
        """Probabilities of checked logits (n, k), `-inf` where a class is masked."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise unless it can be applied."""
        store.check_count("samples", self.samples)
        store.check_count("classes", self.classes, 2)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an `.npz` file, which `tepid.scaling.load` reads."""
        store.save(self, path)


def _check_shape(z: Array, classes: int) -> None:
    if z.ndim == 1 and classes > 2:
        raise InputError(
            f"logits must be (n, {classes}), or logits[None] for one row, got shape {z.shape}"
        )
    k = shapes.class_count(z)
    if k != classes:
        raise InputError(f"logits must have the {classes} classes of the calibration, got {k}")


# The rows of a fit --------------------------------------------------------------------------------


class Rows(NamedTuple):
    """Logits (n, k) in float64, labels, and weights above zero."""

    z: Float64
    y: Int64
    u: Float64


def labeled(
    logits: Any,
    labels: Any,
    sample_weight: Any,
    class_axis: int | None,
    columns: Any,
    *,
    probabilities: bool,
) -> Rows:
    """The rows of positive weight; raises for a row that cannot be used and names it."""
    source = open_source(
        logits,
        labels=labels,
        sample_weight=sample_weight,
        class_axis=class_axis,
        columns=columns,
        probabilities=probabilities,
    )
    if not source.labeled:
        raise InputError("labels must be given, got none")
    given = source.whole()
    u = validation.weight_column(given.weight, len(given.logits))
    kept = np.flatnonzero(u)
    if not len(kept):
        raise InputError("sample_weight must not be zero for every row, got only zeros")
    try:
        z = usable(given.logits if u.all() else given.logits[kept])
    except RowError as error:
        raise error.moved(int(kept[error.row]) - error.row, source.name) from None
    y = validation.label_column(given.labels, len(given.logits), z.shape[1], weight=u)[kept]
    masked = np.isneginf(z[np.arange(len(z)), y])
    if masked.any():
        row = int(masked.argmax())
        got = f"class {y[row]}, whose logit is -inf,"
        raise RowError("labels", "name a class that is not masked", got, int(kept[row]))
    return Rows(z, y, u[kept])


def usable(logits: Array) -> Float64:
    """Logits as float64 (n, k), `-inf` where a class is masked; raises for NaN and overflow."""
    narrow = logits.dtype.itemsize <= np.float32().itemsize and logits.dtype.kind not in "iu"
    z: Float64 = np.asarray(shapes.matrix(logits)).astype(np.float64)
    top = z.max(axis=1)
    bad = ~np.isfinite(top)
    if bad.any():
        raise validation.unusable(z, int(bad.argmax()))
    if not narrow:
        far = np.abs(top) > _FAR
        if far.any():
            row = int(far.argmax())
            raise RowError("logits", f"lie within {_FAR:g} of zero", f"{top[row]:g}", row)
        validation.centered(z)
    return z


def softmax(s: Float64) -> Float64:
    """The softmax of each row, exactly 0 where it is `-inf`."""
    out = np.empty_like(s)
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf marks the row for the kernel
        bad = kernels.softmax(s - s.max(axis=1, keepdims=True), 1.0, out)
    if bad >= 0:
        raise RowError("logits", "give finite scores", "a score beyond float64", bad)
    return out


def log_softmax(z: Float64) -> Float64:
    """The logarithm of the softmax, also where the softmax underflows."""
    d: Float64 = z - z.max(axis=1, keepdims=True)
    d -= np.log(np.exp(d).sum(axis=1, keepdims=True))
    return d


def unmasked(z: Float64) -> Float64:
    """The logits with 0 for a masked class, so that it adds nothing to a product."""
    return np.where(np.isneginf(z), 0.0, z)


def data_warnings(rows: Rows) -> tuple[str, ...]:
    """Warnings about too few rows and absent classes."""
    n, k = rows.z.shape
    warnings = []
    if n < k:
        warnings.append(f"There are fewer rows ({n}) than classes ({k}).")
    absent = k - len(np.unique(rows.y))
    if absent:
        warnings.append(
            f"{absent} of {k} classes never occur in the labels, so little is known about them."
        )
    return tuple(warnings)


def minimize(
    value: Callable[[Float64], tuple[float, Float64]], first: Float64, **options: Any
) -> Any:
    """SciPy's minimum of a function that returns its value and gradient, from `first` on."""
    return require("scipy.optimize", "scaling", "fitting").minimize(
        value, first, jac=True, **options
    )
