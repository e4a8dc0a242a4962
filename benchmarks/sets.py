"""Folders of logit sets: what is in them, and which sets share their rows.

A set is an `.npz` of `logits` and `labels`. Sets of a hundred classes or more are cut to 5000 rows
drawn at random, others to 10,000. Sets with the very same labels are models on the same rows.
"""

import hashlib
from collections.abc import Iterable, Mapping
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
    """Logits (n, k) and labels (n,) of one model."""

    logits: Any
    labels: Any

    @property
    def accuracy(self) -> float:
        """The share of rows whose largest logit is the label's."""
        return float((self.logits.argmax(axis=1) == self.labels).mean())

    def of(self, rows: Any) -> "LogitSet":
        """The same model on some of the rows."""
        return LogitSet(self.logits[rows], self.labels[rows])


def find(folders: Iterable[Path]) -> dict[str, Path]:
    """The files of the sets of some folders, by name."""
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.npz"))}


@cache
def load(path: Path, part: str = "") -> LogitSet:
    """A set, cut; or, whole, its second labeled part `_val`, which some have."""
    with np.load(path) as data:
        z, y = data[f"logits{part}"], data[f"labels{part}"]
    n = FEW_ROWS if z.shape[1] >= MANY_CLASSES else ROWS
    if part or len(y) <= n:
        return LogitSet(z, y)
    return LogitSet(z, y).of(np.sort(np.random.default_rng(SEED).permutation(len(y))[:n]))


def families(paths: Mapping[str, Path]) -> dict[str, list[str]]:
    """Sets on the same rows, three or more, by the folder or the last word that their names share.

    Only the labels are read.
    """
    by_labels: dict[bytes, list[str]] = {}
    for name, path in paths.items():
        with np.load(path) as data:
            by_labels.setdefault(data["labels"].tobytes(), []).append(name)
    alike = [each for each in by_labels.values() if len(each) >= LEAST_FAMILY]
    return {_shared_name(each, paths): each for each in alike}


def _shared_name(members: list[str], paths: Mapping[str, Path]) -> str:
    last = {name.rpartition("_")[2] for name in members}
    return last.pop() if len(last) == 1 else paths[members[0]].parent.name


def digest(paths: Mapping[str, Path]) -> str:
    """A short fingerprint of every set, so that results of other data are not taken for these."""
    total = hashlib.sha256()
    for name, path in paths.items():
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{name} {content}\n".encode())
    return total.hexdigest()[:16]
