"""An array in a file, cut into ranges of rows that can be read alone, on other machines too."""

import dataclasses
import hashlib
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from tepid import shapes
from tepid.sources import files, places
from tepid.sources.block import Block, Part, Source

# A part of this many logits is some seconds' work for one processor at most.
_LOGITS_PER_PART = 1 << 26


def with_ranges(source: Source, array: Any, place: str) -> Source:
    """The same source, with parts where it is a plain array (n, k) of a file that is mapped."""
    if not isinstance(array, np.memmap) or array.ndim > 2 or source.lead != array.shape[:1]:
        return source
    rows = max(1, _LOGITS_PER_PART // max(1, math.prod(array.shape[1:])))
    parts = tuple(
        _part(places.absolute(place), source.name, start, min(start + rows, len(array)))
        for start in range(0, len(array), rows)
    )
    return dataclasses.replace(source, parts=parts)


def _part(place: str, name: str, start: int, stop: int) -> Part:
    return Part(
        f"{name}, rows {start} to {stop - 1}",
        partial(_blocks, place, name, start, stop),
        stop - start,
        partial(_digest, place, start, stop),
    )


def _blocks(place: str, name: str, start: int, stop: int, rows: int) -> Iterator[Block]:
    array = files.open_array(place, "logits", "logits file").array[start:stop]
    at = start
    for piece in files.releasing(array, partial(shapes.slices, array))(rows):
        yield Block(piece, None, None, at - start, name, at=at)
        at += len(piece)


def _digest(place: str, start: int, stop: int) -> str:
    array = files.open_array(place, "logits", "logits file").array[start:stop]
    total = hashlib.sha256(f"{array.dtype} {array.shape}".encode())
    for piece in files.releasing(array, partial(shapes.slices, array))(1 << 16):
        total.update(np.ascontiguousarray(piece).data)
    return f"{array.nbytes}:{total.hexdigest()}"
