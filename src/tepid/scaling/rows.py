"""The rows that a calibrator is fitted to or called on, checked once."""

from typing import Any, NamedTuple

import numpy as np

from tepid import arrays, shapes
from tepid.arrays import Float64, Int64
from tepid.errors import InputError, RowError
from tepid.kernels import scores
from tepid.sources import open_source

_FAR = float(np.finfo(np.float32).max)


class Rows(NamedTuple):
    """Logits (n, k) as they were given, in float64, with labels and weights above zero."""

    z: Float64
    y: Int64
    u: Float64


def labelled(
    logits: Any,
    labels: Any,
    sample_weight: Any,
    class_axis: int | None,
    *,
    columns: Any = None,
    probabilities: bool = False,
) -> Rows:
    """All rows that weigh something; refuses what cannot be used, naming the row."""
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
    u = arrays.weight_column(given.weight, len(given.logits))
    kept = np.flatnonzero(u)
    if not len(kept):
        raise InputError("sample_weight must not be zero for every row, got only zeros")
    try:
        z = usable(given.logits if u.all() else given.logits[kept])
    except RowError as error:
        raise error.moved(int(kept[error.row]) - error.row, source.name) from None
    y = arrays.label_column(given.labels, len(given.logits), z.shape[1], weight=u)[kept]
    masked = np.isneginf(z[np.arange(len(z)), y])
    if masked.any():
        row = int(masked.argmax())
        got = f"class {y[row]}, whose logit is -inf,"
        raise RowError("labels", "name a class that is not masked", got, int(kept[row]))
    return Rows(z, y, u[kept])


def usable(logits: Any) -> Float64:
    """Logits as float64 (n, k), `-inf` where a class is masked; refuses NaN and what is too far."""
    narrow = logits.dtype.itemsize <= np.float32().itemsize and logits.dtype.kind not in "iu"
    z: Float64 = np.asarray(shapes.matrix(logits)).astype(np.float64)
    top = z.max(axis=1)
    bad = ~np.isfinite(top)
    if bad.any():
        raise arrays.unusable(z, int(bad.argmax()))
    if not narrow:
        far = np.abs(top) > _FAR
        if far.any():
            row = int(far.argmax())
            raise RowError("logits", f"lie within {_FAR:g} of zero", f"{top[row]:g}", row)
        arrays.centred(z)
    return z


def softmax(s: Float64) -> Float64:
    """The softmax of each row, exactly 0 where it is `-inf`."""
    out = np.empty_like(s)
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf marks the row for the kernel
        bad = scores.softmax(s - s.max(axis=1, keepdims=True), 1.0, out)
    if bad >= 0:
        raise RowError("logits", "give finite scores", "a score beyond float64", bad)
    return out


def unmasked(z: Float64) -> Float64:
    """The logits with 0 for a masked class, so that it adds nothing to a product."""
    return np.where(np.isneginf(z), 0.0, z)


def about(rows: Rows) -> tuple[str, ...]:
    """What the amount of data says."""
    n, k = rows.z.shape
    said = []
    if n < k:
        said.append(f"There are fewer rows ({n}) than classes ({k}).")
    absent = k - len(np.unique(rows.y))
    if absent:
        said.append(
            f"{absent} of {k} classes never occur in the labels, so that little is known of them."
        )
    return tuple(said)
