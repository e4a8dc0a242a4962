"""Questions for any package that fits a temperature, each with the answer that a user expects.

tests/test_conformance.py asks tepid, and scripts/conformance.py asks other packages in environments
of their own. So this file needs NumPy and SciPy only.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

# What a right answer is.
OPTIMUM = "the probabilities at the minimum of the loss"
NOTICE = "an error or a warning"  # the input has no meaning
LIMIT = "an error or a warning: the loss has no minimum"
UNIFORM = "equal probabilities"  # every temperature is right
UNITS = "an error, a warning, or a conversion to logits"  # probabilities instead of logits
SAME = "the same probabilities as for the plain data"  # whether they are exact or not
FINITE = "probabilities that keep the predicted class"
REPEATED = "the same bits from a second fit"
RELOADED = "the same probabilities after saving and loading"

BAD_ROW = 1717
# A change of T by 1 % changes a probability of two classes by at most 0.0023.
TOLERANCE = 0.005


class Question(NamedTuple):
    """Logits and labels to fit, rows to predict (by default the logits), and what is expected.

    `plain` has the logits, labels and rows that an answer is compared with (`SAME`).
    """

    name: str
    logits: np.ndarray
    labels: np.ndarray
    expected: str = OPTIMUM
    weights: np.ndarray | None = None
    rows: np.ndarray | None = None
    plain: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
    tolerance: float = TOLERANCE

    @property
    def temperature(self) -> float | None:
        """The exact temperature, or None if there is none."""
        n, k = self.logits.shape
        return optimum(self.logits, np.arange(k) == self.labels.reshape(n, 1), self.weights)

    @property
    def probabilities(self) -> np.ndarray:
        """The exact probabilities of the rows."""
        rows = self.logits if self.rows is None else self.rows
        return softmax(np.asarray(rows, np.float64) / self.temperature, axis=1)


def draw(n, k, seed=11):
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


def _scales():
    z, y = draw(3000, 20)
    yield Question("known temperature, T ≈ 2", z, y)
    yield Question("the same, to four digits", z, y, tolerance=1e-4)
    yield Question("very confident network, T ≈ 10", 5 * z, y)
    yield Question("large scores, T ≈ 100", 50 * z, y)
    yield Question("underconfident network, T ≈ 0.2", 0.1 * z, y)
    yield Question("cosine similarities, T ≈ 0.01", 0.005 * z, y)


def _invariances():
    z, y = draw(3000, 20)
    rng = np.random.default_rng(5)
    yield Question("float32", z.astype(np.float32), y, SAME, plain=(z, y, z))
    yield Question("float16", z.astype(np.float16), y, SAME, plain=(z, y, z))
    order = rng.permutation(len(y))
    same = (z, y, z[order])
    yield Question("rows in another order", z[order], y[order], SAME, plain=same)
    shifted = z + 1000 * rng.normal(size=(len(y), 1))
    yield Question("a constant added to each row", shifted, y, SAME, plain=(z, y, z))
    count = rng.integers(0, 3, len(y))
    same = (z.repeat(count, axis=0), y.repeat(count), z)
    yield Question("weights 0, 1, 2 and repeated rows", z, y, SAME, count.astype(float), plain=same)
    yield Question("the same fit twice", z, y, REPEATED)
    yield Question("save and load", z, y, RELOADED)


def _shapes():
    z, y = draw(3000, 20)
    yield Question("two classes", *draw(2000, 2))
    yield Question("ten rows, five of each class", *draw(10, 2, seed=14))
    yield Question("fewer rows than classes", *draw(60, 120))
    present = (y != 0) & (y != 19) & (y != 7)
    yield Question("classes absent from the labels", z[present], y[present])
    far = 1e4 * np.sign(z[:50]) + z[:50]
    yield Question("new rows with logits of ±10,000", z, y, FINITE, rows=far)
    mask = (y != 1) & (np.arange(len(y)) % 2 == 0)
    for name, value in (("−inf", -np.inf), ("−1e9", -1e9)):
        masked = z.copy()
        masked[mask, 1] = value
        yield Question(f"a class masked with {name} in some rows", masked, y)
    yield Question("constant logits", np.zeros_like(z), y, UNIFORM)


def _mistakes():
    z, y = draw(3000, 20)
    for name, bad in (("NaN", np.nan), ("+inf", np.inf)):
        broken = z.copy()
        broken[BAD_ROW, 3] = bad
        yield Question(f"one {name} among the logits", broken, y, NOTICE)
    beyond = y.copy()
    beyond[BAD_ROW] = 20
    yield Question("label 20 of the classes 0 to 19", z, beyond, NOTICE)
    yield Question("fewer labels than rows", z, y[:-1], NOTICE)
    yield Question("no rows", z[:0], y[:0], NOTICE)
    yield Question("probabilities given as logits", softmax(z, axis=1), y, UNITS)
    z = z[:1000]
    yield Question("every prediction right: T → 0", z, z.argmax(axis=1), LIMIT)
    yield Question("worse than chance: T → ∞", z, z.argmin(axis=1), LIMIT)


def questions() -> list[Question]:
    """All questions."""
    groups = (_scales, _invariances, _shapes, _mistakes)
    return [question for group in groups for question in group()]
