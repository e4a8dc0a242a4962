"""Inputs for a model, from arrays, files or a folder, in batches of the size that it takes."""

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tepid import arrays
from tepid.arrays import Array
from tepid.errors import InputError
from tepid.sources import array_files, paths

_MOST_ROWS = 256
_MOST_BYTES = 8 << 20
_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    **{
        f"tensor({name})": name
        for name in (
            "float16", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
            "uint64",
        )
    },
}  # fmt: skip


@dataclass(frozen=True)
class Input:
    """An input's name, its type as onnxruntime writes it, and its sizes, None where free."""

    name: str
    kind: str
    sizes: tuple[int | None, ...]

    def accepted(self, given: Any, where: str) -> Array:
        """The array in the input's type; only a change of width is made, never one of meaning."""
        name = f"input {self.name!r}{where}"
        if self.kind not in _TYPES:
            raise InputError(
                f"{name} must be an array of numbers, got a model that takes {self.kind}"
            )
        array = np.asarray(arrays.as_array(given, name))
        wanted = np.dtype(_TYPES[self.kind])
        alike = "iu" if wanted.kind in "iu" else wanted.kind
        if array.dtype.kind not in alike:
            raise InputError(f"{name} must be {wanted}, got {array.dtype}")
        sizes = list(zip(self.sizes[1:], array.shape[1:], strict=False))
        fits = array.ndim == len(self.sizes) and all(s in (None, n) for s, n in sizes)
        if not fits or array.ndim == 0:
            shape = ", ".join("n" if s is None else str(s) for s in (None, *self.sizes[1:]))
            raise InputError(f"{name} must have shape ({shape}), got {array.shape}")
        return array


def batches(
    data: Any, inputs: dict[str, Input], rows: int | None
) -> Iterator[tuple[dict[str, Array], int]]:
    """What to feed, and how many of its rows are meant; the rest only fills a batch."""
    if rows is not None and rows < 1:
        raise InputError(f"batch must be at least 1, got {rows}")
    fixed = [given.sizes[0] for given in inputs.values() if given.sizes and given.sizes[0]]
    for where, part in _parts(data, inputs):
        feed = {name: given.accepted(part[name], where) for name, given in inputs.items()}
        count = _rows(feed, where)
        size = int(fixed[0] or 1) if fixed else rows or _size(feed, count)
        for start in range(0, count, size):
            stop = min(start + size, count)
            took = np.arange(start, start + size) if fixed else np.arange(start, stop)
            chosen = {name: array[np.minimum(took, count - 1)] for name, array in feed.items()}
            yield _typed(chosen, inputs), stop - start


def _typed(feed: dict[str, Array], inputs: dict[str, Input]) -> dict[str, Array]:
    return {name: np.require(a, _TYPES[inputs[name].kind], ["C"]) for name, a in feed.items()}


def _rows(feed: dict[str, Array], where: str) -> int:
    counts = {name: len(array) for name, array in feed.items()}
    if len(set(counts.values())) != 1:
        got = ", ".join(f"{count} for {name!r}" for name, count in counts.items())
        raise InputError(f"inputs{where} must have equally many rows, got {got}")
    return next(iter(counts.values()))


def _size(feed: dict[str, Array], count: int) -> int:
    row = sum(array.dtype.itemsize * math.prod(array.shape[1:]) for array in feed.values())
    return max(1, min(_MOST_ROWS, count, _MOST_BYTES // max(row, 1)))


def _parts(data: Any, inputs: dict[str, Input]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Arrays by the name of the input, of each file or of all, and words that say of which."""
    if not inputs:
        raise InputError("model must take an input, got one that takes none")
    if not isinstance(data, (str, os.PathLike)):
        yield "", _mapping(data, inputs)
        return
    path = Path(data)
    if not path.is_dir():
        yield f" of {path.name}", _opened(path, inputs)
        return
    found = sorted(p for p in path.iterdir() if p.suffix.lower() in (".npy", ".npz"))
    if not found:
        raise InputError(f"data must be a folder of .npy or .npz files, got none in {path}")
    for file in found:
        yield f" of {file.name}", _opened(file, inputs)


def _mapping(data: Any, inputs: dict[str, Input]) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        if len(inputs) > 1:
            raise InputError(f"data must name the inputs {', '.join(inputs)}, got one array")
        return dict.fromkeys(inputs, data)
    missing = [name for name in inputs if name not in data]
    if missing:
        names = ", ".join(map(str, data)) or "none"
        raise InputError(f"data must have the inputs {', '.join(missing)}, got {names}")
    return data


def _opened(path: Path, inputs: dict[str, Input]) -> Mapping[str, Any]:
    named, member = paths.split_member(path)
    file = Path(named)
    if file.suffix.lower() not in (".npy", ".npz"):
        raise InputError(f"data must end in .npy or .npz or be a folder of such, got {file.name}")
    if len(inputs) > 1 and (member or file.suffix.lower() == ".npy"):
        raise InputError(f"{file.name} must have the members {', '.join(inputs)}, got one array")
    if len(inputs) == 1:
        name = next(iter(inputs))
        return {name: array_files.read_array(path, name, "data")}
    return {name: array_files.read_array(f"{file}#{name}", name, "data") for name in inputs}
