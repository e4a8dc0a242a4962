"""Whole numbers in runs or packed bit by bit, as Parquet keeps levels and places in dictionaries.

A run is a varint, twice its length, and the number in whole bytes; a pack is a varint, twice its
octets plus one, and eight numbers of `width` bits in `width` bytes for each octet, the low bits
first.
"""

from typing import Any

import numpy as np

from tepid.kernels.elementary import kernel, step

_BYTE, _VARINT = 8, 35  # bits, and the most that a number in groups of seven may have


@kernel
def unpack(data: Any, width: int, out: Any) -> bool:
    """Fill `out` from bytes; False where they end before it is full or are no such thing."""
    at, done = 0, 0
    while done < len(out):
        packed, long, at, end = _run(data, at, width)
        if long == 0:
            return False
        stop = min(done + long, len(out))
        if packed:
            _pack(data[at:end], width, out[done:stop])
        else:
            out[done:stop] = _number(data, at, end - at)
        at, done = end, stop
    return True


@kernel
def regular(begins: Any, present: Any, highest: int, count: int, length: int, phase: int) -> bool:
    """Whether levels are those of lists of one length with nothing missing.

    The first of the `count` numbers is number `phase` of its list; levels are looked at as they are
    packed, a run or a byte at a time.
    """
    return _is_whole(present, highest, count) and _is_even(begins, count, length, phase)


@step
def _is_whole(data: Any, highest: int, count: int) -> bool:
    """Whether every level is the highest."""
    width = 0
    while highest >> width:
        width += 1
    level = np.empty(_BYTE, np.uint8)
    at, done = 0, 0
    while done < count:
        packed, long, at, end = _run(data, at, width)
        if long == 0 or (not packed and _number(data, at, end - at) != highest):
            return False
        stop = min(done + long, count)
        if packed:
            for first in range(done, stop, _BYTE):
                some = min(_BYTE, stop - first)
                _pack(data[at : at + width], width, level[:some])
                at += width
                for i in range(some):
                    if level[i] != highest:
                        return False
        at, done = end, stop
    return True


@step
def _is_even(data: Any, count: int, length: int, phase: int) -> bool:
    """Whether the level is 0 where a list begins and 1 everywhere else."""
    at, done = 0, 0
    ahead = (length - phase) % length  # numbers until the next list begins
    while done < count:
        packed, long, at, end = _run(data, at, 1)
        if long == 0:
            return False
        stop = min(done + long, count)
        if packed:
            for first in range(done, stop, _BYTE):
                wanted = 0xFF
                while ahead < _BYTE:
                    wanted ^= 1 << ahead
                    ahead += length
                ahead -= _BYTE
                used = 0xFF >> max(0, _BYTE - (stop - first))
                if (data[at] ^ wanted) & used:
                    return False
                at += 1
        elif _number(data, at, end - at) == 1:
            ahead -= stop - done
            if ahead < 0:
                return False
        elif length > 1:
            if ahead or stop - done > 1:
                return False
            ahead = length - 1
        at, done = end, stop
    return True


@step
def _run(data: Any, at: int, width: int) -> tuple[bool, int, int, int]:
    """Whether numbers are packed, how many, where they are and where they end; none if bad."""
    head, at = _varint(data, at)
    long = head >> 1
    end = at + (long * width if head & 1 else (width + _BYTE - 1) // _BYTE)
    if end > len(data):
        return False, 0, at, at
    return bool(head & 1), long * (_BYTE if head & 1 else 1), at, end


@step
def _number(data: Any, at: int, width: int) -> int:
    """A number in so many bytes, the low ones first; what is beyond the end counts as 0."""
    value = 0
    for i in range(min(width, len(data) - at)):
        value |= int(data[at + i]) << (_BYTE * i)
    return value


@step
def _varint(data: Any, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the low ones first, and where it ends; 0 if it does not."""
    value = shift = 0
    while at < len(data) and shift < _VARINT:
        value |= (int(data[at]) & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
        shift += 7
    return 0, at


@step
def _pack(data: Any, width: int, out: Any) -> None:
    held, bits, at = np.uint64(0), 0, 0
    mask = np.uint64((1 << width) - 1)
    for i in range(len(out)):
        while bits < width:
            held |= np.uint64(data[at]) << np.uint64(bits)
            bits += _BYTE
            at += 1
        out[i] = held & mask
        held >>= np.uint64(width)
        bits -= width
