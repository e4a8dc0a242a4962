"""Which rows of a stream are looked at: a coin for each, thrown by its number."""

import numpy as np

from tepid.arrays import Int64
from tepid.online.rules import Rules

_U64 = np.uint64
_GOLDEN, _FIRST, _SECOND = (
    _U64(0x9E3779B97F4A7C15),
    _U64(0xBF58476D1CE4E5B9),
    _U64(0x94D049BB133111EB),
)
_MASK = (1 << 64) - 1


def kept(start: int, count: int, rules: Rules) -> Int64:
    """The places of the rows kept among rows `start`, `start + 1`, … of a stream.

    Row i is kept if a hash of the seed and i (SplitMix64) lies below `sample`, so that the
    choice does not depend on how the rows are batched, and nothing but their count is remembered.
    """
    numbers = np.arange(start, start + count, dtype=np.uint64)
    numbers += _U64((rules.seed * int(_SECOND)) & _MASK)
    numbers *= _GOLDEN
    numbers ^= numbers >> _U64(30)
    numbers *= _FIRST
    numbers ^= numbers >> _U64(27)
    numbers *= _SECOND
    numbers ^= numbers >> _U64(31)
    uniform = (numbers >> _U64(11)).astype(np.float64) * 2.0**-53
    return np.flatnonzero(uniform < rules.sample)
