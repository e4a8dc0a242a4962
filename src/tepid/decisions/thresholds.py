"""Thresholds: which predictions to accept, for a wanted precision, coverage or cost."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tepid import validation
from tepid.decisions.rows import (
    PER_UNIT,
    PER_UNIT_BY_CLASS,
    RANGE,
    Interval,
    Temperatures,
    at_least,
    bins_of,
    calibrated,
    end_text,
    lower_edges,
    name_classes,
    probabilities_of,
    sum_by_bin,
    sum_rows,
)
from tepid.engines import Engine
from tepid.errors import InputError
from tepid.sources import Batch, Source
from tepid.summaries.summary import add, equal, scale
from tepid.validation import Array, Float64, Int64

# Sums of as many terms as there are rows are equal up to this.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class ConfidenceSums:
    """Rows by bin of their confidence: all of them and, if wanted, those predicted as each class.

    `confidence` and `class_confidence` are the sums of the confidence at T, low and high.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ("classes",)

    classes: int  # 0 unless each class is wanted
    rows: float
    weight: Float64  # (bins,)
    confidence: Float64  # (3, bins)
    class_weight: Float64  # (classes, fewer bins)
    class_confidence: Float64  # (3, classes, fewer bins)

    @classmethod
    def of(
        cls, batch: Batch, temperatures: Temperatures, *, per_class: bool = False
    ) -> "ConfidenceSums":
        """The sums of a batch."""
        p = probabilities_of(batch, temperatures)
        n, k = p.shape[1:]
        u = validation.weight_column(batch.weight, n)
        predicted = p[0].argmax(axis=1)
        top = p[:, np.arange(n), predicted]

        def count(classes: int, per_unit: int) -> tuple[Float64, Float64]:
            where = bins_of(top[0], per_unit)
            return _by_bin(where + predicted * 2 * RANGE * per_unit, u, top, classes, per_unit)

        each = count(k, PER_UNIT_BY_CLASS) if per_class else (np.zeros((0, 0)), np.zeros((3, 0, 0)))
        whole = cls.of_confidence(top, u)
        return dataclasses.replace(
            whole, classes=k if per_class else 0, class_weight=each[0], class_confidence=each[1]
        )

    @classmethod
    def of_confidence(cls, confidence: Float64, weight: Float64) -> "ConfidenceSums":
        """The sums of rows whose confidence at T, low and high, (3, n), is known already."""
        where = bins_of(confidence[0], PER_UNIT)
        total, sums = _by_bin(where, weight, confidence, 1, PER_UNIT)
        none = np.zeros((0, 0)), np.zeros((3, 0, 0))
        return cls(0, float(weight.sum()), total[0], sums[:, 0], *none)

    __add__ = add
    __mul__ = __rmul__ = scale
    __eq__ = equal


def _by_bin(
    where: Int64, weight: Float64, confidence: Float64, classes: int, per_unit: int
) -> tuple[Float64, Float64]:
    """The sums of weight (classes, bins), and of confidence (3, classes, bins)."""
    width = 2 * RANGE * per_unit
    totals = [
        sum_by_bin(where, each, classes * width).reshape(classes, width)
        for each in (weight, *(weight * at for at in confidence))
    ]
    return totals[0], np.stack(totals[1:])


@dataclass(frozen=True)
class Accepted:
    """The rows whose confidence is at least `threshold`; None where none can be accepted.

    `share` is their share of all rows, `precision` their expected precision.
    """

    threshold: float | None
    share: float
    precision: Interval | None

    def __str__(self) -> str:
        if self.threshold is None:
            return "nothing can be accepted"
        return (
            f"confidence at least {self.threshold:.4f} accepts {100 * self.share:.1f} % of the "
            f"rows; expected precision {self.precision}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Threshold:
    """The threshold for a wanted precision, coverage or cost; call it on logits.

    `cautious` keeps the promise also at the upper end of T's interval. `cost` is the expected cost
    per row where costs were given. `classes` holds the same for the rows predicted as each class,
    if it was asked for. `verdict` is the verdict on the temperature.
    """

    wanted: str
    accepted: Accepted
    cautious: Accepted
    rows: float
    cost: float | None
    classes: Mapping[str, "Threshold"]
    temperatures: Temperatures
    verdict: str | None
    assumption: str

    def __call__(
        self,
        logits: Any,
        *,
        cautious: bool = False,
        groups: Any = None,
        class_axis: int | None = None,
        probabilities: bool = False,
    ) -> Array:
        """Which rows are accepted: True or False, in the shape of the logits without the classes.

        With thresholds per class, each row is compared with the one of its predicted class.
        `cautious` uses the cautious thresholds.
        """
        p, _ = calibrated(
            logits, self.temperatures, groups=groups, class_axis=class_axis,
            probabilities=probabilities,
        )  # fmt: skip
        return self.accept(p.max(axis=-1), p.argmax(axis=-1), cautious=cautious)

    def accept(self, confidence: Float64, predicted: Int64, *, cautious: bool = False) -> Array:
        """Which rows are accepted, given their confidence in float64 and their predicted class.

        Confidence in float32 is too coarse where the threshold is close to 1.
        """
        each = [
            (t.cautious if cautious else t.accepted).threshold
            for t in (self.classes.values() or [self])
        ]
        if self.classes and predicted.max(initial=0) >= len(each):
            raise InputError(f"logits must have {len(each)} classes, got more")
        at = predicted if self.classes else np.zeros_like(predicted)
        some = np.array([t is not None for t in each])
        edges = np.array([0.0 if t is None else t for t in each])
        per_unit = PER_UNIT_BY_CLASS if self.classes else PER_UNIT
        return some[at] & at_least(confidence, edges[at], per_unit)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        found: dict[str, Any] = {"wanted": self.wanted, "accepted": self.accepted.as_dict()}
        found |= {"cautious": self.cautious.as_dict(), "rows": self.rows, "cost": self.cost}
        if self.classes:
            kept = ("accepted", "cautious", "rows", "cost")
            found["classes"] = {
                name: {key: t.as_dict()[key] for key in kept} for name, t in self.classes.items()
            }
        return found | {"verdict": self.verdict, "assumption": self.assumption}

    def __str__(self) -> str:
        lines = [
            f"wanted: {self.wanted}",
            f"threshold: {self.accepted}",
            f"cautious: {self.cautious}",
        ]
        if self.cost is not None:
            lines.append(f"expected cost per row: {self.cost:.4g}")
        lines += [f"class {name}: {t.accepted}" for name, t in self.classes.items()]
        return end_text(lines, self.verdict, self.assumption)


@dataclass(frozen=True)
class Goal:
    """What a threshold is wanted for: exactly one of the three."""

    precision: float | None = None
    coverage: float | None = None
    cost: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        given = [name for name, value in vars(self).items() if value is not None]
        if len(given) != 1:
            got = " and ".join(given) or "none"
            raise InputError(f"threshold must have one of precision, coverage and cost, got {got}")
        for name in ("precision", "coverage"):
            value = getattr(self, name)
            if value is None:
                continue
            share = validation.number(value, name)
            if not 0 < share <= 1:
                raise InputError(f"{name} must be in (0, 1], got {value}")
            validation.replace_fields(self, **{name: share})
        if self.cost is not None:
            validation.replace_fields(self, cost=_check_cost(self.cost))

    def __str__(self) -> str:
        if self.precision is not None:
            return f"a precision of at least {self.precision:g} among accepted rows"
        if self.coverage is not None:
            return f"{100 * self.coverage:g} % of the rows accepted"
        error, review = self.cost or (0.0, 0.0)
        return f"least expected cost: {error:g} for an error, {review:g} for a review"

    def expected_cost(self, accepted: Accepted) -> float | None:
        """The expected cost per row, where costs were given."""
        if self.cost is None:
            return None
        error, review = self.cost
        wrong = 0.0 if accepted.precision is None else 1 - accepted.precision.value
        return accepted.share * wrong * error + (1 - accepted.share) * review


def _check_cost(cost: Any) -> tuple[float, float]:
    if not isinstance(cost, (tuple, list)) or len(cost) != 2:
        raise InputError(f"cost must be a pair, of an error and of a review, got {cost!r}")
    error, review = (validation.number(value, "cost") for value in cost)
    if not (0 < error < math.inf and 0 < review < math.inf):
        raise InputError(f"cost must be two numbers above zero, got {cost!r}")
    return error, review


def find_threshold(
    source: Source,
    temperatures: Temperatures,
    goal: Goal,
    *,
    names: Sequence[Any] | None,
    per_class: bool,
    verdict: str | None,
    engine: Engine | None,
) -> Threshold:
    """The threshold for a goal on the rows of a source."""
    of = partial(ConfidenceSums.of, temperatures=temperatures, per_class=per_class)
    sums = sum_rows(of, source, engine, "summing confidence")

    def decide(curve: RiskCoverage, classes: Mapping[str, Threshold]) -> Threshold:
        accepted, cautious = curve.accept(goal)
        cost = goal.expected_cost(accepted) if curve.rows else None
        return Threshold(
            str(goal), accepted, cautious, curve.rows, cost, classes, temperatures, verdict,
            temperatures.assumption,
        )  # fmt: skip

    classes = {}
    if per_class:
        for k, name in enumerate(name_classes(names, source, sums.classes)):
            curve = RiskCoverage.of(sums.class_weight[k], sums.class_confidence[:, k])
            classes[name] = decide(curve, {})
    return decide(RiskCoverage.of(sums.weight, sums.confidence), classes)


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """For each threshold, the share of accepted rows and their expected precision.

    Arrays over thresholds in rising order: `weight` of the rows at or above the threshold, and
    `mass`, the sums of their confidence at T, low and high. `verdict` is the verdict on the
    temperature.
    """

    thresholds: Float64
    weight: Float64
    mass: Float64
    rows: float
    verdict: str | None = None
    assumption: str = ""

    @classmethod
    def of(cls, weight: Float64, confidence: Float64) -> "RiskCoverage":
        """From rows by bin, (bins,), and the sums of their confidence, (3, bins)."""
        above = np.cumsum(weight[::-1])[::-1]
        mass = np.cumsum(confidence[:, ::-1], axis=1)[:, ::-1]
        return cls(lower_edges(len(weight) // (2 * RANGE)), above, mass, float(above[0]))

    def accept(self, goal: Goal) -> tuple[Accepted, Accepted]:
        """What a threshold for the goal accepts, at T and cautiously, at the upper end of T."""
        return self._accepted(self._first_bin(goal, 0)), self._accepted(self._first_bin(goal, 2))

    def _first_bin(self, goal: Goal, at: int) -> int | None:
        """The lowest bin to accept at T, or at the lower or upper end of its interval."""
        if goal.cost is not None:
            error, review = goal.cost
            cost = error * (self.weight - self.mass[at]) + review * (self.rows - self.weight)
            best = int(cost.argmin())
            return best if cost[best] <= review * self.rows * (1 + _ROUNDING) else None
        if goal.precision is not None:
            least = goal.precision * self.weight * (1 - _ROUNDING)
            found = np.flatnonzero((self.mass[at] >= least) & (self.weight > 0))[:1]
        else:
            enough = (goal.coverage or 0.0) * self.rows * (1 - _ROUNDING)
            found = np.flatnonzero(self.weight >= enough)[-1:]
        return int(found[0]) if len(found) else None

    def _accepted(self, first: int | None) -> Accepted:
        """What is accepted from a bin on."""
        if first is None or not self.weight[first]:
            return Accepted(None, 0.0, None)
        return Accepted(
            float(self.thresholds[first]),
            float(self.weight[first] / self.rows),
            Interval.of(self.mass[:, first] / self.weight[first]),
        )

    @property
    def coverage(self) -> Float64:
        """The share of accepted rows at each threshold."""
        return self.weight / self.rows

    @property
    def risk(self) -> Float64:
        """The expected share of errors among accepted rows; NaN where none is accepted."""
        return self._risk(0)

    @property
    def interval(self) -> tuple[Float64, Float64]:
        """The risk at the lower and at the upper end of T's interval."""
        return self._risk(1), self._risk(2)

    def _risk(self, at: int) -> Float64:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(1 - self.mass[at] / self.weight)


def read_threshold(sums: ConfidenceSums, goal: Goal) -> tuple[Accepted, Accepted]:
    """What a threshold for the goal accepts, and what the cautious one does, from sums."""
    return RiskCoverage.of(sums.weight, sums.confidence).accept(goal)


def find_risk_coverage(
    source: Source, temperatures: Temperatures, *, verdict: str | None, engine: Engine | None
) -> RiskCoverage:
    """The curve of all rows of a source."""
    of = partial(ConfidenceSums.of, temperatures=temperatures)
    sums = sum_rows(of, source, engine, "summing confidence")
    curve = RiskCoverage.of(sums.weight, sums.confidence)
    return dataclasses.replace(curve, verdict=verdict, assumption=temperatures.assumption)
