"""Which rows of a stream are looked at: a coin for each, thrown by its number."""

from functools import lru_cache

import numpy as np

from tepid.arrays import Int64
from tepid.online.rules import Rules

_U64 = np.uint64
_GOLDEN, _FIRST = _U64(0x9E3779B97F4A7C15), _U64(0xBF58476D1CE4E5B9)
_SECOND, _ALL = _U64(0x94D049BB133111EB), (1 << 64) - 1
# Coins are thrown for so many rows at a time: a batch of one row must not pay for its own throw.
_BLOCK = 1 << 14


def kept(start: int, count: int, rules: Rules) -> Int64:
    """The places of the rows kept among rows `start`, `start + 1`, … of a stream.

    Row i is kept if a hash of the seed and i (SplitMix64) lies below `sample`, so that the choice
    does not depend on how the rows are batched, and nothing but their count is remembered.
    """
    end = start + count
    blocks = range(start // _BLOCK, max(end - 1, start) // _BLOCK + 1)
    parts = [_kept(block, rules.sample, rules.seed) for block in blocks]
    numbers = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return numbers[numbers.searchsorted(start) : numbers.searchsorted(end)] - start


@lru_cache(maxsize=16)
def _kept(block: int, sample: float, seed: int) -> Int64:
    """The numbers of the rows kept in a block."""
    numbers = np.arange(block * _BLOCK, (block + 1) * _BLOCK, dtype=np.uint64)
    hashed = (numbers + _U64((seed * int(_SECOND)) & _ALL)) * _GOLDEN
    hashed = (hashed ^ (hashed >> _U64(30))) * _FIRST
    hashed = (hashed ^ (hashed >> _U64(27))) * _SECOND
    uniform = ((hashed ^ (hashed >> _U64(31))) >> _U64(11)).astype(np.float64) * 2.0**-53
    return numbers[uniform < sample].astype(np.int64)
