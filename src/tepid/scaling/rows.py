"""The rows that a calibrator is fitted to or called on, validated once."""

from typing import Any, NamedTuple

import numpy as np

from tepid import kernels, shapes, validation
from tepid.errors import InputError, RowError
from tepid.sources import open_source
from tepid.validation import Array, Float64, Int64

_FAR = float(np.finfo(np.float32).max)


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
