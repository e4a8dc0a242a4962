"""Bytes that Snappy made fewer, made whole again.

A varint says how many they are. Then come elements, each with a tag whose low bits say its kind: a
literal (0) is bytes as they are; a copy (1, 2, 3) repeats bytes from so far `back`, which may be
less than it is long. Whatever comes from a file is measured before anything is moved.
"""

from typing import Any

import numpy as np

from tepid.kernels.elementary import kernel, step
from tepid.kernels.moving import move
from tepid.kernels.packed import number, varint

_LITERAL, _NEAR = 0, 1
_SHORT = 60  # a longer literal has its length in one to four bytes behind the tag
_WIDE = 16  # bytes at a time, one register


@kernel
def expanded(data: Any, out: Any) -> bool:
    """Fill `out` with what `data` stands for; False where it does not or is no such thing."""
    return expand(data, out)


@step
def expand(data: Any, out: Any) -> bool:
    """The same, within another kernel."""
    size, at = varint(data, 0)
    if size != len(out):
        return False
    done = 0
    while at < len(data):
        tag = np.int64(data[at])
        at += 1
        if tag & 3 == _LITERAL:
            at, count = _literal(data, at, tag >> 2, out, done)
        else:
            at, count = _copy(data, at, tag, out, done)
        if count == 0:
            return False
        done += count
    return done == len(out)


@step
def _literal(data: Any, at: int, short: int, out: Any, done: int) -> tuple[int, int]:
    """What follows a literal and how many bytes it has, once they are moved; 0 if it is bad."""
    count = short + 1
    if count > _SHORT:
        size = count - _SHORT
        count = number(data, at, size) + 1
        at += size
    if count > len(out) - done or count > len(data) - at:
        return at, 0
    if count <= _WIDE <= min(len(data) - at, len(out) - done):
        move(out, done, data, at, _WIDE)  # of a size that is known, so no call
    else:
        move(out, done, data, at, count)
    return at + count, count


@step
def _copy(data: Any, at: int, tag: int, out: Any, done: int) -> tuple[int, int]:
    """What follows a copy and how many bytes it has, once they are moved; 0 if it is bad."""
    if tag & 3 == _NEAR:
        size, count = 1, 4 + ((tag >> 2) & 7)
        back = (tag >> 5 << 8) | number(data, at, size)
    else:
        size, count = 2 if tag & 3 == 2 else 4, 1 + (tag >> 2)
        back = number(data, at, size)
    at += size
    if at > len(data) or not 0 < back <= done or count > len(out) - done:
        return at, 0
    i = 0
    if count + _WIDE <= len(out) - done:
        # What is repeated from near by is also repeated from further off.
        far = back * max(1, (_WIDE + back - 1) // back)
        while i < min(count, far - back):
            out[done + i] = out[done + i - back]
            i += 1
        while i < count:
            move(out, done + i, out, done + i - far, _WIDE)
            i += _WIDE
    while i < count:
        out[done + i] = out[done + i - back]
        i += 1
    return at, count
