"""Sources over arrays: in memory, mapped, or in a file that is read a few rows at a time."""

import dataclasses
import math
from functools import partial
from typing import Any

import numpy as np

from tepid import arrays, shapes
from tepid.errors import InputError
from tepid.sources import files
from tepid.sources.block import Source
from tepid.sources.stored import File


def from_array(array: Any, name: str, class_axis: int | None) -> Source:
    """The rows of an array with its classes wherever they are."""
    z = shapes.class_last(array, class_axis)
    lead = z.shape if z.ndim == 1 else z.shape[:-1]
    read = partial(shapes.slices, z)
    binary = z.ndim == 1 or z.shape[-1] == 1
    return Source(read, name, math.prod(lead), shapes.class_count(z), lead, binary=binary)


def from_file(file: File, name: str, class_axis: int | None) -> Source:
    """The rows of a file."""
    if file.shape is not None:
        return _lazy(file, file.shape, name, class_axis)
    if file.array is None:
        if class_axis not in (None, 1, -1):
            raise InputError(f"class_axis must be left out for a table, got {class_axis}")
        return Source(file.read, name, None, file.classes, estimate=file.estimate)
    arrays.as_array(file.array, name)  # refuses what is no number
    source = from_array(file.array, name, class_axis)
    return dataclasses.replace(source, read=files.releasing(file.array, source.read))


def _lazy(file: File, shape: tuple[int, ...], name: str, class_axis: int | None) -> Source:
    arrays.as_array(np.zeros((), file.dtype), name)
    alike = np.broadcast_to(np.zeros((), file.dtype), shape)  # of that shape, in no memory
    source = from_array(alike, name, class_axis)
    in_rows = len(shape) <= 2 and class_axis in (None, -1, len(shape) - 1)
    if in_rows or file.whole is None:
        return dataclasses.replace(source, read=file.read)
    return from_array(file.whole(), name, class_axis)
