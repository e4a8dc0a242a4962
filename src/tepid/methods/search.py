"""The search that all methods share: locate T on a curve and refine it with exact passes."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tepid.errors import InputError
from tepid.methods.passes import LARGEST_ERROR, Pass, Passes, interval_around, mean_confidence
from tepid.sources import Batch
from tepid.summaries.curve import Curve, Lattice
from tepid.summaries.optimum import (
    EXACT,
    INTERPOLATION,
    LeastLoss,
    MatchingConfidence,
    Reading,
    confidence_at,
)
from tepid.temperature import Status, Temperature
from tepid.validation import Float64

# The octaves of 1/T that are summed where the data can be read only once.
_ONLY = (-5, 5)
# The window moves by this many octaves, up to where float32 ends.
_STRIDE, _FARTHEST = 12, 112
# At-bound temperatures lie this many octaves from the scale of the logits.
_REACH = 8
# A step this small leaves an error well below EXACT.
_LAST_STEP = 2e-3
# Where rounding leaves a larger relative error, T is not identified.
_POOR = 1e-2
_LEAST_LOSS = LeastLoss()

_FLAT = (
    "The loss is nearly flat: the evidence hardly depends on the temperature, so the value is not "
    "determined."
)
# Why no temperature inside the range was found.
_BOUND_WARNINGS = {
    "nowhere": "Every row's logits are equal, so every temperature gives the same result.",
    "no-pairs": "No row reaches the threshold of UTS, so nothing determines a temperature.",
    "beyond-zero": (
        "No temperature is low enough: the evidence agrees with every prediction. "
        "The value is the end of the range that was searched."
    ),
    "beyond-infinity": (
        "No temperature is high enough: the evidence is no better than chance. "
        "The value is the end of the range that was searched."
    ),
    "below": "The best temperature lies below the range that was searched; T is its lower end.",
    "above": "The best temperature lies above the range that was searched; T is its upper end.",
}


@dataclass(frozen=True)
class Question:
    """Which curve to sum, and which temperature on it is wanted.

    `others` are read off the same curve and not refined. `first` is the first window, in octaves of
    1/T, where the data can be read again: by default T from 1/4 to 8. `curve_of` replaces the curve
    of the thresholds and labels by another. `empty` is the error where no row counts.
    """

    wanted: LeastLoss | MatchingConfidence = _LEAST_LOSS
    others: tuple[LeastLoss | MatchingConfidence, ...] = ()
    thresholds: Float64 | None = None
    labeled: bool = False
    curve_of: Callable[[Batch, Lattice], Curve] | None = None
    per_octave: int = 2
    first: tuple[int, int] = (-3, 2)
    empty: str = "sample_weight must not be zero for every row, got only zeros"

    def read(self, curve: Curve) -> list[Reading]:
        """The readings of the wanted temperature and of the others."""
        return [each.read(curve) for each in (self.wanted, *self.others)]

    def sum(self, lattice: Lattice, stage: str, *, alone: bool = False) -> Pass:
        """The pass that sums the curve on a lattice, or that of the wanted weighting alone."""
        thresholds = self.thresholds
        if alone and thresholds is not None and isinstance(self.wanted, LeastLoss):
            thresholds = thresholds[self.wanted.weighting][None]

        def of(batch: Batch) -> Curve:
            if self.curve_of is not None:
                return self.curve_of(batch, lattice)
            return Curve.of(
                batch.logits,
                lattice=lattice,
                thresholds=thresholds,
                labels=batch.labels if self.labeled else None,
                sample_weight=batch.weight,
                bins=0,
            )

        return Pass(of, stage)


@dataclass(frozen=True)
class Answer:
    """The temperature found, with the curve it was found on and the exact sums at it.

    `confidence` is the mean confidence at the temperature, `precision` bounds the relative error of
    the temperature. `others` and `readings[1:]` belong to `Question.others`.
    """

    temperature: float
    status: Status
    confidence: float
    precision: float
    curve: Curve
    point: Curve | None
    others: tuple[float, ...]
    readings: tuple[Reading, ...]

    @property
    def reading(self) -> Reading:
        """The reading of the temperature itself."""
        return self.readings[0]


def search(question: Question, *, repeatable: bool = True) -> Passes[Answer]:
    """Answer a question in two or three passes, or in one if the data cannot be read again."""
    if not repeatable:
        question = dataclasses.replace(question, first=_ONLY)
        curve, readings = yield from locate(question, moving=False)
        return read_off(question, curve, readings)
    curve, readings = yield from locate(question)
    temperature, *others = (_bounded(reading, curve) for reading in readings)
    status, precision, point = _status_of(readings[0]), EXACT, None
    if status == "ok":
        temperature, point, precision = yield from _refine(question, temperature, curve)
        status = "ok" if precision <= _POOR else "not-identified"
        ahead = 1.0 / temperature - float(point.lattice.nodes[0])
        confidence = float(point.confidence[0] + ahead * point.confidence_slope[0]) / point.weight
    else:
        confidence = yield from mean_confidence(temperature)
    return Answer(
        temperature, status, confidence, precision, curve, point, tuple(others), tuple(readings)
    )


def read_off(question: Question, curve: Curve, readings: list[Reading] | None = None) -> Answer:
    """The answer read off a curve, without another pass."""
    readings = question.read(curve) if readings is None else readings
    found, *others = (reading.temperature for reading in readings)
    status, precision = _status_of(readings[0]), INTERPOLATION[curve.lattice.per_octave]
    if status == "ok":
        precision = question.wanted.interpolation(curve, found)
        status = "ok" if precision <= _POOR else "not-identified"
    confidence = confidence_at(curve, found)
    return Answer(found, status, confidence, precision, curve, None, tuple(others), tuple(readings))


def locate(question: Question, *, moving: bool = True) -> Passes[tuple[Curve, list[Reading]]]:
    """The curve on which the answer lies, and all readings; the window moves while any is outside.

    A reading is outside only if a temperature exists, so the search need not know the scale of the
    logits, which a few extreme rows can hide.
    """
    low, high = question.first
    curve = yield from _sum_window(question, (low, high), "summing")
    readings = question.read(curve)
    while moving:
        outside = [i for i, reading in enumerate(readings) if reading.where in ("below", "above")]
        if not outside or max(-low, high) > _FARTHEST:
            break
        if readings[outside[0]].where == "below":
            window = (high - 1, high + _STRIDE)
        else:
            window = (low - _STRIDE, low + 1)
        moved = yield from _sum_window(question, window, "extending the range")
        for i, reading in enumerate(question.read(moved)):
            readings[i] = reading if i in outside else readings[i]
        curve = moved if 0 in outside else curve
        low, high = min(low, window[0]), max(high, window[1])
    return curve, readings


def _sum_window(question: Question, window: tuple[int, int], stage: str) -> Passes[Curve]:
    lattice = Lattice.window(*window, per_octave=question.per_octave)
    curve: Curve = yield question.sum(lattice, stage)
    if not curve.weight:
        raise InputError(question.empty)
    return curve


def _refine(
    question: Question, temperature: float, curve: Curve
) -> Passes[tuple[float, Curve, float]]:
    """The exact temperature from one near by, the sums it was found from, and its precision."""
    for _ in range(8):
        point: Curve = yield question.sum(Lattice.point(temperature), "finishing", alone=True)
        step = float(np.clip(question.wanted.step(point, curve), -0.3, 0.3))
        temperature = math.exp(step) / float(point.lattice.nodes[0])
        if abs(step) < _LAST_STEP:
            return temperature, point, question.wanted.precision(point)
    return temperature, point, 1.0


def _bounded(reading: Reading, curve: Curve) -> float:
    """The temperature of a reading; where none is best, one beyond the scale of the logits."""
    scale = -math.log2(-curve.spread / curve.weight) if curve.spread else 0.0
    if reading.where == "beyond-zero":
        return 2.0 ** -max(5, math.ceil(scale) + _REACH)
    if reading.where == "beyond-infinity":
        return 2.0 ** -min(-5, math.floor(scale) - _REACH)
    return reading.temperature


def _status_of(reading: Reading) -> Status:
    if reading.where == "inside":
        return "ok"
    return "not-identified" if reading.where in ("nowhere", "no-pairs") else "at-bound"


def to_temperature(
    answer: Answer, method: str, *, error: float | None = None, notes: tuple[str, ...] = ()
) -> Temperature:
    """The temperature of an answer; with a standard error it has a 95 % interval.

    One whose standard error is so large that it carries no information is not identified.
    """
    curve, where = answer.curve, answer.reading.where
    vague = error is not None and error > LARGEST_ERROR
    status = "not-identified" if vague and answer.status == "ok" else answer.status
    warnings = [] if where == "inside" else [_BOUND_WARNINGS[where]]
    if status == "not-identified" and where == "inside":
        warnings.append(_FLAT)
    if curve.rows < curve.classes:
        rows = f"fewer rows ({curve.rows:.0f}) than classes ({curve.classes})"
        warnings.append(f"There are {rows}.")
    return Temperature(
        answer.temperature,
        method,
        samples=round(curve.rows),
        classes=curve.classes,
        implied_accuracy=answer.confidence,
        status=status,
        interval=None if error is None or vague else interval_around(answer.temperature, error),
        precision=answer.precision,
        warnings=(*warnings, *notes),
    )


def loss_error(point: Curve | None, node: int = 0) -> float | None:
    """The sandwich standard error of log T where, at a node, the loss is least."""
    if point is None or not point.curvature[0, node]:
        return None
    steepness = point.curvature[0, node] * point.lattice.nodes[node]
    return float(math.sqrt(point.square[0, node]) / steepness)
