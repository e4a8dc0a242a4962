"""The softmax of scores, less the labels: the gradient of the NLL by the scores, in float64."""

from typing import Any

import numpy as np

from tepid.kernels.elementary import exp64, kernel, maximum, step


@step
def _residual_row(s: Any, label: int, weight: float) -> float:
    top = s[0]
    for j in range(s.shape[0]):
        top = maximum(top, s[j])
    if not np.isfinite(top):
        return np.inf
    own = s[label] - top
    total = 0.0
    for j in range(s.shape[0]):
        v = exp64(s[j] - top)
        s[j] = v
        total += v
    scale = weight / total
    for j in range(s.shape[0]):
        s[j] *= scale
    s[label] -= weight
    return weight * (np.log(total) - own)


@kernel
def residuals(s: Any, labels: Any, weight: Any) -> float:
    """Turn scores into weight * (softmax - one hot), in place, and return the weighted NLL.

    The NLL is infinite where a row has no finite maximum; the scores of that row are left.
    """
    loss = 0.0
    for i in range(s.shape[0]):
        loss += _residual_row(s[i], labels[i], weight[i])
    return loss
