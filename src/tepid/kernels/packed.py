"""Whole numbers in runs or packed bit by bit, as Parquet keeps levels and places in dictionaries.

A run is a varint, twice its length, and the number in whole bytes; a pack is a varint, twice its
octets plus one, and eight numbers of `width` bits in `width` bytes for each octet, the low bits
first.
"""

from typing import Any

from tepid.kernels.elementary import kernel, step
from tepid.kernels.moving import word

_BYTE, _VARINT = 8, 35  # bits, and the most that a number in groups of seven may have
_COMPARED = 64  # bytes at once, as vector code


@kernel
def look_up(data: Any, width: int, known: Any, out: Any) -> bool:
    """Fill `out` with what is `known` at the places that `data` packs.

    False where they end before it is full, are beyond what is known or are no such thing.
    """
    at, done = 0, 0
    while done < len(out):
        packed, long, at, end = _run(data, at, width)
        stop = min(done + long, len(out))
        if long == 0:
            return False
        if packed:
            if not _look_up_pack(data[at:], width, known, out[done:stop]):
                return False
        else:
            place = number(data, at, end - at)
            if place >= len(known):
                return False
            out[done:stop] = known[place]
        at, done = end, stop
    return True


@kernel
def regular(begins: Any, present: Any, highest: int, count: int, length: int, phase: int) -> bool:
    """Whether levels are those of lists of one length with nothing missing.

    The first of the `count` numbers is number `phase` of its list; levels are looked at as they are
    packed, a run or a byte at a time.
    """
    return regular_levels(begins, present, highest, count, length, phase)


@step
def regular_levels(
    begins: Any, present: Any, highest: int, count: int, length: int, phase: int
) -> bool:
    """The same, within another kernel."""
    return _is_whole(present, highest, count) and _is_even(begins, count, length, phase)


@step
def _is_whole(data: Any, highest: int, count: int) -> bool:
    """Whether every level is the highest."""
    width = 0
    while highest >> width:
        width += 1
    at, done = 0, 0
    while done < count:
        packed, long, at, end = _run(data, at, width)
        if long == 0 or (not packed and number(data, at, end - at) != highest):
            return False
        stop = min(done + long, count)
        if packed:
            for i in range(stop - done):
                if _bits(data, at, i * width, width) != highest:
                    return False
        at, done = end, stop
    return True


@step
def _is_even(data: Any, count: int, length: int, phase: int) -> bool:
    """Whether the level is 0 where a list begins and 1 everywhere else.

    Where the next list is as far ahead as it was some bytes before, those bytes may come again and
    again; then they need only be the same. What is compared with is taken anew after 1, 2, 4 ...
    runs, so that it is within what is repeated at last.
    """
    at, done = 0, 0
    ahead = (length - phase) % length  # numbers until the next list begins
    mark_at, mark_done, mark_ahead = 0, 0, ahead
    runs, turn = 0, 1
    while done < count:
        if ahead == mark_ahead and at > mark_at:
            bytes_again, again = at - mark_at, done - mark_done
            times = min(_times(data, at, bytes_again), (count - done) // again)
            at, done = at + times * bytes_again, done + times * again
            if done == count:
                break
        if runs == turn:
            mark_at, mark_done, mark_ahead = at, done, ahead
            turn *= 2
        runs += 1
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
        elif number(data, at, end - at) == 1:
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
def _times(data: Any, at: int, size: int) -> int:
    """How many times what stands before `at`, in so many bytes, comes again after it."""
    again, before = data[at:], data[at - size : len(data) - size]
    same = 0
    while same + _COMPARED <= len(again):
        if _differ(again[same : same + _COMPARED], before[same : same + _COMPARED]):
            break
        same += _COMPARED
    while same < len(again) and again[same] == before[same]:
        same += 1
    return same // size


@step
def _differ(some: Any, others: Any) -> bool:
    found = False
    for i in range(_COMPARED):
        found |= some[i] != others[i]
    return found


@step
def _run(data: Any, at: int, width: int) -> tuple[bool, int, int, int]:
    """Whether numbers are packed, how many, where they are and where they end; none if bad."""
    head, at = varint(data, at)
    long = head >> 1
    end = at + (long * width if head & 1 else (width + _BYTE - 1) // _BYTE)
    if end > len(data):
        return False, 0, at, at
    return bool(head & 1), long * (_BYTE if head & 1 else 1), at, end


@step
def number(data: Any, at: int, width: int) -> int:
    """A number in so many bytes, the low ones first; what is beyond the end counts as 0."""
    value = 0
    for i in range(min(width, len(data) - at)):
        value |= int(data[at + i]) << (_BYTE * i)
    return value


@step
def varint(data: Any, at: int) -> tuple[int, int]:
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
def _bits(data: Any, at: int, bit: int, width: int) -> int:
    """The number of so many bits that is so many bits after the byte `at`."""
    return number(data, at + bit // _BYTE, 5) >> bit % _BYTE & ((1 << width) - 1)


@step
def _look_up_pack(data: Any, width: int, known: Any, out: Any) -> bool:
    mask = (1 << width) - 1
    for i in range(len(out)):
        at, bit = i * width // _BYTE, i * width % _BYTE
        if at + _BYTE <= len(data):
            place = word(data, at) >> bit & mask
        else:
            place = _bits(data, at, bit, width)
        if place >= len(known):
            return False
        out[i] = known[place]
    return True
