"""Labels as scikit-learn has them, of any kind, and the columns they stand for."""

from typing import Any

import numpy as np

from tepid.arrays import Array, Int64
from tepid.errors import InputError, RowError

_NAMED = 10


def class_names(classes: Any, k: int) -> Array:
    """The names of k columns, each one once, or a refusal."""
    names = np.asarray(classes)
    if names.ndim != 1 or len(names) != k:
        raise InputError(f"classes must name each of the {k} columns, got shape {names.shape}")
    if len(set(names.tolist())) != k:
        raise InputError(f"classes must be {k} different names, got one twice")
    return names


def sorted_classes(y: Any, k: int) -> Array:
    """The distinct labels in order, which must be as many as the columns.

    Fewer cannot say which column is missing: of three, are 1 and 2 the last two or the first two?
    """
    names = np.unique(label_array(y))
    if len(names) != k:
        raise InputError(
            f"classes must be given unless y has all {k} classes, got {len(names)} in y"
        )
    return names


def label_array(y: Any, name: str = "y") -> Array:
    """Labels as one column, of any kind that can be sorted."""
    array = np.asarray(y)
    array = array.reshape(-1) if array.ndim == 2 and array.shape[1] == 1 else array
    if array.ndim != 1:
        raise InputError(f"{name} must be one column of labels, got shape {array.shape}")
    if len({type(label) for label in array.tolist()}) > 1:
        raise InputError(f"{name} must be labels of one kind, got several")
    return array


def columns(y: Any, classes: Array, n: int, name: str = "y") -> Int64:
    """The column of each of n labels."""
    array = label_array(y, name)
    if len(array) != n:
        raise InputError(f"{name} must have one entry for each of the {n} rows, got {len(array)}")
    distinct, inverse = np.unique(array, return_inverse=True)
    place = {label: column for column, label in enumerate(classes.tolist())}
    table = np.array([place.get(label, -1) for label in distinct.tolist()], np.int64)
    found: Int64 = table[inverse.reshape(-1)]
    if (found < 0).any():
        row = int((found < 0).argmax())
        known = ", ".join(map(str, classes[:_NAMED])) + (", …" if len(classes) > _NAMED else "")
        raise RowError(name, f"be one of the classes {known}", repr(array[row].item()), row)
    return found


def pair(given: Any, name: str) -> tuple[Any, Any]:
    """Rows and their labels, or a refusal."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InputError(f"{name} must be a pair of rows and labels, got {type(given).__name__}")
    return given[0], given[1]
