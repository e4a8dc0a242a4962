"""Where the classes are, and how an array of any shape is cut into small batches of rows."""

import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from tepid.errors import InputError


def class_last(logits: Any, class_axis: int | None = None) -> Any:
    """A view with the classes on the last axis; binary logits stay as they are."""
    if class_axis is None:
        if logits.ndim > 2:
            raise InputError(
                f"logits must have two dimensions, or class_axis must say where the classes are, "
                f"got shape {tuple(logits.shape)}"
            )
        if logits.ndim == 0:
            raise InputError("logits must have one row per sample, got a single number")
        return logits
    try:
        axis = operator.index(class_axis)
    except TypeError:
        axis = logits.ndim
    if not -logits.ndim <= axis < logits.ndim or logits.ndim < 2:
        raise InputError(
            f"class_axis must be an axis of logits, "
            f"got {class_axis!r} for shape {tuple(logits.shape)}"
        )
    return _moved(logits, class_axis, -1)


def _moved(array: Any, source: int, target: int) -> Any:
    # A tensor, on whatever device, moves its own axes.
    move = getattr(array, "movedim", None)
    return np.moveaxis(array, source, target) if move is None else move(source, target)


def joined(batches: list[Any]) -> Any:
    """All batches as one array."""
    return np.concatenate([matrix(batch) for batch in batches])


def class_back(array: Any, class_axis: int | None) -> Any:
    """An array with its classes last, with them where `class_last` found them."""
    return array if class_axis is None else _moved(array, -1, class_axis)


def class_count(logits: Any) -> int:
    """How many classes an array with its classes last has; binary logits have two."""
    if logits.ndim > 1 and not logits.shape[-1]:
        raise InputError("logits must have at least two classes, got none")
    return 2 if logits.ndim == 1 or logits.shape[-1] == 1 else int(logits.shape[-1])


def check_classes(logits: Any, classes: int) -> None:
    """Refuse an array with its classes last that has other classes than the calibration."""
    if logits.ndim == 1 and classes > 2:
        raise InputError(
            f"logits must be (n, {classes}), or logits[None] for one row, "
            f"got shape {tuple(logits.shape)}"
        )
    found = class_count(logits)
    if found != classes:
        raise InputError(f"logits must have the {classes} classes of the calibration, got {found}")


# One batch: large against the cost of a call, small against memory.
_LOGITS_PER_BATCH = 1 << 20


def rows_per_batch(classes: int) -> int:
    """How many rows make a batch."""
    return max(1, _LOGITS_PER_BATCH // max(classes, 1))


def parts(shape: tuple[int, ...], rows: int) -> Iterator[tuple[Any, ...]]:
    """Index an array of rows, (n,) or (n, …), so that each part holds about `rows` of them."""
    inner = math.prod(shape[1:])
    if inner > rows:
        for i in range(shape[0]):
            for rest in parts(shape[1:], rows):
                yield (i, *rest)
        return
    step = max(1, rows // max(inner, 1))
    for start in range(0, shape[0], step):
        yield (slice(start, start + step),)


def slices(logits: Any, rows: int) -> Iterator[Any]:
    """An array with its classes last, as views or small copies (m,) or (m, k)."""
    if logits.ndim == 1:
        for part in parts(logits.shape, rows):
            yield logits[part]
        return
    for part in parts(logits.shape[:-1], rows):
        yield logits[part].reshape(-1, logits.shape[-1])


def matrix(logits: Any) -> Any:
    """Logits as (n, k): (n,) and (n, 1) are binary logits z, which stand for the pair (0, z)."""
    if logits.ndim == 1:
        logits = logits[:, None]
    if logits.ndim != 2:
        raise InputError(f"logits must have two dimensions, got shape {tuple(logits.shape)}")
    if class_count(logits) != logits.shape[1]:
        if hasattr(logits, "__array_namespace__") and not isinstance(logits, np.ndarray):
            xp = logits.__array_namespace__()
            return xp.concat([xp.zeros_like(logits), logits], axis=1)
        if hasattr(logits, "new_zeros"):  # a tensor, which stays on its device
            both = logits.new_zeros((len(logits), 2))
        else:
            both = np.zeros((len(logits), 2), np.result_type(logits.dtype, np.float32))
        both[:, 1:] = logits
        return both
    return logits
