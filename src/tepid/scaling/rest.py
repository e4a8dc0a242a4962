"""One class against the rest: calibrated columns made into rows that sum to one again."""

import numpy as np

from tepid.arrays import Float64


def renormalised(columns: Float64, p: Float64) -> Float64:
    """Rows that sum to one; a row without anything left falls back to its uncalibrated softmax p.

    A masked class, whose p is 0 because its logit is `-inf`, was set to 0 before.
    """
    total = columns.sum(axis=1, keepdims=True)
    return np.where(total > 0, columns / np.where(total > 0, total, 1.0), p)


def about_fallen(columns: Float64) -> tuple[str, ...]:
    """How many rows of the fit have probability zero for every class."""
    fallen = int((columns.sum(axis=1) <= 0).sum())
    if not fallen:
        return ()
    sentence = (
        f"{fallen} of {len(columns)} rows have probability 0 for every class and fall back to "
        "their uncalibrated softmax."
    )
    return (sentence,)
