"""An older labeled set, and unlabeled logits whose distribution may have shifted since."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tepid import validation
from tepid.engines import Engine, choose_engine
from tepid.errors import InputError, RowError
from tepid.methods.labels import QUESTION
from tepid.methods.passes import (
    Both,
    Key,
    Pass,
    Passes,
    both,
    check_total,
    check_weight,
    run,
    run_by_group,
)
from tepid.methods.results import (
    Fit,
    bound_warnings,
    combine_groups,
    effective_rows,
    loss_error,
    matching_error,
    nearest_node,
)
from tepid.methods.search import (
    LAST_STEP,
    Answer,
    curve_of,
    exact_answer,
    locate,
    read_off,
    refine,
    step_from,
)
from tepid.sources import Batch, Source, open_source
from tepid.summaries import arithmetic
from tepid.summaries.curve import Curve
from tepid.summaries.lattice import Lattice
from tepid.summaries.optimum import INTERPOLATION, confidence_at, matching_confidence
from tepid.temperature import Temperature, softmax
from tepid.validation import Float64

# Below this accuracy on the source, the estimate of the target's accuracy is worse than none.
_LOWEST_ACCURACY = 0.75
# The accuracy to match is kept this far above chance, and no higher than this.
_ABOVE_CHANCE, _HIGHEST_MATCH = 0.005, 0.9995
# The target is summed from T / 8 to 8 T around the source's T, at so many nodes per octave.
_REACH, _PER_OCTAVE = 3, 4
# The grid of entropies: its number of bins and its lower end.
_BINS, _LEAST_ENTROPY = 4096, 1e-9


@dataclass(frozen=True)
class Entropies:
    """A histogram of the entropies of softmax(z / T), on a fixed logarithmic grid.

    A quantile of it, and the share of rows below a place, are wrong by at most the share of rows in
    one bin, whose edges differ by half a percent.
    """

    PARAMETERS: ClassVar = ("classes",)

    classes: int
    weight: float
    correct: float  # the weight of the rows that are predicted correctly
    counts: Float64  # the weight of the rows in each bin

    @classmethod
    def of(cls, batch: Batch, temperature: float) -> "Entropies":
        """The summary of one batch, with its labels if it has any."""
        p = softmax(batch.logits, temperature)
        k = p.shape[1]
        entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)
        place = np.log(np.maximum(entropy, _LEAST_ENTROPY) / _LEAST_ENTROPY)
        place /= math.log(math.log(k) / _LEAST_ENTROPY)
        where = np.minimum((place * _BINS).astype(np.int64), _BINS - 1)
        u = validation.weight_column(batch.weight, len(p))
        correct = 0.0
        if batch.labels is not None:
            labels = validation.label_column(batch.labels, len(p), k, weight=u)
            correct = float(u @ (p.argmax(axis=1) == labels))
        counts = np.bincount(where, u, _BINS).astype(np.float64)
        return cls(k, float(u.sum()), correct, counts)

    def __add__(self, other: "Entropies") -> "Entropies":
        return arithmetic.added(self, other)

    def quantile(self, share: float) -> float:
        """The place on the grid, in bins, below which this share of the rows lies."""
        below = np.concatenate([[0.0], np.cumsum(self.counts)]) / self.weight
        return float(np.interp(share, below, np.arange(_BINS + 1)))

    def share_below(self, place: float) -> float:
        """The share of the rows below a place on the grid."""
        below = np.concatenate([[0.0], np.cumsum(self.counts)]) / self.weight
        return float(np.interp(place, np.arange(_BINS + 1), below))


@dataclass(frozen=True)
class _Target:
    """The curve of the unlabeled rows, and their entropies at the source's temperature."""

    curve: Curve
    entropies: Entropies


def from_source(
    logits: Any,
    source_logits: Any,
    source_labels: Any = None,
    *,
    sample_weight: Any = None,
    source_weight: Any = None,
    class_axis: int | None = None,
    groups: Any = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Temperature:
    r"""The temperature for unlabeled logits from the source, an older labeled set of the model.

    This is the geometric mean of two temperatures: temperature scaling on the source, and the
    temperature that matches the accuracy which the entropies of the unlabeled rows suggest (average
    thresholded confidence, ATC: the share of rows with an entropy below $q$, where on the source
    the share below $q$ is the accuracy). Where the accuracy on the source is below .75, it is
    temperature scaling on the source alone. Logits cannot tell which kind of shift there is; on our
    benchmark this mean was never much worse than source scaling, and better under a real shift.

    The source is read twice and the unlabeled rows once, which may therefore be an iterator. With
    `groups`, one name per unlabeled row, each group gets a temperature of its own. `sample_weight`
    is one weight per unlabeled row, `source_weight` one per row of the source.

    `implied_accuracy` is the mean confidence on the unlabeled rows, and the accuracy that the
    entropies suggest is in `warnings`. There is no interval, since none would cover the shift.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> old = rng.normal(size=(4000, 5))
    >>> labels = (old + rng.gumbel(size=old.shape)).argmax(axis=1)
    >>> round(from_source(3 * rng.normal(size=(4000, 5)), 3 * old, labels).value)
    3
    """
    check_weight(source_weight, "source_weight")
    given: dict[str, Any] = {
        "class_axis": class_axis, "columns": columns, "probabilities": probabilities,
    }  # fmt: skip
    now = open_source(logits, sample_weight=sample_weight, groups=groups, **given).select()
    past = open_source(source_logits, labels=source_labels, sample_weight=source_weight, **given)
    past = past.renamed("source_logits") if past.name == "logits" else past
    if not past.labeled:
        raise InputError("source_labels must be given, got none")
    engine = choose_engine(engine, now, past)
    if not past.repeatable:
        raise InputError("source_logits must be readable more than once, got an iterator")
    try:
        return combine_groups(_fits(past, now, engine), now, engine)
    except RowError as error:
        raise error.moved(0, "source_labels") if error.name == "labels" else error from None


def _fits(past: Source, now: Source, engine: Engine) -> dict[Key, Fit]:
    answer, entropies = run(_fit_source(), past, engine)
    targets = _targets(answer, now, engine)
    if entropies is None:
        return {key: _source_fit(answer, target) for key, target in targets.items()}
    accuracy = entropies.correct / entropies.weight
    if accuracy < _LOWEST_ACCURACY:
        note = f"The model's accuracy on the source is {accuracy:.3f}, too low to say more than it."
        return {key: _source_fit(answer, target, note) for key, target in targets.items()}
    return {key: _mean_fit(answer, entropies, target) for key, target in targets.items()}


def _fit_source() -> Passes[tuple[Answer, Entropies | None]]:
    """Source scaling in two passes, the second of which also sums the entropies near its T."""
    curve, readings = yield from locate(QUESTION)
    if readings[0].where != "inside":
        return read_off(curve, readings), None
    near = readings[0].temperature
    exact = curve_of(QUESTION, Lattice.point(near), exact=True)
    entropies = partial(Entropies.of, temperature=near)
    found: Both = yield Pass(both(exact, entropies), Both, "finishing")
    point = found.first
    temperature, step = step_from(QUESTION, point, curve)
    if abs(step) >= LAST_STEP:
        temperature, point = yield from refine(QUESTION, temperature, curve)
    return exact_answer(QUESTION, temperature, curve, point, readings), found.second


def _targets(answer: Answer, now: Source, engine: Engine) -> dict[Key, _Target]:
    """The unlabeled rows, all of them and each group, in one pass."""
    near = answer.reading.temperature
    octave = -math.log2(near)
    window = (math.floor(octave) - _REACH, math.ceil(octave) + _REACH)
    lattice = Lattice.window(*window, per_octave=_PER_OCTAVE)

    def curve(batch: Batch) -> Curve:
        return Curve.of(batch.logits, lattice=lattice, sample_weight=batch.weight, bins=0)

    def target(_: Key) -> Passes[_Target]:
        entropies = partial(Entropies.of, temperature=near)
        found: Both = yield Pass(both(curve, entropies), Both, "reading")
        return _Target(found.first, found.second)

    targets = run_by_group(target, now, engine)
    there, known = targets[None].curve.classes, answer.curve.classes
    if there != known:
        raise InputError(f"source_logits must have the {there} classes of logits, got {known}")
    check_total(targets[None].curve.weight)
    return targets


def _mean_fit(answer: Answer, entropies: Entropies, target: _Target) -> Fit:
    """The geometric mean of the source's temperature and of the one that matches ATC's accuracy."""
    known = entropies.correct / entropies.weight
    suggested = target.entropies.share_below(entropies.quantile(known))
    accuracy = min(max(suggested, 1 / entropies.classes + _ABOVE_CHANCE), _HIGHEST_MATCH)
    matched = matching_confidence(target.curve, accuracy)
    note = (
        f"The entropies suggest an accuracy of {suggested:.3f}; on the source it was {known:.3f}."
    )
    if accuracy != suggested:
        note += f" The accuracy was limited to {accuracy:.4f}."
    if matched.where != "inside":
        note += f" No T within a factor of {2**_REACH} of the source's gives it."
    unsure = math.sqrt(accuracy * (1 - accuracy) / effective_rows(target.curve))
    node = nearest_node(target.curve, matched.temperature)
    error = matching_error(target.curve, unsure, node)
    temperature = math.sqrt(answer.temperature * matched.temperature)
    t = _temperature(temperature, answer, target, note)
    return Fit(t, None if error is None else error / 2)


def _source_fit(answer: Answer, target: _Target, *notes: str) -> Fit:
    """The source's temperature as it is."""
    curve = answer.curve if answer.point is None else answer.point
    error = loss_error(curve, nearest_node(curve, answer.temperature))
    return Fit(_temperature(answer.temperature, answer, target, *notes), error)


def _temperature(value: float, answer: Answer, target: _Target, *notes: str) -> Temperature:
    return Temperature(
        value,
        "source",
        samples=round(answer.curve.rows),
        classes=answer.curve.classes,
        implied_accuracy=min(max(confidence_at(target.curve, value), 0.0), 1.0),
        status=answer.status,
        precision=max(answer.precision, INTERPOLATION[_PER_OCTAVE]),
        warnings=bound_warnings(answer) + notes,
    )
