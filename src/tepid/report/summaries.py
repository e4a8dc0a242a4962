"""Summaries that only a report needs: sums by class, and the example rows it shows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tepid import validation
from tepid.errors import InputError
from tepid.kernels import tails as kernels
from tepid.summaries import arithmetic
from tepid.summaries.tails import TOLERANCE
from tepid.validation import Array, Float64, Int64

# The edges of the bins of S_k, evenly spaced in log-odds to resolve both ends of [0, 1].
_LOG_ODDS = np.linspace(-11.5, 9.2, 32)
EDGES = 1 / (1 + np.exp(-_LOG_ODDS))
# The number of example rows of each kind.
MOST_EXAMPLES = 12
_COLUMNS = ("score", "row", "label", "prediction", "before", "after")


def as_numpy(logits: Any) -> Array:
    """A batch of logits as a NumPy array; from another device it is copied."""
    if validation.is_foreign(logits):
        logits = logits.cpu() if hasattr(logits, "cpu") else np.from_dlpack(logits)
    return validation.as_kernel_input(validation.as_array(logits))


@dataclass(frozen=True, eq=False)
class Members:
    r"""Per class, the weight of $M_k = \{i : S_{ik} \ge \theta_k\}$, paper eq. 6, by $S_k$.

    `histogram` (k, 3, bins) counts rows by bin of $S_k$, of equal width in log-odds: those
    predicted k, the members that are predicted otherwise, and the rest. A row that is predicted k
    may still lie below $\theta_k$; it is then no member.
    """

    PARAMETERS: ClassVar = ("classes", "thresholds")

    classes: int
    thresholds: Float64
    members: Float64
    histogram: Float64

    @classmethod
    def of(cls, logits: Any, *, thresholds: Any, sample_weight: Any = None) -> "Members":
        """The summary of one batch of logits (n, k)."""
        z = as_numpy(logits)
        u = validation.weight_column(sample_weight, len(z))
        empty = cls.zero(z.shape[1], thresholds=thresholds)
        theta = (empty.thresholds * (1 - TOLERANCE)).astype(np.float32)
        bad = kernels.member_sums(
            z, u, theta, EDGES.astype(np.float32), empty.members, empty.histogram
        )
        if bad >= 0:
            raise validation.unusable(z, bad)
        return empty

    @classmethod
    def zero(cls, classes: int, *, thresholds: Any) -> "Members":
        """The summary of no rows."""
        theta = np.asarray(thresholds, np.float64)
        if theta.shape != (classes,):
            raise InputError(f"thresholds must have shape ({classes},), got {theta.shape}")
        return cls(classes, theta, np.zeros(classes), np.zeros((classes, 3, len(EDGES) + 1)))

    def __add__(self, other: "Members") -> "Members":
        return arithmetic.added(self, other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Members) and arithmetic.close(self, other)

    __hash__ = None  # type: ignore[assignment]  # equality to a tolerance has no hash


@dataclass(frozen=True, eq=False)
class Classes:
    r"""Per class at one temperature: rows predicted, their confidence, and their correctness.

    `share` and `hits` (k, bins) are the sums of $p_{ik}$ and of $[y_i = k]$ by bin of $p_{ik}$ over
    all rows, from which the class-wise calibration error is read.
    """

    PARAMETERS: ClassVar = ("classes", "temperature", "bins")

    classes: int
    temperature: float
    bins: int
    predicted: Float64
    confidence: Float64
    labeled: Float64
    correct: Float64
    share: Float64
    hits: Float64

    @classmethod
    def zero(cls, classes: int, *, temperature: float = 1.0, bins: int = 15) -> "Classes":
        """The summary of no rows."""
        per, by_bin = np.zeros((4, classes)), np.zeros((2, classes, validation.check_bins(bins)))
        return cls(classes, validation.check_temperature(temperature), bins, *per, *by_bin)

    def error(self) -> Float64:
        r"""Class-wise ECE, $\frac1n \sum_b |\sum p_{ik} - \sum [y_i = k]|$ over bins of $p_{ik}$.

        Kull et al. (2019) average it over classes. Biased upwards like every binned error.
        """
        weight = self.predicted.sum()
        gap: Float64 = np.abs(self.share - self.hits).sum(axis=1)
        return gap / (weight or np.nan)

    def __add__(self, other: "Classes") -> "Classes":
        return arithmetic.added(self, other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Classes) and arithmetic.close(self, other)

    __hash__ = None  # type: ignore[assignment]  # equality to a tolerance has no hash


@dataclass(frozen=True)
class Predictions:
    """The predictions of a batch and their confidence at one temperature, with its `Classes`."""

    best: Array
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
    empty = Classes.zero(k, temperature=temperature)
    best, confidence = np.empty(n, np.int64), np.empty(n)
    per, by_bin = np.zeros((4, k)), np.zeros((k, 2, empty.bins))
    bad = kernels.class_sums(z, u, y, 1.0 / temperature, best, confidence, per, by_bin)
    if bad >= 0:
        raise validation.unusable(z, bad)
    summed = Classes(k, temperature, empty.bins, *per, *by_bin.transpose(1, 0, 2))
    return Predictions(best, confidence, summed)


@dataclass(frozen=True)
class Example:
    """One row with its confidence before and after; `label` is -1 if there is none."""

    row: int
    label: int
    prediction: int
    before: float
    after: float


@dataclass(frozen=True)
class TopRows:
    """The rows with the highest scores, the first on ties; the sum of two is the top of both."""

    table: Float64

    @classmethod
    def of(cls, *columns: Any) -> "TopRows":
        """The top of these rows; the columns are score, row, label, prediction, before, after."""
        table = np.array(columns, np.float64).reshape(len(_COLUMNS), -1)
        return cls(table[:, np.lexsort((table[1], -table[0]))[:MOST_EXAMPLES]])

    def __add__(self, other: "TopRows") -> "TopRows":
        return TopRows.of(*np.concatenate([self.table, other.table], axis=1))

    def examples(self) -> list[Example]:
        """The rows, best first."""
        columns = self.table[1:].T.tolist()
        return [Example(int(r), int(y), int(p), b, a) for r, y, p, b, a in columns]


@dataclass(frozen=True)
class Examples:
    """With labels, some correct and some wrong rows; without, those whose confidence moved most.

    The wrong rows are the most confident ones. The correct rows are a fixed pseudo-random sample,
    since the most confident of them would all show 100 %.
    """

    right: TopRows
    wrong: TopRows
    moved: TopRows

    @classmethod
    def of(
        cls,
        before: Predictions,
        after: Predictions,
        rows: Int64,
        *,
        eligible: Array,
        labels: Any = None,
    ) -> "Examples":
        """The examples of one batch, whose rows have these numbers, among the eligible rows."""
        moved = np.abs(after.confidence - before.confidence)
        y = np.full(len(rows), -1) if labels is None else np.asarray(labels).reshape(-1)
        columns = (rows, y, before.best, before.confidence, after.confidence)

        def top(score: Float64, chosen: Array) -> TopRows:
            return TopRows.of(score[chosen], *(column[chosen] for column in columns))

        none = np.zeros(len(rows), bool)
        if labels is None:
            return cls(top(moved, none), top(moved, none), top(moved, eligible))
        right = before.best == y
        return cls(
            top(shuffled_score(rows), eligible & right),
            top(before.confidence, eligible & ~right),
            top(moved, none),
        )

    def __add__(self, other: "Examples") -> "Examples":
        return Examples(
            self.right + other.right, self.wrong + other.wrong, self.moved + other.moved
        )


def shuffled_score(rows: Int64) -> Float64:
    """A pseudo-random score for each row, which depends on its number only."""
    # Knuth's multiplicative hash.
    return (rows.astype(np.uint64) * np.uint64(2654435769) % np.uint64(1 << 32)).astype(np.float64)
