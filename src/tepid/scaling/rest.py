"""One class against the rest: calibrated columns made into rows that sum to one again."""

import numpy as np

from tepid.arrays import Float64


def renormalised(columns: Float64, p: Float64) -> Float64:
    """Rows that sum to one; a row without anything left falls back to its uncalibrated softmax p.

    No row of a fit is left so, for its own hit counts where it lies; other rows may be.
    """
    total = columns.sum(axis=1, keepdims=True)
    return np.where(total > 0, columns / np.where(total > 0, total, 1.0), p)
