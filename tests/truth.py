"""Temperatures by another road: float64, SciPy's root finder, the definitions as written."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax


def uts_pairs(z, deviations=1.0):
    """The pairs (row, class) of the paper's eq. 6 and 8 as a 0/1 matrix."""
    s = softmax(z.astype(np.float64), axis=1)
    outside = np.arange(z.shape[1]) != z.argmax(axis=1)[:, None]
    theta = np.zeros(z.shape[1])
    for k in range(z.shape[1]):
        values = s[outside[:, k], k]
        theta[k] = values.mean() + deviations * values.std() if len(values) else 0.0
    return (s >= theta * (1 - 2.0**-20)) & (s > 0)


def label_pairs(z, y):
    return np.arange(z.shape[1]) == np.asarray(y)[:, None]


def least_loss(z, pairs, low=1e-3, high=1e3):
    """The T at which the loss over the pairs is least."""
    d = z.astype(np.float64) - z.max(axis=1, keepdims=True)
    weight, pull = pairs.sum(axis=1), d[pairs].sum()

    def slope(log_t):
        p = softmax(d / np.exp(log_t), axis=1)
        return pull - (weight * (p * d).sum(axis=1)).sum()

    return np.exp(brentq(slope, np.log(low), np.log(high), xtol=1e-13, rtol=1e-13))


def matching(z, accuracy, low=1e-3, high=1e3):
    """The T at which the mean confidence is the accuracy."""
    z = z.astype(np.float64)

    def gap(log_t):
        return accuracy - softmax(z / np.exp(log_t), axis=1).max(axis=1).mean()

    return np.exp(brentq(gap, np.log(low), np.log(high), xtol=1e-13, rtol=1e-13))
