"""The folder of logit sets: what is in it, and which sets share their rows.

A set is an `.npz` of `logits` and `labels`. Sets of a hundred classes or more are cut to 5000 rows
drawn at random, others to 10,000. Sets with the very same labels are networks on the same rows.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MANY_CLASSES, FEW_ROWS, ROWS = 100, 5000, 10_000
# Which rows a set is cut to: those for which the design targets were measured.
SEED = 7
# Two sets with the same labels may be two by chance of what is in the folder; three are a family.
LEAST_FAMILY = 3


class LogitSet(NamedTuple):
    """Logits (n, k) and labels (n,) of one network."""

    logits: Any
    labels: Any

    @property
    def accuracy(self) -> float:
        """The share of rows whose largest logit is the label's."""
        return float((self.logits.argmax(axis=1) == self.labels).mean())

    def of(self, rows: Any) -> "LogitSet":
        """The same network on some of the rows."""
        return LogitSet(self.logits[rows], self.labels[rows])


@cache
def load(folder: Path, name: str, part: str = "") -> LogitSet:
    """A set by its name, cut; or, whole, its second labeled part `_val`, which some have."""
    with np.load(folder / f"{name}.npz") as data:
        z, y = data[f"logits{part}"], data[f"labels{part}"]
    n = FEW_ROWS if z.shape[1] >= MANY_CLASSES else ROWS
    if part or len(y) <= n:
        return LogitSet(z, y)
    return LogitSet(z, y).of(np.sort(np.random.default_rng(SEED).permutation(len(y))[:n]))


def names(folder: Path) -> list[str]:
    """All sets of the folder."""
    return sorted(path.stem for path in folder.glob("*.npz"))


def families(folder: Path) -> dict[str, list[str]]:
    """Sets on the same rows, three or more, by the last word that their names share."""
    by_labels: dict[tuple[int, bytes], list[str]] = {}
    for name in names(folder):
        z, y = load(folder, name)
        by_labels.setdefault((z.shape[1], y.tobytes()), []).append(name)
    alike = [each for each in by_labels.values() if len(each) >= LEAST_FAMILY]
    return {each[0].rpartition("_")[2]: each for each in alike}


def digest(folder: Path) -> str:
    """A short fingerprint of every set, so that results of other data are not taken for these."""
    total = hashlib.sha256()
    for name in names(folder):
        content = hashlib.sha256((folder / f"{name}.npz").read_bytes()).hexdigest()
        total.update(f"{name} {content}\n".encode())
    return total.hexdigest()[:16]
