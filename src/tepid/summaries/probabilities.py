"""Probabilities of logits at a temperature, in float64."""

from typing import Any

import numpy as np

from tepid import kernels, validation
from tepid.validation import Float64


def softmax(logits: Any, temperature: float = 1.0) -> Float64:
    """The softmax of logits / T as (n, k) in float64; raises and names the row if one is invalid.

    >>> softmax([[0.0, 4.0]], 2.0)
    array([[0.119, 0.881]])
    """
    z = validation.as_array(logits)
    block = validation.as_kernel_input(z)
    p = np.empty(block.shape)
    bad = kernels.softmax(block, 1.0 / temperature, p)
    if bad >= 0:
        raise validation.unusable(z, bad)
    return p
