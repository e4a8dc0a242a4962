"""The posterior over log T by another road: float64, direct sums over rows, no interpolation.

Every function of u = log T is evaluated at each point of one grid from the definition, integrals
are trapezoid sums, and each reading is the root of its own equation. docs/posterior.md has the
model.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.optimize import brentq
from scipy.special import expit, log_softmax, logit, logsumexp, softmax
from scipy.stats import norm

from tests import truth

GRID = np.linspace(-4.0, 5.0, 2251)
# The share of the outlier component of a reading, by kind of evidence.
DECLARED, LIKE, WEAK = 0.02, 0.1, 0.5


@dataclass
class Answer:
    """Log T, the ends of its 95 % interval, the probability of help, and the kinds in tension."""

    log_t: float
    interval: tuple[float, float]
    helps: float | None
    tension: set[str]


class Oracle:
    """The rows of a model, and functions of u that are means over them."""

    def __init__(self, logits):
        z = np.asarray(logits, np.float64)
        self.d = z - z.max(axis=1, keepdims=True)
        self.logits = logits
        self.log_sum, self.distance, self.confidence = self.means(GRID).T
        pairs = truth.uts_pairs(z)
        self.uts = math.log(truth.least_loss(z, pairs))

    def means(self, places):
        """Per place the means of log-sum-exp, of the expected distance, and of the confidence."""
        found = []
        for u in np.atleast_1d(places):
            x = self.d * math.exp(-u)
            p = softmax(x, axis=1)
            found.append((logsumexp(x, axis=1).mean(), (p * self.d).sum(axis=1).mean(),
                          p.max(axis=1).mean()))  # fmt: skip
        return np.array(found)

    def scaled(self, beliefs):
        """The log T of temperature scaling on label weights (n, k)."""
        wanted = (beliefs * self.d).sum(axis=1).mean()
        return brentq(lambda u: self.means(u)[0, 1] - wanted, -6, 6, xtol=1e-9)

    def matched(self, accuracy):
        """The log T at which the mean confidence is the accuracy."""
        return brentq(lambda u: self.means(u)[0, 2] - accuracy, -6, 6, xtol=1e-9)

    # The terms ------------------------------------------------------------------------------------

    def prior(self):
        x = GRID - self.uts
        return -0.5 * np.where(x < 0, x / 0.4, x / 0.8) ** 2

    def labels(self, known):
        rows = np.flatnonzero(known >= 0)
        chosen = self.d[rows]
        return np.array([
            log_softmax(chosen * math.exp(-u), axis=1)[np.arange(len(rows)), known[rows]].sum()
            for u in GRID
        ])  # fmt: skip

    def accuracy(self, given):
        value, error = given if isinstance(given, tuple) else (given, 0.02)
        variance = error**2 + (0.1 * max(1 - value, 0.002)) ** 2
        return -0.5 * (self.confidence - value) ** 2 / variance

    def reference(self, other):
        belief = softmax(np.asarray(other, np.float64), axis=1)
        return _mixture([self.scaled(_votes(belief)), self.scaled(belief)], [0.15, 0.15], DECLARED)

    def models(self, others):
        beliefs = [softmax(np.asarray(o, np.float64), axis=1) for o in others]
        alone = [self.scaled(_votes(belief)) for belief in beliefs]
        places = [float(np.median(alone))]
        if len(others) > 1:
            places.append(self.scaled(_votes(np.mean(beliefs, axis=0))))
        return _mixture(places, [0.2] * len(places), WEAK if self.weaker(others) else LIKE)

    def weaker(self, others):
        """Whether every other model is less confident by .05."""
        best = max(softmax(np.asarray(o, np.float64), axis=1).max(axis=1).mean() for o in others)
        return best < self.means(0.0)[0, 2] - 0.05

    def source(self, given):
        """Scaling on the older set, and the T of the accuracy that entropies lead to."""
        older, labels = np.asarray(given[0], np.float64), np.asarray(given[1])
        u = math.log(truth.least_loss(older, truth.label_pairs(older, labels)))
        d = older - older.max(axis=1, keepdims=True)
        p = softmax(d * math.exp(-u), axis=1)
        spread = (p * d**2).sum(axis=1) - (p * d).sum(axis=1) ** 2
        information = spread.sum() * math.exp(-2 * u)
        correct = (older.argmax(axis=1) == labels).mean()
        threshold = np.quantile(_entropy(d, u), correct)
        expected = (_entropy(self.d, u) <= threshold).mean()
        expected = np.clip(expected, 1 / d.shape[1] + 0.005, 0.9995)
        return _mixture(
            [u, self.matched(expected)], [math.hypot(0.15, information**-0.5), 0.15], DECLARED
        )

    # The answer -----------------------------------------------------------------------------------

    def answer(self, **evidence):
        """The answer from evidence by the names that `tepid.calibrate` gives it."""
        terms = {kind: getattr(self, kind)(given) for kind, given in evidence.items()}
        density = _density(self.prior() + sum(terms.values(), np.zeros(len(GRID))))
        confidence = self.means(0.0)[0, 2]
        if not terms or (set(terms) == {"models"} and self.weaker(evidence["models"])):
            u = 0.0
            if confidence >= 0.95:
                u = self.matched(expit(logit(confidence) - math.log(3)))
        elif {"labels", "accuracy"} & set(terms):
            wanted = np.trapezoid(density * self.distance, GRID)
            u = brentq(lambda u: self.means(u)[0, 1] - wanted, -6, 6, xtol=1e-9)
        else:
            u = _quantile(density, 0.5)
        ends = _quantile(density, 0.025), _quantile(density, 0.975)
        return Answer(u, ends, self.probability_of_help(u, density), self.tension(terms))

    def probability_of_help(self, u, density):
        """The mass of the u0 for which u has a lower expected log loss than 0."""
        if u == 0:
            return None
        (here, *_), (one, *_) = self.means([u, 0.0])

        def gain(truth):
            m = self.means(truth)[0, 1]
            return (one - m) - (here - math.exp(-u) * m)

        cut = brentq(gain, -6, 6, xtol=1e-9)
        below = np.interp(cut, GRID, cumulative_trapezoid(density, GRID, initial=0))
        return float(below if gain(-6.0) > 0 else 1 - below)

    def tension(self, terms):
        """The kinds further from all others than 2.6 joint standard deviations."""
        found = set()
        for kind, own in terms.items() if len(terms) > 1 else ():
            rest = self.prior() + sum(term for name, term in terms.items() if name != kind)
            (m, v), (o, w) = _moments(_density(own)), _moments(_density(rest))
            if abs(m - o) > 2.6 * math.sqrt(v + w):
                found.add(kind)
        return found


def _votes(belief):
    return np.eye(belief.shape[1])[belief.argmax(axis=1)]


def _mixture(places, deviations, outlier):
    each = [norm.pdf(GRID, m, s) for m, s in zip(places, deviations, strict=True)]
    return np.log((1 - outlier) * np.mean(each, axis=0) + outlier / 6)


def _entropy(d, u):
    log_p = log_softmax(d * math.exp(-u), axis=1)
    return -(np.exp(log_p) * np.where(np.isfinite(log_p), log_p, 0)).sum(axis=1)


def _density(height):
    shape = np.exp(height - height.max())
    return shape / np.trapezoid(shape, GRID)


def _quantile(density, share):
    return float(np.interp(share, cumulative_trapezoid(density, GRID, initial=0), GRID))


def _moments(density):
    mean = np.trapezoid(density * GRID, GRID)
    return mean, np.trapezoid(density * (GRID - mean) ** 2, GRID)
