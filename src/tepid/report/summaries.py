"""What a report sums over the rows, class by class; it adds like every summary."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tepid import arrays, summary
from tepid.arrays import Array, Float64
from tepid.errors import InputError
from tepid.kernels import classes as kernels
from tepid.tails import TOLERANCE

# Where the bins of S_k end, evenly in log-odds, so that both ends of [0, 1] can be seen.
_LOG_ODDS = np.linspace(-11.5, 9.2, 32)
EDGES = 1 / (1 + np.exp(-_LOG_ODDS))


def here(logits: Any) -> Array:
    """A block where NumPy can read it; one on another device is copied, a block at a time."""
    if arrays.is_foreign(logits):
        logits = logits.cpu() if hasattr(logits, "cpu") else np.from_dlpack(logits)
    return arrays.block(arrays.as_array(logits))


@dataclass(frozen=True, eq=False)
class Members:
    r"""Per class, the weight of $M_k = \{i : S_{ik} \ge \theta_k\}$, paper eq. 6, by $S_k$.

    `histogram` (k, 3, bins) counts rows by bin of $S_k$, evenly wide in log-odds: those predicted
    k, those drawn in beside them by the threshold, and the rest. A row that is predicted k may
    still lie below $\theta_k$; it is then no member.
    """

    PARAMETERS: ClassVar = ("classes", "thresholds")

    classes: int
    thresholds: Float64
    members: Float64
    histogram: Float64

    @classmethod
    def of(cls, logits: Any, *, thresholds: Any, sample_weight: Any = None) -> "Members":
        """The summary of one block of logits (n, k)."""
        z = here(logits)
        u = arrays.weight_column(sample_weight, len(z))
        empty = cls.zero(z.shape[1], thresholds=thresholds)
        theta = (empty.thresholds * (1 - TOLERANCE)).astype(np.float32)
        bad = kernels.member_sums(
            z, u, theta, EDGES.astype(np.float32), empty.members, empty.histogram
        )
        if bad >= 0:
            raise arrays.unusable(z, bad)
        return empty

    @classmethod
    def zero(cls, classes: int, *, thresholds: Any) -> "Members":
        """The summary of no rows."""
        theta = np.asarray(thresholds, np.float64)
        if theta.shape != (classes,):
            raise InputError(f"thresholds must have shape ({classes},), got {theta.shape}")
        return cls(classes, theta, np.zeros(classes), np.zeros((classes, 3, len(EDGES) + 1)))

    def __add__(self, other: "Members") -> "Members":
        return summary.added(self, other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Members) and summary.close(self, other)

    __hash__ = None  # type: ignore[assignment]  # equality to a tolerance has no hash


@dataclass(frozen=True, eq=False)
class Classes:
    r"""Per class at one temperature: rows predicted, their confidence, and what labels say of both.

    `share` and `hits` (k, bins) are the sums of $p_{ik}$ and of $[y_i = k]$ by bin of $p_{ik}$ over
    all rows, from which the class-wise calibration error is read.
    """

    PARAMETERS: ClassVar = ("classes", "temperature", "bins")

    classes: int
    temperature: float
    bins: int
    predicted: Float64
    confidence: Float64
    labelled: Float64
    correct: Float64
    share: Float64
    hits: Float64

    @classmethod
    def zero(cls, classes: int, *, temperature: float = 1.0, bins: int = 15) -> "Classes":
        """The summary of no rows."""
        per, by_bin = np.zeros((4, classes)), np.zeros((2, classes, arrays.check_bins(bins)))
        return cls(classes, arrays.check_temperature(temperature), bins, *per, *by_bin)

    def error(self) -> Float64:
        r"""Class-wise ECE, $\frac1n \sum_b |\sum p_{ik} - \sum [y_i = k]|$ over bins of $p_{ik}$.

        Kull et al. (2019) average it over classes. Biased upwards like every binned error.
        """
        weight = self.predicted.sum()
        gap: Float64 = np.abs(self.share - self.hits).sum(axis=1)
        return gap / (weight or np.nan)

    def __add__(self, other: "Classes") -> "Classes":
        return summary.added(self, other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Classes) and summary.close(self, other)

    __hash__ = None  # type: ignore[assignment]  # equality to a tolerance has no hash


@dataclass(frozen=True)
class Predictions:
    """A block's predictions and their confidence at one temperature, with its `Classes`."""

    best: Array
    confidence: Float64
    classes: Classes


def predictions(
    logits: Any, *, labels: Any = None, sample_weight: Any = None, temperature: float = 1.0
) -> Predictions:
    """What each row of one block is predicted to be, and the summary by class."""
    z = here(logits)
    n, k = z.shape
    u = arrays.weight_column(sample_weight, n)
    y = np.empty(0, np.int64) if labels is None else arrays.label_column(labels, n, k, weight=u)
    empty = Classes.zero(k, temperature=temperature)
    best, confidence = np.empty(n, np.int64), np.empty(n)
    per, by_bin = np.zeros((4, k)), np.zeros((k, 2, empty.bins))
    bad = kernels.class_sums(z, u, y, 1.0 / temperature, best, confidence, per, by_bin)
    if bad >= 0:
        raise arrays.unusable(z, bad)
    summed = Classes(k, temperature, empty.bins, *per, *by_bin.transpose(1, 0, 2))
    return Predictions(best, confidence, summed)
