"""Summaries that only a report needs: sums by class, and the example rows it shows."""

import sys
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tepid import kernels, validation
from tepid.summaries.summary import add, equal, scale
from tepid.summaries.tails import TOLERANCE
from tepid.validation import Array, Float64, Int64

# The edges of the bins of S_k, evenly spaced in log-odds to resolve both ends of [0, 1].
_LOG_ODDS = np.linspace(-11.5, 9.2, 32)
EDGES = 1 / (1 + np.exp(-_LOG_ODDS))
# The number of example rows of each kind.
_MOST_EXAMPLES = 12
# The bins of the class-wise calibration error.
_BINS = 15


def as_numpy(logits: Any) -> Array:
    """A batch of logits as a NumPy array; from another device it is copied."""
    if validation.is_foreign(logits):
        logits = logits.cpu() if hasattr(logits, "cpu") else np.from_dlpack(logits)
    z: Array = validation.as_kernel_input(validation.as_array(logits))
    return z


@dataclass(frozen=True, eq=False)
class Members:
    r"""Per class, the weight of $M_k = \{i : S_{ik} \ge \theta_k\}$, paper eq. 6, by $S_k$.

    `histogram` (k, 3, bins) counts rows by bin of $S_k$, of equal width in log-odds: those
    predicted k, the members that are predicted otherwise, and the rest. A row that is predicted k
    may still lie below $\theta_k$; it is then no member.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ("thresholds",)

    thresholds: Float64
    members: Float64
    histogram: Float64

    @classmethod
    def of(cls, logits: Any, *, thresholds: Float64, sample_weight: Any = None) -> "Members":
        """The summary of one batch of logits (n, k)."""
        z = as_numpy(logits)
        n, k = z.shape
        u = validation.weight_column(sample_weight, n)
        theta = (thresholds * (1 - TOLERANCE)).astype(np.float32)
        members, histogram = np.zeros(k), np.zeros((k, 3, len(EDGES) + 1))
        bad = kernels.member_sums(z, u, theta, EDGES.astype(np.float32), members, histogram)
        if bad >= 0:
            raise validation.unusable(z, bad)
        return cls(thresholds, members, histogram)

    __add__ = add
    __mul__ = __rmul__ = scale
    __eq__ = equal


@dataclass(frozen=True, eq=False)
class Classes:
    r"""Per class at one temperature: rows predicted, their confidence, and their correctness.

    `mass` is the sum of $p_{ik}$ over all rows, the expected number of rows of the class.
    `gap` (k, bins) is the sum of $p_{ik} - [y_i = k]$ by bin of $p_{ik}$ over all rows, from which
    the class-wise calibration error is read.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ("temperature",)

    temperature: float
    predicted: Float64
    confidence: Float64
    labeled: Float64
    correct: Float64
    mass: Float64
    gap: Float64

    def error(self) -> Float64:
        r"""Class-wise ECE, $\frac1n \sum_b |\sum p_{ik} - \sum [y_i = k]|$ over bins of $p_{ik}$.

        Kull et al. (2019) average it over classes. Biased upwards like every binned error.
        """
        weight = self.predicted.sum()
        return np.asarray(np.abs(self.gap).sum(axis=1) / (weight or np.nan))

    __add__ = add
    __mul__ = __rmul__ = scale
    __eq__ = equal


class Predictions(NamedTuple):
    """The predictions of a batch and their confidence at one temperature, with its `Classes`."""

    best: Int64
    confidence: Float64
    classes: Classes


def predict(
    logits: Any, *, labels: Any = None, sample_weight: Any = None, temperature: float = 1.0
) -> Predictions:
    """The prediction of each row of a batch, and the summary by class."""
    z = as_numpy(logits)
    n, k = z.shape
    u = validation.weight_column(sample_weight, n)
    y = np.empty(0, np.int64) if labels is None else validation.label_column(labels, n, k, weight=u)
    best, confidence = np.empty(n, np.int64), np.empty(n)
    per_class, by_bin = np.zeros((5, k)), np.zeros((k, 2, _BINS))
    beta = min(1.0 / temperature, sys.float_info.max)
    bad = kernels.class_sums(z, u, y, beta, best, confidence, per_class, by_bin)
    if bad >= 0:
        raise validation.unusable(z, bad)
    predicted, sure, labeled, correct, mass = per_class
    gap = by_bin[:, 0] - by_bin[:, 1]
    classes = Classes(temperature, predicted, sure, labeled, correct, mass, gap)
    return Predictions(best, confidence, classes)


class Example(NamedTuple):
    """One row with its confidence before and after; `label` is -1 if there is none."""

    row: int
    label: int
    prediction: int
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class TopRows:
    """The rows with the highest scores, the first on ties; the sum of two is the top of both."""

    table: Float64

    @classmethod
    def of(cls, *columns: Any) -> "TopRows":
        """The top of these rows; the columns are the score and those of `Example`."""
        table = np.array(columns, np.float64).reshape(1 + len(Example._fields), -1)
        return cls(table[:, np.lexsort((table[1], -table[0]))[:_MOST_EXAMPLES]])

    def __add__(self, other: "TopRows") -> "TopRows":
        return TopRows.of(*np.concatenate([self.table, other.table], axis=1))

    def examples(self) -> list[Example]:
        """The rows, best first."""
        columns = self.table[1:].T.tolist()
        return [Example(int(r), int(y), int(p), b, a) for r, y, p, b, a in columns]


def choose_examples(
    before: Predictions, after: Predictions, rows: Int64, eligible: Array, labels: Any
) -> dict[str, TopRows]:
    """The examples of a batch by kind, among the eligible of the rows with these numbers.

    With labels, some correct and some wrong rows; without, those whose confidence moved most. The
    wrong rows are the most confident ones. The correct rows are a fixed pseudo-random sample, since
    the most confident of them would all show 100 %.
    """
    y = np.full(len(rows), -1) if labels is None else np.asarray(labels).reshape(-1)
    columns = (rows, y, before.best, before.confidence, after.confidence)

    def top(score: Float64, chosen: Array) -> TopRows:
        return TopRows.of(*(column[chosen] for column in (score, *columns)))

    if labels is None:
        return {"moved": top(np.abs(after.confidence - before.confidence), eligible)}
    right = before.best == y
    return {
        "right": top(shuffled_score(rows), eligible & right),
        "wrong": top(before.confidence, eligible & ~right),
    }


def shuffled_score(rows: Int64) -> Float64:
    """A pseudo-random score for each row, which depends on its number only."""
    # Knuth's multiplicative hash.
    return (rows.astype(np.uint64) * np.uint64(2654435769) % np.uint64(1 << 32)).astype(np.float64)
