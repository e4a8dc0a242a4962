"""Labels for every row: temperature scaling (TS), Guo et al. (2017)."""

import math
from typing import Any

from tepid.curve import Curve
from tepid.engines import Threads
from tepid.errors import InputError
from tepid.methods import verdict
from tepid.methods.search import WIDEST, Question, search
from tepid.optimum import least_loss, loss_step
from tepid.sources import open_source
from tepid.temperature import Temperature


def from_labels(
    logits: Any,
    labels: Any = None,
    *,
    sample_weight: Any = None,
    class_axis: int | None = None,
    engine: Threads | None = None,
) -> Temperature:
    r"""The temperature that minimises the negative log likelihood of the labels, paper eq. 3.

    The loss is convex in 1/T, so this is the optimum and not where an optimiser stopped. The
    interval is 95 % from the sandwich standard error of $\log T$; it is optimistic where the labels
    hold only a handful of errors.

    `labels` may be left out where `logits` is a source that has them.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(20000, 5))
    >>> labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> from_labels(3 * logits, labels).value
    3.0
    """
    source = open_source(logits, labels=labels, sample_weight=sample_weight, class_axis=class_axis)
    if source.labels is None:
        raise InputError("labels must be given, got none")
    question = Question(read=least_loss, step=loss_step, labelled=True)
    answer = search(source, engine or Threads(), question)
    point = answer.point
    return Temperature(
        answer.temperature,
        "temperature",
        samples=round(answer.curve.rows),
        classes=answer.curve.classes,
        implied_accuracy=answer.confidence,
        status=answer.status,
        interval=None if point is None else _interval(answer.temperature, point),
        precision=answer.precision,
        warnings=verdict.about_bounds(answer) + verdict.about_rows(answer.curve),
    )


def _interval(temperature: float, point: Curve) -> tuple[float, float] | None:
    steepness = point.curvature[0, 0] * point.lattice.nodes[0]
    if not steepness:
        return None
    error = math.sqrt(point.square[0, 0]) / steepness
    if error > WIDEST:
        return None
    return temperature * math.exp(-1.96 * error), temperature * math.exp(1.96 * error)
