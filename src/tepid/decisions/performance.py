"""Expected performance: accuracy, per-class measures and losses, without labels."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tepid import validation
from tepid.decisions.rows import (
    PER_UNIT,
    RANGE,
    Interval,
    Temperatures,
    bins_of,
    end_text,
    name_classes,
    probabilities_of,
    sum_by_bin,
    sum_rows,
)
from tepid.engines import Engine
from tepid.sources import Batch, Source
from tepid.summaries.summary import add, equal, scale
from tepid.validation import Float64, Int64

# The normal quantile of a 95 % interval.
_NORMAL = 1.96
# The mean confidence at the best T misses the accuracy by about a tenth of the error.
MISFIT = 0.1
# With more classes there is no confusion matrix, which has as many entries as their square.
MOST_CLASSES = 2048


@dataclass(frozen=True, eq=False)
class PerformanceSums:
    """Sums over rows at T, low and high, with the probabilities there as the labels' distribution.

    `confusion[i, j]` is the sum of the probability of class i at T over the rows predicted j.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ("classes",)

    classes: int
    rows: float
    confusion: Float64  # (k, k), or empty
    right: Float64  # (3, k): the confidence of the rows predicted as each class
    actual: Float64  # (3, k): the probability of each class
    predicted: Float64  # (k,)
    log_loss: Float64  # (3,): of the probabilities at T
    brier: Float64  # (3,)
    weight: Float64  # (bins,) rows by bin of the probability of class 1; empty unless k = 2
    positive: Float64  # (3, bins): the sums of that probability

    @classmethod
    def of(cls, batch: Batch, temperatures: Temperatures) -> "PerformanceSums":
        """The sums of a batch."""
        p = probabilities_of(batch, temperatures)
        n, k = p.shape[1:]
        u = validation.weight_column(batch.weight, n)
        predicted = p[0].argmax(axis=1)
        top = p[:, np.arange(n), predicted]
        # A class whose probability vanishes at T counts with the largest cost that a float holds.
        cost = -np.log(np.maximum(p[0], np.finfo(np.float64).tiny))
        square = (p[0] ** 2).sum(axis=1)
        weight, positive = np.zeros(0), np.zeros((3, 0))
        if k == 2:
            where, width = bins_of(p[0, :, 1], PER_UNIT), 2 * RANGE * PER_UNIT
            weight = sum_by_bin(where, u, width)
            positive = np.stack([sum_by_bin(where, u * at, width) for at in p[:, :, 1]])
        return cls(
            k,
            float(u.sum()),
            _sum_by_class(u[:, None] * p[0], predicted).T
            if k <= MOST_CLASSES
            else np.zeros((0, 0)),
            np.stack([sum_by_bin(predicted, u * at, k) for at in top]),
            u @ p,
            sum_by_bin(predicted, u, k),
            np.array([u @ (at * cost).sum(axis=1) for at in p]),
            np.array([u @ (square - 2 * (at * p[0]).sum(axis=1) + 1) for at in p]),
            weight,
            positive,
        )

    __add__ = add
    __mul__ = __rmul__ = scale
    __eq__ = equal


def _sum_by_class(values: Float64, classes: Int64) -> Float64:
    """The sums of rows (n, k) by class: (k, k)."""
    out = np.zeros((values.shape[1], values.shape[1]))
    order = np.argsort(classes, kind="stable")
    present, starts = np.unique(classes[order], return_index=True)
    if len(present):
        out[present] = np.add.reduceat(values[order], starts, axis=0)
    return out


@dataclass(frozen=True)
class ClassPerformance:
    """The expected precision, recall and F1 of a class.

    `share` is the expected share of rows of this class, `predicted` the share of rows that are
    predicted as it. Precision is None where no row is.
    """

    precision: Interval | None
    recall: Interval | None
    f1: Interval | None
    share: float
    predicted: float

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, eq=False)
class Performance:
    """The performance that the calibrated probabilities lead to expect, without labels.

    `confusion[i, j]` is the expected number of rows of class i that are predicted j; it is None for
    more than 2048 classes. `roc_auc` and `average_precision` exist for two classes.
    """

    rows: float
    accuracy: Interval
    log_loss: Interval
    brier: Interval
    roc_auc: Interval | None
    average_precision: Interval | None
    classes: Mapping[str, ClassPerformance]
    confusion: Float64 | None
    verdict: str | None
    assumption: str

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        matrix = None if self.confusion is None else self.confusion.tolist()
        return dataclasses.asdict(self) | {"confusion": matrix}

    def __str__(self) -> str:
        found = {
            "accuracy": self.accuracy, "log loss": self.log_loss, "Brier score": self.brier,
            "ROC AUC": self.roc_auc, "average precision": self.average_precision,
        }  # fmt: skip
        lines = [f"expected {name}: {value}" for name, value in found.items() if value is not None]
        return end_text(lines, self.verdict, self.assumption)


def find_performance(
    source: Source,
    temperatures: Temperatures,
    *,
    names: Sequence[Any] | None,
    verdict: str | None,
    engine: Engine | None,
) -> Performance:
    """The expected performance on the rows of a source."""
    of = partial(PerformanceSums.of, temperatures=temperatures)
    sums = sum_rows(of, source, engine, "summing probabilities")
    named = name_classes(names, source, sums.classes)
    predicted = np.broadcast_to(sums.predicted, sums.right.shape)
    classes = class_performance(sums.right, predicted, sums.actual, sums.rows)
    auc, average = (None, None)
    if sums.classes == 2:
        auc = _known(_roc_auc(sums.weight, positive) for positive in sums.positive)
        average = _known(_average_precision(sums.weight, at) for at in sums.positive)
    return Performance(
        sums.rows,
        expected_accuracy(sums.right.sum(axis=1) / sums.rows),
        Interval.of(sums.log_loss / sums.rows),
        Interval.of(sums.brier / sums.rows),
        auc,
        average,
        dict(zip(named, classes, strict=True)),
        sums.confusion if sums.confusion.size else None,
        verdict,
        temperatures.assumption,
    )


def _known(values: Iterator[float]) -> Interval | None:
    found = list(values)
    return None if any(math.isnan(value) for value in found) else Interval.of(found)


def expected_accuracy(confidence: Any) -> Interval:
    """The expected accuracy, from the mean confidence at T, low and high.

    Its interval is widened by how far the confidence at the best T misses the accuracy.
    """
    accuracy = Interval.of(confidence)
    misfit = _NORMAL * MISFIT * (1 - accuracy.value)
    low = accuracy.value - math.hypot(accuracy.value - accuracy.low, misfit)
    high = accuracy.value + math.hypot(accuracy.high - accuracy.value, misfit)
    return Interval(accuracy.value, max(low, 0.0), min(high, 1.0))


def class_performance(
    right: Float64, predicted: Float64, actual: Float64, rows: float
) -> Iterator[ClassPerformance]:
    """The expected performance of each class, from sums (3, k) at T, low and high.

    These are the probability of class k over the rows predicted k, the weight of those rows, and
    the probability of class k over all rows.
    """
    for k in range(right.shape[1]):
        yield ClassPerformance(
            _ratio(right[:, k], predicted[:, k]),
            _ratio(right[:, k], actual[:, k]),
            _ratio(2 * right[:, k], predicted[:, k] + actual[:, k]),
            float(actual[0, k] / rows),
            float(predicted[0, k] / rows),
        )


def _ratio(over: Float64, under: Any) -> Interval | None:
    return Interval.of(over / under) if np.all(under > 0) else None


def _roc_auc(weight: Float64, positive: Float64) -> float:
    """The probability that a positive row has a higher score than a negative one."""
    negative = weight - positive
    above = positive.sum() - np.cumsum(positive)
    pairs = positive.sum() * negative.sum()
    return float(negative @ (above + positive / 2) / pairs) if pairs > 0 else math.nan


def _average_precision(weight: Float64, positive: Float64) -> float:
    """The mean precision over the positive rows, from the highest score down."""
    found, right = np.cumsum(weight[::-1]), np.cumsum(positive[::-1])
    with np.errstate(invalid="ignore", divide="ignore"):
        precision = np.where(found > 0, right / found, 0.0)
    return float(positive[::-1] @ precision / right[-1]) if right[-1] > 0 else math.nan
