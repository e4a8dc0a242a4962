"""Questions that any package for temperature scaling can be asked, each with its right answer.

They are those of tests/test_conformance.py, and scripts/conformance.py asks them of other packages
in environments of their own. So this file needs NumPy and SciPy, and nothing of tepid.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

# What a right answer is.
TEMPERATURE = "the temperature"  # that of the optimum
REFUSE = "an error"  # the input has no meaning
LOW, HIGH = "no optimum: T → 0", "no optimum: T → ∞"  # and the result or a warning says so
NOT_IDENTIFIED = "not identified"  # every temperature is as good, and the result says so

BAD_ROW = 1717


class Question(NamedTuple):
    """Logits, labels and weights, and what a right answer is; `temperature` where it is one."""

    name: str
    logits: np.ndarray
    labels: np.ndarray
    right: str = TEMPERATURE
    temperature: float | None = None
    weights: np.ndarray | None = None


def made(n, k, seed=11):
    """Logits whose right temperature is about 2, with labels."""
    rng = np.random.default_rng(seed)
    posterior = 2 * rng.normal(size=(n, k))
    return 2 * posterior, (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)


def root(rising, scale):
    """The T = 1/b where a function that rises with b crosses zero; None if it never does."""
    for reach in (3, 10, 30, 100):
        low, high = -math.log(scale) - reach, -math.log(scale) + reach
        if rising(math.exp(low)) < 0 < rising(math.exp(high)):
            u = brentq(lambda u: rising(math.exp(u)), low, high, xtol=1e-13, rtol=1e-13)
            return math.exp(-u)
    return None


def optimum(z, pairs, weights=None):
    """The exact temperature of the likelihood of pairs (row, class) in float64, or None."""
    z = np.asarray(z, np.float64)
    d = z - z.max(axis=1, keepdims=True)
    near = np.where(np.isfinite(d), d, 0)
    given = np.ones(len(z)) if weights is None else np.asarray(weights, np.float64)
    weight = given * pairs.sum(axis=1)
    pull = (given * np.where(pairs, near, 0).sum(axis=1)).sum()

    def slope(b):
        return (weight * (softmax(b * d, axis=1) * near).sum(axis=1)).sum() - pull

    return root(slope, np.median(-near[near < 0]))


def _with_optimum(name, z, y, weights=None):
    pairs = np.arange(z.shape[1]) == y[:, None]
    return Question(name, z, y, TEMPERATURE, optimum(z, pairs, weights), weights)


def _scales():
    z, y = made(3000, 20)
    yield _with_optimum("known optimum", z, y)
    for scale in (50.0, 0.02, 1e6, 1e-6):
        yield _with_optimum(f"logits × {scale:g}", scale * z, y)
    yield _with_optimum("float32", z.astype(np.float32), y)
    yield _with_optimum("float32, logits × 50", (50 * z).astype(np.float32), y)
    yield _with_optimum("float16", z.astype(np.float16), y)
    yield _with_optimum("logits shifted by 1e4", z + 1e4, y)


def _masks():
    z, y = made(3000, 20)
    kept = y != 1
    z, y = z[kept], y[kept]
    masked = z.copy()
    masked[:, 1] = -np.inf
    yield _with_optimum("a class masked with −inf", masked, y)
    mask = np.random.default_rng(20191).random(z.shape) < 0.3
    mask[np.arange(len(y)), y] = False
    yield _with_optimum("masks that differ by row", np.where(mask, -np.inf, z), y)
    large = z.copy()
    large[::2, 1] = -1e9
    yield _with_optimum("a class masked with −1e9", large, y)


def _shapes():
    z, y = made(3000, 20)
    present = (y != 0) & (y != 19) & (y != 7)
    yield _with_optimum("classes absent from the labels", z[present], y[present])
    never = z.copy()
    never[:, 4] -= 60
    yield _with_optimum("a class that is never predicted", never[y != 4], y[y != 4])
    yield _with_optimum("two classes", *made(2000, 2))
    yield _with_optimum("fewer rows than classes", *made(60, 120))
    yield _with_optimum("many ties", np.round(z / 3), y)
    tail = np.exp(1.5 * np.random.default_rng(20191).normal(size=(3000, 1)))
    yield _with_optimum("rows of very different scales", z * tail, y)
    far, labels = 1e-3 * z, y.copy()
    far[:3, 0], labels[:3] = 1e4, 0
    yield _with_optimum("three outlandish rows", far, labels)


def _weights():
    z, y = made(3000, 20)
    rng = np.random.default_rng(5)
    count = rng.integers(0, 3, len(y)).astype(float)
    yield _with_optimum("weights 0, 1 and 2", z, y, count)
    yield _with_optimum("weights × 1e6", z, y, 1e6 * (0.5 + rng.random(len(y))))


def _hostile():
    z, y = made(3000, 20)
    for name, bad in (("NaN", np.nan), ("+inf", np.inf)):
        broken = z.copy()
        broken[BAD_ROW, 3] = bad
        yield Question(f"one {name}", broken, y, REFUSE)
    broken = z.copy()
    broken[BAD_ROW] = -np.inf
    yield Question("a row of −inf", broken, y, REFUSE)
    for label in (20, -1, -2):
        wrong = y.copy()
        wrong[BAD_ROW] = label
        yield Question(f"label {label} of 20 classes", z, wrong, REFUSE)
    yield Question("fewer labels than rows", z, y[:-1], REFUSE)
    yield Question("no rows", z[:0], y[:0], REFUSE)


def _without_optimum():
    z, y = made(1000, 20)
    yield Question("separable labels", z, z.argmax(axis=1), LOW)
    yield Question("labels worse than chance", z, z.argmin(axis=1), HIGH)
    yield Question("a single row", z[:1], z[:1].argmax(axis=1), LOW)
    yield Question("constant logits", np.zeros_like(z), y, NOT_IDENTIFIED)
    beside = np.zeros((1000, 5))
    beside[:, 2] = -np.inf
    labels = np.random.default_rng(1).choice([0, 1, 3, 4], 1000)
    yield Question("constant logits beside a masked class", beside, labels, NOT_IDENTIFIED)


def questions() -> list[Question]:
    """All questions, made anew."""
    groups: Any = (_scales, _masks, _shapes, _weights, _hostile, _without_optimum)
    return [question for group in groups for question in group()]
