"""Plain pages of a column of lists in Parquet, read and taken apart in one call.

Between two calls from Python a thread waits until another lets go of the interpreter, so that two
threads that decode page by page each take twice as long. Here a block of pages is one call.
"""

from typing import Any

import numpy as np

from tepid.kernels.codes import DATA, DATA_2, HEAD, INNER, PLAIN, RUNS, SNAPPY
from tepid.kernels.elementary import kernel, step
from tepid.kernels.moving import move, read
from tepid.kernels.packed import number, regular_levels, varint
from tepid.kernels.snappy import expand

# Thrift's compact protocol: how the value of a field is written.
_TRUE, _FALSE, _BYTE, _WHOLE, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, (4, 5, 6), 7, 8, 12
_DEEPEST = 4


@kernel
def head(data: Any, fields: Any) -> int:
    """Where the head of a page ends, or -1 if it does not; `fields` that it lacks become -1."""
    return _head(data, fields)


@kernel
def taken(
    descriptor: int, at: int, before: int, codec: int,
    width: int, classes: int, highest: int, done: int, total: int,
    out: Any, data: Any, page: Any, fields: Any,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Fill `out` with numbers of `width` bytes from pages that begin `at` some byte of a file.

    `done` of a column's `total` numbers come before them, and the page before had about as many
    bytes as `before`. A page that is not plain, not regular or too large for `data` or `page` is
    left alone. Returns where the next page is, how many numbers there were, where in `page` those
    are that did not go into `out`, and how large the last page was.
    """
    room, made, rest = len(out) // width, 0, 0
    while made < room and done < total:
        begun, end = _page(descriptor, at, before, data, fields)
        whole, length = fields[2], fields[INNER + 1]
        levels = whole - length * width
        if end < 0 or not 0 < length <= total - done or not 0 <= levels <= whole <= len(page):
            break
        # Where it fits, a page goes straight to its place, its levels over the numbers before it,
        # which are kept elsewhere until the levels have been looked at.
        here, some = made * width - levels, min(length, room - made)
        straight = here >= 0 and some == length
        into = out[here : here + whole] if straight else page[:whole]
        if straight:
            move(page, 0, out, here, levels)
        good = _whole(data[begun:end], codec, levels, into, fields)
        if good:
            begins, present = _levels(into[:levels], fields)
            good = regular_levels(begins, present, highest, length, classes, done % classes)
        if straight:
            move(out, here, page, 0, levels)
        if not good:
            break
        if not straight:
            move(out, made * width, page, levels, some * width)
        made, done, rest = made + length, done + length, levels + some * width
        at, before = at + end, end
    return at, made, rest, before


@step
def _page(descriptor: int, at: int, before: int, data: Any, fields: Any) -> tuple[int, int]:
    """Read the page `at` some byte, its head into `fields`; where its body is in `data`, or -1."""
    got = read(descriptor, data, min(before + HEAD, len(data)), at)
    begun = _head(data[: max(got, 0)], fields)
    end = begun + fields[3]
    if begun < 0 or fields[3] < 0 or end > len(data):
        return -1, -1
    if end > got and read(descriptor, data, end, at) != end:
        return -1, -1
    return begun, end


@step
def _head(data: Any, fields: Any) -> int:
    fields[:] = -1
    numbers = np.zeros(_DEEPEST, np.int64)
    depth, at = 0, 0
    while at < len(data):
        short, kind = np.int64(data[at]) >> 4, np.int64(data[at]) & 15
        at += 1
        if kind == 0:
            if depth == 0:
                return at
            depth -= 1
            continue
        if short:
            numbers[depth] += short
        else:
            numbers[depth], at = _signed(data, at)
        value = -1
        if kind in _WHOLE:
            value, at = _signed(data, at)
        elif kind == _BINARY:
            size, at = varint(data, at)
            at += size
        elif kind in (_TRUE, _FALSE):
            value = kind == _TRUE
        elif kind == _BYTE:
            at += 1
        elif kind == _DOUBLE:
            at += 8
        elif kind != _STRUCT:
            return -1
        if depth < 2 and 0 < numbers[depth] < INNER:
            fields[INNER * depth + numbers[depth]] = value
        if kind == _STRUCT:
            depth += 1
            if depth == _DEEPEST:
                return -1
            numbers[depth] = 0
    return -1


@step
def _signed(data: Any, at: int) -> tuple[int, int]:
    """A whole number, its sign in its lowest bit."""
    value, at = varint(data, at)
    return (value >> 1) ^ -(value & 1), at


@step
def _whole(body: Any, codec: int, levels: int, into: Any, fields: Any) -> bool:
    """Fill `into` with a page as it was before it was compressed; False if it cannot be."""
    apart = _apart(levels, fields)
    if not 0 <= apart <= len(body):
        return False
    move(into, 0, body, 0, apart)
    if codec == SNAPPY and not (fields[1] == DATA_2 and fields[INNER + 7] == 0):
        return expand(body[apart:], into[apart:])
    if len(body) != len(into):
        return False
    move(into, apart, body, apart, len(into) - apart)
    return True


@step
def _apart(levels: int, fields: Any) -> int:
    """How many bytes of levels are never compressed; -1 of a page that is not plain."""
    if fields[1] == DATA and fields[INNER + 2] == PLAIN:
        return 0 if fields[INNER + 3] == RUNS and fields[INNER + 4] == RUNS else -1
    if fields[1] == DATA_2 and fields[INNER + 4] == PLAIN:
        present, begins = fields[INNER + 5], fields[INNER + 6]
        return levels if min(present, begins) >= 0 and present + begins == levels else -1
    return -1


@step
def _levels(both: Any, fields: Any) -> tuple[Any, Any]:
    """The levels that say where lists begin and those that say what is there.

    None at all where their sizes are not those of what there is before the numbers.
    """
    if fields[1] == DATA_2:
        cut = fields[INNER + 6]
        return both[:cut], both[cut:]
    begins = 4 + number(both, 0, 4)
    if begins + 4 + number(both, begins, 4) != len(both):
        return both[:0], both[:0]
    return both[4:begins], both[begins + 4 :]
