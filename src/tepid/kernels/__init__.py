"""Sums over one batch of rows, in two tiers with the same sums: NumPy, and numba for large work.

This module is the only door; `tiers` holds the rule and its measured constants. A kernel takes one
C-ordered batch and adds into arrays that the caller owns. It returns the first row that cannot be
used, or -1. The NumPy tier (`array_sums`, `array_scores`) also serves arrays that NumPy cannot
read, such as tensors on a GPU. The numba tier (`compiled`) releases the GIL and is cached on disk.
Logits are float32, except for `softmax`: `validation.as_kernel_input` first subtracts each row's
maximum from other types, which does not change the softmax.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tepid.kernels import array_scores, array_sums, tiers
from tepid.kernels.array_sums import bins_of as bins_of
from tepid.kernels.limits import FEW_CLASSES, FEW_SERVED
from tepid.kernels.tiers import expecting as expecting
from tepid.validation import Array, Float32, Float64, Int64


def tail_sums(z: Any, weight: Float64, out: Float64) -> int:
    """Add, per class: predicted weight; S and S² where not predicted; S where predicted."""
    name = "narrow_tail_sums" if z.shape[1] <= FEW_CLASSES else "wide_tail_sums"
    work = tiers.CALL + tiers.TAIL * z.shape[0] * z.shape[1]
    return int(_call(name, array_sums.tail_sums, work, z, _own(weight), out))


def curve_sums(
    z: Any, weight: Float64, thresholds: Array, labels: Int64, unit: np.float32, scales: Float32,
    lengths: Int64, totals: Float64, per: Float64, curves: Float64, confidence: Float64,
    histogram: Float64,
) -> int:  # fmt: skip
    """Add a batch to the sums of a curve, in units of `x = unit * (z - max z)`.

    totals: rows, weight, weight/classes, weight/ties, weight·mean x, weight². per[w]: pairs, Σc,
    Σc², pairs·mean x, where c sums x over a row's pairs. curves[q, w]: Σ a log s, a E[x], a Var[x],
    (a E[x])², a E[x] c. confidence[q]: doubt, slope, curvature, doubt². histogram[q, :, bin]:
    weight, confidence, correct.
    """
    n, k = z.shape
    name = "narrow_curve_sums" if k <= FEW_CLASSES else "wide_curve_sums"
    work = len(confidence) * (tiers.CALL_NODE + tiers.NODE * (k + tiers.ROW) * n)
    return int(
        _call(
            name, array_sums.curve_sums, work, z, _own(weight), thresholds, _own(labels), unit,
            scales, lengths, totals, per, curves, confidence, histogram,
        )
    )  # fmt: skip


def served_sums(
    z: Any, unit: np.float32, scale: np.float32, threshold: np.float32, bins: int, vector: Float64
) -> int:
    """Add a batch to a monitor's vector: totals, confidence and histogram of the node, tails.

    These stand one behind the other, as `curve_sums` has them without pairs and `tail_sums` has
    them, and then what `accepted_sums` adds.
    """
    name = "narrow_served_sums" if z.shape[1] <= FEW_SERVED else "wide_served_sums"
    work = tiers.CALL + tiers.SERVED * z.shape[0] * z.shape[1]
    return int(_call(name, array_sums.served_sums, work, z, unit, scale, threshold, bins, vector))


def accepted_sums(
    z: Any, unit: np.float32, scale: np.float32, threshold: np.float32, accepted: Float64
) -> None:
    """Add the number of rows whose confidence is at least the threshold, and their confidence.

    Every row must be usable.
    """
    work = tiers.SCORE * z.shape[0] * z.shape[1]
    _call("accepted_sums", array_sums.accepted_sums, work, z, unit, scale, threshold, accepted)


def member_sums(
    z: Float32,
    weight: Float64,
    thresholds: Float32,
    edges: Float32,
    members: Float64,
    histogram: Float64,
) -> int:
    """Add, per class, the weight of M_k; and by bin of S_k the predicted, added and other rows."""
    arguments = (z, _own(weight), thresholds, edges, members, histogram)
    return int(_call("member_sums", array_scores.member_sums, tiers.MEMBER * z.size, *arguments))


def class_sums(
    z: Float32,
    weight: Float64,
    labels: Int64,
    beta: float,
    best: Int64,
    confidence: Float64,
    per: Float64,
    by_bin: Float64,
) -> int:
    """Write each row's prediction and confidence; add, per class, what they and the labels say.

    `per` is weight and confidence where k is predicted, weight where it is the label, and where it
    is both, and the probability of k; without labels the third and fourth are not added. `by_bin`
    is the probability of k and whether it is the label, by bin of that probability.
    """
    arguments = (z, _own(weight), _own(labels), beta, best, confidence, per, by_bin)
    return int(_call("class_sums", array_scores.class_sums, tiers.SCORE * z.size, *arguments))


def score_sums(
    z: Float32, weight: Float64, labels: Int64, beta: float, totals: Float64, histogram: Float64
) -> int:
    """Add a batch: totals rows, weight, NLL, Brier; per bin weight, confidence, correct."""
    arguments = (z, _own(weight), _own(labels), beta, totals, histogram)
    return int(_call("score_sums", array_scores.score_sums, tiers.SCORE * z.size, *arguments))


def class_gaps(p: Float64, labels: Int64, weight: Float64, gaps: Float64) -> None:
    """Add, per class and bin of its probability, how much more often it is said than true."""
    arguments = (_own(p), _own(labels), _own(weight), gaps)
    _call("class_gaps", array_scores.class_gaps, tiers.GAPS * p.size, *arguments)


def softmax(z: Array, beta: float, out: Array) -> int:
    """Write the softmax of beta * z, computed in float64: the order of a row's logits stays."""
    name = _SOFTMAX[z.dtype.char, out.dtype.char]
    return int(_call(name, array_scores.softmax, tiers.SOFTMAX * z.size, z, beta, out))


_SOFTMAX = {("f", "f"): "softmax_ff", ("f", "d"): "softmax_fd", ("d", "d"): "softmax_dd"}


def residuals(s: Float64, labels: Int64, weight: Float64) -> float:
    """Turn scores into weight * (softmax - one hot), in place, and return the weighted NLL.

    The NLL is infinite where a row has no finite maximum; what the scores are then is not defined.
    """
    arguments = (s, _own(labels), _own(weight))
    return float(_call("residuals", array_scores.residuals, tiers.SCORE * s.size, *arguments))


def _call(name: str, plain: Callable[..., Any], seconds: float, *arguments: Any) -> Any:
    """Call a kernel in the tier that serves it; `seconds` are what the compiled one would save."""
    if type(arguments[0]) is np.ndarray:
        compiled = tiers.choose(name, seconds, arguments)
        if compiled is not None:
            return compiled(*arguments)
    with np.errstate(all="ignore"):  # inf - inf marks a row that cannot be used
        return plain(*arguments)


def _own(column: Any) -> Any:
    # For numba a read-only array is another type, for which it would compile another kernel.
    return column if column.flags.writeable else column.copy()
