"""What a block of rows adds class by class: who is drawn into M_k, and what each class is worth.

Each kernel adds into arrays that the caller owns and returns the first row it cannot use, or -1.
"""

from typing import Any

import numpy as np

from tepid.kernels import wide
from tepid.kernels.elementary import exp32, exp64, kernel, step
from tepid.kernels.narrow import ONE, ZERO
from tepid.kernels.scores import bin_of

PREDICTED, DRAWN, REST = 0, 1, 2


@step
def _exponentials(z: Any, top: Any, e: Any) -> Any:
    total = ZERO
    for j in range(z.shape[0]):
        v = exp32(z[j] - top)
        e[j] = v
        total += v
    return total


@step
def _between(edges: Any, s: Any) -> int:
    """How many edges lie at or below s; all are compared, which is quicker than to branch."""
    count = ZERO
    for m in range(edges.shape[0]):
        count += ONE if edges[m] <= s else ZERO
    return int(count)


@kernel
def member_sums(
    z: Any, weight: Any, thresholds: Any, edges: Any, members: Any, histogram: Any
) -> int:
    """Add, per class: the weight of M_k; by bin of S_k, that predicted, drawn in, and the rest."""
    e = np.zeros(z.shape[1], np.float32)
    for i in range(z.shape[0]):
        top, best = wide.peak(z[i])
        if best < 0:
            return i
        total = _exponentials(z[i], top, e)
        u = weight[i]
        for j in range(z.shape[1]):
            # As in `wide.members`, so that the pairs are those that the curve sums.
            inside = e[j] > ZERO and e[j] >= thresholds[j] * total
            kind = DRAWN if inside else REST
            histogram[j, PREDICTED if j == best else kind, _between(edges, e[j] / total)] += u
            if inside:
                members[j] += u
    return -1


@step
def _wide_exponentials(z: Any, top: Any, beta: float, e: Any) -> float:
    total = 0.0
    for j in range(z.shape[0]):
        v = exp64((np.float64(z[j]) - top) * beta)
        e[j] = v
        total += v
    return total


@step
def _by_class(e: Any, total: float, label: int, u: float, out: Any) -> None:
    """Add p_k and whether k is the label, by bin of p_k, for every class k."""
    bins = out.shape[2]
    first = 1.0 / bins
    for j in range(e.shape[0]):
        p = e[j] / total
        b = 0 if p <= first else bin_of(p, bins)
        out[j, 0, b] += u * p
        if j == label:
            out[j, 1, b] += u


@kernel
def class_sums(
    z: Any, weight: Any, labels: Any, beta: float, best: Any, confidence: Any, per: Any, by_bin: Any
) -> int:
    """Write each row's prediction and confidence; add, per class, what they and the labels say.

    `per` is weight and confidence where k is predicted, weight where it is the label, and where it
    is both; without labels only the first two are added.
    """
    e = np.empty(z.shape[1])
    for i in range(z.shape[0]):
        top, first = wide.peak(z[i])
        if first < 0:
            return i
        total = _wide_exponentials(z[i], top, beta, e)
        u = weight[i]
        best[i], confidence[i] = first, 1.0 / total
        per[0, first] += u
        per[1, first] += u / total
        if len(labels):
            per[2, labels[i]] += u
            if labels[i] == first:
                per[3, first] += u
            _by_class(e, total, labels[i], u, by_bin)
    return -1
