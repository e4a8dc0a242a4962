"""One bar for each class."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tepid.errors import InputError
from tepid.plots import canvas
from tepid.tails import Tails

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_NAMES = 40


def classes(
    values: Any,
    names: Sequence[str] | None = None,
    ax: "Axes | None" = None,
    *,
    label: str | None = None,
) -> "Axes":
    """A bar for each class, the first on top; what is not finite, such as NaN, has none.

    `values` is one number per class, or `Tails`, whose thresholds are drawn: how high a softmax
    must be to count for UTS. Beyond forty classes not every one is named.
    """
    if isinstance(values, Tails):
        values, label = values.thresholds(), label or "threshold of UTS"
    numbers = np.asarray(values, np.float64)
    if numbers.ndim != 1 or not len(numbers):
        raise InputError(f"values must be one number for each class, got shape {numbers.shape}")
    if names is not None and len(names) != len(numbers):
        raise InputError(f"names must have one for each of {len(numbers)} values, got {len(names)}")
    ax = canvas.axes(ax, height=min(1.2 + 0.25 * len(numbers), 9.0))
    there = np.flatnonzero(np.isfinite(numbers))
    ax.barh(there, numbers[there], color=canvas.BLUE)
    shown = range(0, len(numbers), -(-len(numbers) // _MOST_NAMES))
    ax.set_yticks(shown, [str(k if names is None else names[k]) for k in shown])
    ax.set_ylim(len(numbers) - 0.5, -0.5)
    ax.set(xlabel=label or "value", ylabel="class")
    return ax
