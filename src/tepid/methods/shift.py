"""An older labelled set, and unlabelled logits from where things may have shifted."""

import dataclasses
import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from tepid import arrays, shapes, summary
from tepid.arrays import Float64
from tepid.engines import Threads
from tepid.errors import InputError
from tepid.kernels import scores
from tepid.methods import verdict
from tepid.methods.accuracy import match
from tepid.methods.search import Answer, Question, mean_confidence, search
from tepid.optimum import least_loss, loss_step
from tepid.sources import Block, Source, open_source
from tepid.temperature import Temperature

Shift = Literal["any", "label", "none"]
# Below this accuracy on the source the estimate of the target's is worse than none.
WEAK = 0.75
_BINS, _LEAST = 4096, 1e-9
_ROUNDS, _SETTLED = 200, 1e-7


@dataclass(frozen=True)
class Entropies:
    """A histogram of the entropies of softmax(z / T), on a fixed logarithmic grid.

    A quantile read off it, and a share up to that, are wrong by at most the share of rows in one
    bin, whose ends lie half a percent apart.
    """

    PARAMETERS: ClassVar = ("classes",)

    classes: int
    rows: float
    correct: float
    counts: Float64

    @classmethod
    def of(cls, block: Block, temperature: float) -> "Entropies":
        """The summary of one block, with its labels if it has any."""
        p = probabilities(block.logits, temperature)
        k = p.shape[1]
        entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)
        place = np.log(np.maximum(entropy, _LEAST) / _LEAST) / math.log(math.log(k) / _LEAST)
        where = np.minimum((place * _BINS).astype(np.int64), _BINS - 1)
        right = 0.0
        if block.labels is not None:
            labels = arrays.label_column(block.labels, len(p), k)
            right = float((p.argmax(axis=1) == labels).sum())
        counts = np.bincount(where, minlength=_BINS).astype(np.float64)
        return cls(k, float(len(p)), right, counts)

    def __add__(self, other: "Entropies") -> "Entropies":
        return summary.added(self, other)

    def quantile(self, share: float) -> float:
        """The place on the grid, in bins, below which this share of the rows lies."""
        below = np.concatenate([[0.0], np.cumsum(self.counts)]) / self.rows
        return float(np.interp(share, below, np.arange(_BINS + 1)))

    def share_below(self, place: float) -> float:
        """The share of the rows below a place on the grid."""
        below = np.concatenate([[0.0], np.cumsum(self.counts)]) / self.rows
        return float(np.interp(place, np.arange(_BINS + 1), below))


def probabilities(logits: Any, temperature: float) -> Float64:
    """The softmax of logits / T in float64, or a refusal that names the row."""
    z = arrays.block(arrays.as_array(logits))
    p = np.empty(z.shape)
    bad = scores.softmax(z, 1.0 / temperature, p)
    if bad >= 0:
        raise arrays.unusable(arrays.as_array(logits), bad)
    return p


def from_source(
    logits: Any,
    source_logits: Any,
    source_labels: Any = None,
    *,
    shift: Shift = "any",
    engine: Threads | None = None,
) -> Temperature:
    r"""The temperature for unlabelled logits from an older labelled set of the same model.

    With `shift="none"` it is temperature scaling on the source. With `"label"` the source's rows
    weigh as much as their classes are now more or less frequent, which the probabilities on the
    target tell by expectation maximisation. With `"any"`, the default, it is the geometric mean of
    source scaling and of matching the accuracy that the target's entropies suggest (ATC: the share
    of rows less uncertain than the source's rows were when it was right); where the source's own
    accuracy is below .75, source scaling alone. Logits cannot say which shift there is; this mean
    was never far worse than source scaling, and better under a real shift.

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
    engine = engine or Threads()
    now = open_source(logits).unlabelled()
    past = open_source(source_logits, labels=source_labels)
    if past.labels is None:
        raise InputError("source_labels must be given, got none")
    answer = _scaled(past, engine)
    _check_classes(answer.curve.classes, now)
    said: tuple[str, ...] = ()
    temperature = answer.temperature
    if shift == "label" and answer.status == "ok":
        answer = _scaled(_reweighted(past, now, engine, answer), engine)
        temperature = answer.temperature
    if shift == "any" and answer.status == "ok":
        temperature, said = _between(past, now, engine, temperature)
    return Temperature(
        temperature,
        f"source-{shift}",
        samples=round(answer.curve.rows),
        classes=answer.curve.classes,
        implied_accuracy=mean_confidence(now, engine, temperature),
        status=answer.status,
        precision=answer.precision,
        warnings=verdict.about_bounds(answer) + said,
    )


def _scaled(past: Source, engine: Threads) -> Answer:
    return search(past, engine, Question(read=least_loss, step=loss_step, labelled=True))


def _between(
    past: Source, now: Source, engine: Threads, temperature: float
) -> tuple[float, tuple[str, ...]]:
    """The geometric mean of the source's temperature and of the one that matches ATC's accuracy."""
    of = partial(Entropies.of, temperature=temperature)
    before, after = engine.total(of, past, "reading source"), engine.total(of, now, "reading")
    right = before.correct / before.rows
    if right < WEAK:
        said = f"The model's accuracy on the source is {right:.3f}, too low to say more than it."
        return temperature, (said,)
    accuracy = after.share_below(before.quantile(right))
    accuracy = min(max(accuracy, 1 / before.classes + 0.005), 0.9995)
    matched = match(now, engine, accuracy)
    said = f"The entropies suggest an accuracy of {accuracy:.3f}; on the source it was {right:.3f}."
    return math.sqrt(temperature * matched.temperature), (said,)


def _reweighted(past: Source, now: Source, engine: Threads, answer: Answer) -> Source:
    """The source with weights that give its classes their frequencies on the target."""
    classes = answer.curve.classes
    labels = arrays.label_column(past.labels, len(past.labels), classes)
    old = np.bincount(labels, minlength=classes) / len(labels)
    ratio = _expected(now, engine, answer.temperature, old)
    return dataclasses.replace(past, weight=ratio[labels])


@dataclass(frozen=True)
class _Frequencies:
    PARAMETERS: ClassVar = ()

    rows: float
    total: Float64

    def __add__(self, other: "_Frequencies") -> "_Frequencies":
        return summary.added(self, other)


def _expected(now: Source, engine: Threads, temperature: float, old: Float64) -> Float64:
    """How much more frequent each class is on the target, by expectation maximisation."""
    new = old.copy()
    known = old > 0
    for _ in range(_ROUNDS):
        ratio = np.where(known, new / np.where(known, old, 1.0), 0.0)

        def of(block: Block, ratio: Float64 = ratio) -> _Frequencies:
            weighed = probabilities(block.logits, temperature) * ratio
            share = weighed / np.maximum(weighed.sum(axis=1, keepdims=True), 1e-300)
            return _Frequencies(float(len(share)), share.sum(axis=0))

        total = engine.total(of, now, "weighing classes")
        following = total.total / total.rows
        moved = np.abs(following - new).max()
        new = following
        if moved < _SETTLED:
            break
    return np.where(known, new / np.where(known, old, 1.0), 0.0)


def _check_classes(classes: int, now: Source) -> None:
    there = shapes.class_count(next(now.blocks(1)).logits) if now.classes is None else now.classes
    if there != classes:
        raise InputError(f"source_logits must have the {there} classes of logits, got {classes}")
