"""What a rule for logits alone may see of a network, and what each temperature is worth there.

Real sets: three splits, a fifth of the rows to see, the others to judge by. Made networks: the
posterior is known, so that the calibration error is exact, the mean distance of the confidence from
the probability of being right, and so is the excess NLL.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from judging import ONE, Judge
from rungs import halves
from sets import load, names

import tepid

GRID = np.linspace(math.log(0.2), math.log(12.0), 61)
NETWORKS = 120
SEED = 5


@dataclass(frozen=True)
class Seen:
    """What a rule may see of a set, and, for judging only, what every T on a grid is worth."""

    name: str
    source: str
    confidence: float
    uts: float
    spread: float
    classes: int
    matched: Any  # mean confidence along GRID, on the rows that were fitted
    ece: Any
    excess: Any

    def matching(self, odds: float) -> float:
        """The log T at which the error odds are so many times those at T = 1."""
        own = self.confidence / (1 - self.confidence)
        wanted = own / odds / (1 + own / odds)
        return float(np.interp(-wanted, -self.matched, GRID))

    def score(self, log_t: float) -> tuple[float, float]:
        """ECE and excess NLL at a temperature."""
        return float(np.interp(log_t, GRID, self.ece)), float(np.interp(log_t, GRID, self.excess))


def seen(name: str, source: str, fitted: Any, judge: Callable[[float], Any]) -> Seen:
    """What there is to see of some rows."""
    t = tepid.uts(fitted, engine=ONE)
    low, high = sorted(t.sensitivity or (1.0, 1.0))
    curve = np.array([_confidence(fitted, g) for g in np.exp(GRID)])
    worth = np.array([judge(float(g)) for g in np.exp(GRID)])
    own = _confidence(fitted, 1.0)
    k = fitted.shape[1]
    return Seen(name, source, own, t.value, high / low, k, curve, worth[:, 0], worth[:, 1])


def _confidence(z: Any, temperature: float) -> float:
    d = (z - z.max(axis=1, keepdims=True)).astype(np.float64) / temperature
    return float((1 / np.exp(d).sum(axis=1)).mean())


def real(folder: Path) -> Iterator[Seen]:
    """Every set, three splits."""
    sources = _sources(folder)
    for name, split in itertools.product(names(folder), range(3)):
        whole = load(folder, name)
        inside, outside = halves(whole, split)
        judge = Judge.of(whole.of(outside))

        def worth(temperature: float, judge: Judge = judge) -> tuple[float, float]:
            row = judge.judged("", temperature)
            return row["ece"], row["excess_nll"]

        yield seen(name, sources.get(name, name), whole.logits[inside], worth)


def _sources(folder: Path) -> dict[str, str]:
    index = folder / "INDEX.md"
    lines = index.read_text(encoding="utf-8").splitlines() if index.exists() else []
    cells = [line.strip("| ").split("|") for line in lines if line.count("|") > 8]
    # Whoever passed a set on, or its licence, does not make it another source.
    return {row[0].strip(): re.split(r" via | \(", row[-1].strip())[0] for row in cells}


def made() -> Iterator[Seen]:
    """Networks whose posterior is known: as many classes, as easy and as sharp as may be."""
    for number in range(NETWORKS):
        rng = np.random.default_rng([SEED, number])
        k = int(rng.choice([2, 5, 10, 30]))
        posterior = rng.uniform(0.5, 2.5) * rng.normal(size=(2000, k))
        margin = rng.uniform(2, 9) + 0.75 * math.log(k)
        posterior[np.arange(2000), rng.integers(k, size=2000)] += rng.normal(margin, 3, 2000)
        right = math.exp(rng.normal(0.4, 0.6))  # as the best T of real sets is spread
        yield seen(
            f"made {number}", f"made {number}", right * posterior, _exactly(posterior, right)
        )


def _exactly(posterior: Any, right: float) -> Callable[[float], tuple[float, float]]:
    d = posterior - posterior.max(axis=1, keepdims=True)
    p = np.exp(d) / np.exp(d).sum(axis=1, keepdims=True)
    log_p = np.log(np.maximum(p, 1e-300))

    def worth(temperature: float) -> tuple[float, float]:
        x = d * (right / temperature)
        log_q = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        gap = np.abs(np.exp(log_q).max(axis=1) - p.max(axis=1))
        return float(gap.mean()), float((p * (log_p - log_q)).sum(axis=1).mean())

    return worth
