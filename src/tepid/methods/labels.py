"""Labels of every row: temperature scaling (TS), Guo et al. (2017)."""

import math
from typing import Any

from tepid import validation
from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods.passes import Key, Pass, Passes, run_by_group
from tepid.methods.results import (
    Fit,
    combine_groups,
    loss_error,
    nearest_node,
    to_temperature,
)
from tepid.methods.search import Answer, Question, read_off, search
from tepid.sources import Batch, Source, open_source
from tepid.summaries.clusters import ClusterSums, label_scores
from tepid.summaries.curve import Curve
from tepid.summaries.optimum import least_loss, loss_step
from tepid.summaries.shared import Summaries
from tepid.temperature import Temperature

QUESTION = Question(read=least_loss, step=loss_step, labeled=True)


def temperature_scaling(
    logits: Any,
    labels: Any = None,
    *,
    sample_weight: Any = None,
    class_axis: int | None = None,
    groups: Any = None,
    clusters: Any = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Temperature:
    r"""The temperature that minimizes the negative log likelihood of the labels, paper eq. 3.

    The loss is convex in 1/T, so this is the global optimum. The 95 % interval comes from the
    sandwich standard error of $\log T$; it is too narrow where the labels contain only a handful of
    errors.

    Every row needs a label; `tepid.calibrate` takes labels of some. `labels` may be left out where
    `logits` is a source that has them, or `tepid.Summaries`. `groups`, one name per row,
    gives each group a temperature of its own in `Temperature.groups`. With `clusters`, one name per
    row, or with arrays of more than two dimensions, the interval takes the cluster or the item on
    the first axis as the unit, since the pixels of an image are not independent.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(20000, 5))
    >>> labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> temperature_scaling(3 * logits, labels).value
    3.0
    """
    if isinstance(logits, Summaries):
        logits.check_rows_needed(
            labels=labels, sample_weight=sample_weight, class_axis=class_axis, groups=groups,
            clusters=clusters, columns=columns, probabilities=probabilities, engine=engine,
        )  # fmt: skip
        logits.check_weight()
        if logits.labels is None or not logits.labels.weight:
            raise InputError("summaries must be of rows with labels, got none")
        return labeled_temperature(logits.labels)
    source = open_source(
        logits,
        labels=labels,
        sample_weight=sample_weight,
        class_axis=class_axis,
        groups=groups,
        clusters=clusters,
        columns=columns,
        probabilities=probabilities,
    )
    if not source.labeled:
        raise InputError("labels must be given, got none")
    engine = choose_engine(engine, source)

    def fit(_: Key) -> Passes[Fit]:
        return _fit(source)

    return combine_groups(run_by_group(fit, source, engine), source, engine)


def labeled_temperature(curve: Curve) -> Temperature:
    """The temperature of least loss, read off the curve of labeled rows."""
    answer = read_off(QUESTION, curve)
    error = loss_error(curve, nearest_node(curve, answer.temperature))
    return to_temperature(answer, "temperature", error=error if answer.status == "ok" else None)


def _fit(source: Source) -> Passes[Fit]:
    answer = yield from search(QUESTION, repeatable=source.repeatable)
    error = loss_error(answer.point)
    if error is not None and source.clustered:
        error = yield from _clustered_error(answer, error)
    return Fit(to_temperature(answer, "temperature", error=error), error)


def _clustered_error(answer: Answer, error: float) -> Passes[float | None]:
    """The sandwich standard error with the scores summed by cluster."""
    t = answer.temperature
    scores: ClusterSums = yield Pass(lambda batch: _scores(batch, t), "measuring clusters")
    if scores.variance is None or answer.point is None:
        return None
    by_row = float(answer.point.square[0, 0]) * float(answer.point.lattice.nodes[0]) ** 2
    return max(error, error * math.sqrt(scores.variance / by_row))


def _scores(batch: Batch, temperature: float) -> ClusterSums:
    z = validation.to_host(validation.as_array(batch.logits))
    weight = validation.weight_column(batch.weight, len(z))
    scores = label_scores(z, batch.labels, temperature)
    return ClusterSums.of(scores, weight, batch.buckets())
