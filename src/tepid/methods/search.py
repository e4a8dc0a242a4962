"""The search that all methods share: locate T on a curve, then refine it with an exact pass."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tepid.errors import InputError
from tepid.methods.passes import Pass, Passes
from tepid.sources import Batch
from tepid.summaries.curve import Curve, Lattice
from tepid.summaries.optimum import (
    EXACT,
    INTERPOLATION,
    Reading,
    confidence_at,
    loss_interpolation,
    loss_precision,
)
from tepid.temperature import Status
from tepid.validation import Float64

# The octaves of 1/T that are summed where the data can be read only once.
_ONLY = (-5, 5)
# The window moves by this many octaves, up to where float32 ends.
_STRIDE, _FARTHEST = 12, 112
# At-bound temperatures lie this many octaves from the scale of the logits.
_REACH = 8
# A step this small leaves an error well below EXACT.
LAST_STEP = 2e-3
# Where rounding leaves a larger relative error, T is not identified.
POOR = 1e-2


@dataclass(frozen=True)
class Question:
    """Which curve to sum, where on it the answer lies, and how to step to it from near by.

    `precision` bounds the error of T after an exact pass at a point, and `interpolation` that of
    one read off a curve, as `others` are. `first` is the first window, in octaves of 1/T, where the
    data can be read again: by default T from 1/4 to 8. `curve_of` replaces the curve of the
    thresholds and labels by another. `empty` is the error where no row counts.
    """

    read: Callable[[Curve], Reading]
    step: Callable[[Curve, Curve], float]
    precision: Callable[[Curve], float] = loss_precision
    interpolation: Callable[[Curve, float], float] = loss_interpolation
    others: tuple[Callable[[Curve], Reading], ...] = ()
    thresholds: Float64 | None = None
    exact_thresholds: Float64 | None = None
    labeled: bool = False
    curve_of: Callable[[Batch, Lattice], Curve] | None = None
    per_octave: int = 2
    first: tuple[int, int] = (-3, 2)
    empty: str = "sample_weight must not be zero for every row, got only zeros"


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
    curve, readings = yield from locate(question, moving=repeatable)
    if not repeatable:
        return read_off(question, curve, readings)
    found, *others = (_bounded(r, curve) for r in readings)
    if readings[0].where != "inside":
        confidence = yield from mean_confidence(found)
        status = status_of(readings[0])
        return Answer(found, status, confidence, EXACT, curve, None, tuple(others), tuple(readings))
    temperature, point = yield from refine(question, found, curve)
    return exact_answer(question, temperature, curve, point, readings, tuple(others))


def read_off(question: Question, curve: Curve, readings: list[Reading] | None = None) -> Answer:
    """The answer read off a curve, without another pass."""
    readings = readings_of(question, curve) if readings is None else readings
    found, *others = (reading.temperature for reading in readings)
    confidence, precision = confidence_at(curve, found), INTERPOLATION[curve.lattice.per_octave]
    status = status_of(readings[0])
    if status == "ok":
        precision = question.interpolation(curve, found)
        status = status if precision <= POOR else "not-identified"
    return Answer(found, status, confidence, precision, curve, None, tuple(others), tuple(readings))


def exact_answer(
    question: Question,
    temperature: float,
    curve: Curve,
    point: Curve,
    readings: list[Reading],
    others: tuple[float, ...] = (),
) -> Answer:
    """The answer at a temperature that was found from the exact sums at a point near by.

    It is not identified where its precision is poor, or where the last step was not the last.
    """
    node = float(point.lattice.nodes[0])
    confidence = float(point.confidence[0] + (1.0 / temperature - node) * point.confidence_slope[0])
    converged = abs(math.log(temperature * node)) < LAST_STEP
    precision = question.precision(point) if converged else 1.0
    return Answer(
        temperature,
        "ok" if precision <= POOR else "not-identified",
        confidence / point.weight,
        precision,
        curve,
        point,
        others,
        tuple(readings),
    )


def mean_confidence(temperature: float) -> Passes[float]:
    """The mean confidence at a temperature, by one exact pass."""
    lattice = Lattice.point(temperature)

    def of(batch: Batch) -> Curve:
        return Curve.of(batch.logits, lattice=lattice, sample_weight=batch.weight, bins=0)

    point = yield Pass(of, "measuring confidence")
    return float(point.confidence[0] / point.weight)


def locate(question: Question, *, moving: bool = True) -> Passes[tuple[Curve, list[Reading]]]:
    """The curve on which the answer lies, and all readings; the window moves while any is outside.

    A reading is outside only if a temperature exists, so the search need not know the scale of the
    logits, which a few extreme rows can hide.
    """
    low, high = question.first
    curve = yield from _summed(question, (low, high), "summing")
    readings = readings_of(question, curve)
    while moving:
        outside = [i for i, reading in enumerate(readings) if reading.where in ("below", "above")]
        if not outside or max(-low, high) > _FARTHEST:
            break
        if readings[outside[0]].where == "below":
            window = (high - 1, high + _STRIDE)
        else:
            window = (low - _STRIDE, low + 1)
        moved = yield from _summed(question, window, "extending the range")
        for i, reading in enumerate(readings_of(question, moved)):
            readings[i] = reading if i in outside else readings[i]
        curve = moved if 0 in outside else curve
        low, high = min(low, window[0]), max(high, window[1])
    return curve, readings


def _summed(question: Question, window: tuple[int, int], stage: str) -> Passes[Curve]:
    lattice = Lattice.window(*window, per_octave=question.per_octave)
    curve: Curve = yield Pass(curve_of(question, lattice), stage)
    if not curve.weight:
        raise InputError(question.empty)
    return curve


def readings_of(question: Question, curve: Curve) -> list[Reading]:
    """The readings of the answer and of the others on a curve."""
    return [read(curve) for read in (question.read, *question.others)]


def curve_of(
    question: Question, lattice: Lattice, *, exact: bool = False
) -> Callable[[Batch], Curve]:
    """The function that gives the curve of a batch for a question."""
    thresholds = question.exact_thresholds if exact else question.thresholds

    def of(batch: Batch) -> Curve:
        if question.curve_of is not None:
            return question.curve_of(batch, lattice)
        return Curve.of(
            batch.logits,
            lattice=lattice,
            thresholds=thresholds,
            labels=batch.labels if question.labeled else None,
            sample_weight=batch.weight,
            bins=0,
        )

    return of


def _octaves(curve: Curve) -> tuple[int, int]:
    """Ten octaves around T = 1, extended to reach the scale of the logits."""
    scale = -math.log2(-curve.spread / curve.weight) if curve.spread else 0.0
    return min(-5, math.floor(scale) - _REACH), max(5, math.ceil(scale) + _REACH)


def _bounded(reading: Reading, curve: Curve) -> float:
    low, high = _octaves(curve)
    if reading.where == "beyond-zero":
        return 2.0**-high
    if reading.where == "beyond-infinity":
        return 2.0**-low
    return reading.temperature


def status_of(reading: Reading) -> Status:
    """The status of a temperature with this reading."""
    if reading.where == "inside":
        return "ok"
    return "not-identified" if reading.where in ("nowhere", "no-pairs") else "at-bound"


def refine(question: Question, temperature: float, curve: Curve) -> Passes[tuple[float, Curve]]:
    """The exact temperature, from one near by, and the sums that it was found from."""
    for _ in range(8):
        lattice = Lattice.point(temperature)
        point: Curve = yield Pass(curve_of(question, lattice, exact=True), "finishing")
        temperature, step = step_from(question, point, curve)
        if abs(step) < LAST_STEP:
            break
    return temperature, point


def step_from(question: Question, point: Curve, curve: Curve) -> tuple[float, float]:
    """The temperature one step on from the exact sums at a point, and the step in its logarithm."""
    step = float(np.clip(question.step(point, curve), -0.3, 0.3))
    return math.exp(step) / float(point.lattice.nodes[0]), step
