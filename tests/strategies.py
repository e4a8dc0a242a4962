"""Logits and the ways to cut them, for hypothesis."""

import numpy as np
from hypothesis import strategies as st

SHAPES = [
    (0, 3),
    (1, 2),
    (5, 2),
    (95, 3),
    (96, 10),
    (97, 10),
    (600, 7),
    (40, 112),
    (33, 113),
    (9, 200),
]


@st.composite
def logits(draw, dtypes=(np.float16, np.float32, np.float64)):
    """Ordinary, tied, constant, masked and extreme logits of several types."""
    n, k = draw(st.sampled_from(SHAPES))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    scale = draw(st.sampled_from([0.0, 0.01, 1.0, 5.0, 60.0]))
    z = scale * rng.normal(size=(n, k))
    if draw(st.booleans()):
        z = np.round(z)  # many ties
    if draw(st.booleans()) and n and k > 2:
        z[rng.random((n, k)) < 0.1] = -np.inf
        z[np.arange(n), rng.integers(0, k, n)] = 1.0
    return z.astype(draw(st.sampled_from(dtypes)))


@st.composite
def cuts(draw, n):
    """Where to cut n rows; equal neighbours make empty parts."""
    return sorted(draw(st.lists(st.integers(0, n), max_size=5)))


@st.composite
def scored(draw):
    """Labels and probabilities; rows may be alike, but in no row are two classes equally likely."""
    n, k = draw(st.integers(1, 60)), draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    kinds = rng.dirichlet(np.full(k, draw(st.sampled_from([0.1, 0.5, 3.0]))), size=n)
    p = kinds[rng.integers(0, draw(st.integers(1, n)), n)]
    known = np.array([rng.choice(k, p=row) for row in p])
    return np.where(rng.random(n) < 0.6, known, rng.integers(0, k, n)), p
