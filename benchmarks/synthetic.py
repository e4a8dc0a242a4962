"""Logits of an over-confident network that never was, with labels that fit them.

A calibrated posterior first: for row i a class c_i, drawn evenly, stands a margin m_i above
normal noise of spread 1.5, with m_i normal around 6 + ¾ log k with deviation 3, so that some rows
are easy and some are hopeless. Labels are drawn from its softmax. The logits are the posterior's
times T* = 2, so the labeled optimum is close to 2, the accuracy .80 (k = 1000) to .90 (k = 10),
and the mean confidence .95 or above.
"""

import math
from typing import Any

import numpy as np

SHARPNESS = 2.0
SPREAD = 1.5
_BLOCK = 4096


def fill(z: Any, rng: np.random.Generator) -> Any:
    """Overwrite float32 rows with logits, without a temporary of their size."""
    n, k = z.shape
    rng.standard_normal(out=z, dtype=np.float32)
    z *= np.float32(SPREAD)
    z[np.arange(n), rng.integers(k, size=n)] += rng.normal(6 + 0.75 * math.log(k), 3, size=n)
    z *= np.float32(SHARPNESS)
    return z


def labels_of(z: Any, rng: np.random.Generator) -> Any:
    """One label per row, drawn from softmax(z / T*) by the Gumbel-max trick."""
    y = np.empty(len(z), np.int64)
    for start in range(0, len(z), _BLOCK):
        part = z[start : start + _BLOCK] / SHARPNESS
        y[start : start + _BLOCK] = (part + rng.gumbel(size=part.shape)).argmax(axis=1)
    return y


def labeled(n: int, k: int, seed: int) -> tuple[Any, Any]:
    """Logits (n, k) in float32 and their labels."""
    rng = np.random.default_rng(seed)
    z = fill(np.empty((n, k), np.float32), rng)
    return z, labels_of(z, rng)
