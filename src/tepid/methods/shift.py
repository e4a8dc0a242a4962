"""An older labelled set, and unlabelled logits from where things may have shifted."""

import dataclasses
import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from tepid import arrays
from tepid.arrays import Float64
from tepid.curve import Curve
from tepid.engines import Engine, choose_engine
from tepid.errors import InputError, RowError
from tepid.lattice import Lattice
from tepid.methods import verdict
from tepid.methods.entropies import Entropies
from tepid.methods.errors import effective_rows, loss_error, matching_error, nearest
from tepid.methods.frequencies import Sample, grown, weighing
from tepid.methods.groups import Fit, together
from tepid.methods.labels import QUESTION
from tepid.methods.passes import (
    Asking,
    Key,
    Pass,
    answered,
    both,
    check_total,
    check_weight,
    each_answered,
)
from tepid.methods.search import (
    LAST_STEP,
    Answer,
    curve_of,
    exactly,
    finished,
    located,
    read_off,
    search,
    stepped,
)
from tepid.optimum import INTERPOLATION, confidence_at, matching_confidence
from tepid.sources import Batch, Source, open_source
from tepid.temperature import Temperature

Shift = Literal["any", "label", "none"]
# Below this accuracy on the source the estimate of the target's is worse than none.
WEAK = 0.75
# The target is summed from T / 8 to 8 T around the source's T, at so many nodes per octave.
_REACH, _PER_OCTAVE = 3, 4


@dataclass(frozen=True)
class _Target:
    """What the one reading of the target gave: its curve, and what the kind of shift asks for."""

    curve: Curve
    seen: Any


def from_source(  # two sets of rows with what belongs to each
    logits: Any,
    source_logits: Any,
    source_labels: Any = None,
    *,
    shift: Shift = "any",
    sample_weight: Any = None,
    source_weight: Any = None,
    groups: Any = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Temperature:
    r"""The temperature for unlabelled logits from an older labelled set of the same model.

    With `shift="none"` it is temperature scaling on the source. With `"label"` the source's rows
    weigh as much as their classes are now more or less frequent, which the probabilities on the
    target tell by expectation maximisation. With `"any"`, the default, it is the geometric mean of
    source scaling and of matching the accuracy that the target's entropies suggest (ATC: the share
    of rows less uncertain than the source's rows were when it was right); where the source's own
    accuracy is below .75, source scaling alone. Logits cannot say which shift there is; this mean
    was never far worse than source scaling, and better under a real shift.

    The source is read twice and the target once, which may therefore be an iterator. With `groups`,
    one name per row of the target, each group gets a temperature of its own. `sample_weight` is one
    weight per row of the target, `source_weight` one per row of the source.

    `implied_accuracy` is the mean confidence on the target. Only `"none"` and `"label"` leave a
    question to which an interval would be the answer, and theirs would not cover the shift: there
    is none.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> old = rng.normal(size=(4000, 5))
    >>> labels = (old + rng.gumbel(size=old.shape)).argmax(axis=1)
    >>> round(from_source(3 * rng.normal(size=(4000, 5)), 3 * old, labels, shift="none").value)
    3
    """
    if shift not in get_args(Shift):
        raise InputError(f"shift must be one of {', '.join(get_args(Shift))}, got {shift!r}")
    check_weight(source_weight, "source_weight")
    given: dict[str, Any] = {"columns": columns, "probabilities": probabilities}
    now = open_source(logits, sample_weight=sample_weight, groups=groups, **given).select()
    past = open_source(source_logits, labels=source_labels, sample_weight=source_weight, **given)
    past = past.renamed("source_logits") if past.name == "logits" else past
    if not past.labeled:
        raise InputError("source_labels must be given, got none")
    engine = choose_engine(engine, now, past)
    if not past.repeatable:
        raise InputError("source_logits must be readable more than once, got an iterator")
    fit = {"any": _any, "label": _label, "none": _none}[shift]
    try:
        return together(fit(past, now, engine), now, engine)
    except RowError as error:
        raise error.moved(0, "source_labels") if error.name == "labels" else error from None


def _none(past: Source, now: Source, engine: Engine) -> dict[Key, Fit]:
    answer = answered(search(QUESTION), past, engine)
    targets = _targets(answer, now, engine, lambda _: 0)
    return {key: _fitted("none", answer, target) for key, target in targets.items()}


def _any(past: Source, now: Source, engine: Engine) -> dict[Key, Fit]:
    answer, before = answered(_with_entropies(), past, engine)
    of = partial(Entropies.of, temperature=_near(answer))
    targets = _targets(answer, now, engine, of)
    if before is None:
        return {key: _fitted("any", answer, target) for key, target in targets.items()}
    right = before.correct / before.weight
    if right < WEAK:
        said = f"The model's accuracy on the source is {right:.3f}, too low to say more than it."
        return {key: _fitted("any", answer, t, said) for key, t in targets.items()}
    return {key: _between(answer, before, target) for key, target in targets.items()}


def _with_entropies() -> Asking[tuple[Answer, Entropies | None]]:
    """Source scaling in two readings, the second of which also takes the entropies near its T."""
    curve, readings = yield from located(QUESTION)
    if readings[0].where != "inside":
        return read_off(curve, readings), None
    near = readings[0].temperature
    exact = curve_of(QUESTION, Lattice.point(near), exact=True)
    found = yield Pass(both(exact, partial(Entropies.of, temperature=near)), "finishing")
    temperature, step = stepped(QUESTION, found.first, curve)
    point = found.first
    if abs(step) >= LAST_STEP:
        temperature, point = yield from finished(QUESTION, temperature, curve)
    return exactly(QUESTION, temperature, curve, point, readings), found.second


def _near(answer: Answer) -> float:
    """The source's temperature as the first reading of it gave it."""
    return answer.reading.temperature


def _targets(answer: Answer, now: Source, engine: Engine, of: Any) -> dict[Key, _Target]:
    """One reading of the target: of all rows, and of each group."""
    octave = -math.log2(_near(answer))
    window = (math.floor(octave) - _REACH, math.ceil(octave) + _REACH)
    lattice = Lattice.window(*window, per_octave=_PER_OCTAVE)

    def curve(batch: Batch) -> Curve:
        return Curve.of(batch.logits, lattice=lattice, sample_weight=batch.weight, bins=0)

    def asking(_: Key) -> Asking[_Target]:
        found = yield Pass(both(curve, of), "reading")
        return _Target(found.first, found.second)

    targets = each_answered(asking, now, engine)
    there, known = targets[None].curve.classes, answer.curve.classes
    if there != known:
        raise InputError(f"source_logits must have the {there} classes of logits, got {known}")
    check_total(targets[None].curve.weight)
    return targets


def _between(answer: Answer, before: Entropies, target: _Target) -> Fit:
    """The geometric mean of the source's temperature and of the one that matches ATC's accuracy."""
    right, after = before.correct / before.weight, target.seen
    accuracy = after.share_below(before.quantile(right))
    accuracy = min(max(accuracy, 1 / before.classes + 0.005), 0.9995)
    matched = matching_confidence(target.curve, accuracy)
    said = f"The entropies suggest an accuracy of {accuracy:.3f}; on the source it was {right:.3f}."
    if matched.where != "inside":
        said += f" No T within a factor of {2**_REACH} of the source's gives it."
    temperature = math.sqrt(answer.temperature * matched.temperature)
    unsure = math.sqrt(accuracy * (1 - accuracy) / effective_rows(target.curve))
    node = nearest(target.curve, matched.temperature)
    error = matching_error(target.curve, unsure, node)
    fit = _fitted("any", answer, target, said, temperature=temperature)
    return Fit(fit.temperature, None if error is None else error / 2)


def _label(past: Source, now: Source, engine: Engine) -> dict[Key, Fit]:
    curve, readings = answered(located(QUESTION), past, engine)
    first = read_off(curve, readings)
    if first.status != "ok":
        targets = _targets(first, now, engine, lambda _: 0)
        return {key: _fitted("label", first, target) for key, target in targets.items()}
    targets = _targets(first, now, engine, partial(Sample.of, temperature=first.temperature))
    counts = engine.total(partial(_label_counts, classes=curve.classes), past, "counting labels")
    old = counts / counts.sum()
    ratios = {key: grown(target.seen, old) for key, target in targets.items()}
    octave = -math.log2(first.temperature)
    window = (math.floor(octave) - 1, math.ceil(octave) + 1)
    question = dataclasses.replace(QUESTION, first=window, per_octave=_PER_OCTAVE)

    def reweighted(key: Key) -> Asking[Answer]:
        curve, readings = yield from weighing(located(question), ratios[key])
        return read_off(curve, readings)

    answers = each_answered(reweighted, past, engine, tuple(ratios))
    return {key: _fitted("label", answers[key], t, *_sampled(t.seen)) for key, t in targets.items()}


def _label_counts(batch: Batch, classes: int) -> Float64:
    u = arrays.weight_column(batch.weight, len(batch.logits))
    labels = arrays.label_column(batch.labels, len(u), classes, weight=u)
    return np.asarray(np.bincount(labels, u, classes), np.float64)


def _sampled(sample: Sample) -> tuple[str, ...]:
    if sample.whole:
        return ()
    kept, unsure = len(sample.kept), 0.5 / math.sqrt(len(sample.kept))
    said = f"The frequencies of the classes come from {kept} of the {sample.rows:.0f} rows"
    return (f"{said}, which leaves each uncertain by up to {unsure:.4f}.",)


def _fitted(
    shift: Shift, answer: Answer, target: _Target, *said: str, temperature: float | None = None
) -> Fit:
    value = answer.temperature if temperature is None else temperature
    curve = answer.curve if answer.point is None else answer.point
    t = Temperature(
        value,
        f"source-{shift}",
        samples=round(answer.curve.rows),
        classes=answer.curve.classes,
        implied_accuracy=min(max(confidence_at(target.curve, value), 0.0), 1.0),
        status=answer.status,
        precision=max(answer.precision, INTERPOLATION[_PER_OCTAVE]),
        warnings=verdict.about_bounds(answer) + said,
    )
    return Fit(t, loss_error(curve, nearest(curve, answer.temperature)))
