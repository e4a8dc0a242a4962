"""Made-up logits with labels, whose right calibration is known; NumPy alone."""

import numpy as np


def drifted(n=2000, k=4, seed=5):
    """Logits twice as large as they should be, with one class called too seldom: float64."""
    rng = np.random.default_rng(seed)
    posterior = 1.5 * rng.normal(size=(n, k))
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    logits = 2 * posterior
    logits[:, 1] -= 0.8
    return logits, labels


def crowded(n=1200, k=100, seed=6):
    """Many classes and few rows: logits twice as large as they should be."""
    rng = np.random.default_rng(seed)
    posterior = rng.normal(size=(n, k))
    posterior[np.arange(n), rng.integers(0, k, n)] += 6
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    return 2 * posterior, labels
