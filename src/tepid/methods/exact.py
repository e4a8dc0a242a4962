"""The exact methods of the literature: UTS, temperature scaling and matching an accuracy."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tepid import validation
from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods.accuracy import Accuracy, Counted, Estimate, Range, estimate, estimate_groups
from tepid.methods.passes import Fit, Key, Pass, Passes, fit_by_group, group_weights
from tepid.methods.search import Answer, Question, loss_error, read_off, search, to_temperature
from tepid.sources import Batch, Source, open_source
from tepid.summaries.clusters import ClusterSums, label_scores
from tepid.summaries.curve import Curve
from tepid.summaries.optimum import LeastLoss, MatchingConfidence
from tepid.summaries.shared import Summaries
from tepid.summaries.summary import softmax
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature
from tepid.validation import number

_MOST_DEVIATIONS = 1e9
# The standard error of log T by bootstrap is 1.7 (200 rows) to 1.5 (1000 rows) times that by the
# sandwich, which takes the thresholds as fixed.
_THRESHOLDS_MOVE = 1.6
# Below this mean confidence UTS was measured to help and to harm about equally often.
_CONFIDENT = 0.95
# The bias of UTS is noticeable below this number of rows.
_ENOUGH_ROWS = 1000
_LABELED = Question(labeled=True)


# Logits alone -------------------------------------------------------------------------------------


def uts(
    logits: Any,
    *,
    deviations: float = 1.0,
    sample_weight: Any = None,
    class_axis: int | None = None,
    groups: Any = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Temperature:
    r"""The temperature of unlabeled logits by UTS, Mozafari et al. (2019), eq. 4-8.

    $T^* = \arg\min_T \sum_k \sum_{i \in M_k} -\log \mathrm{softmax}(z_i / T)_k$ with
    $M_k = \{i : S_{ik} \ge \theta_k\}$, $S = \mathrm{softmax}(z)$ and $\theta_k$ the mean plus
    `deviations` standard deviations of $S_{ik}$ over the rows that are not predicted k.

    Logits alone do not identify a temperature: UTS assumes that T = 1 is the scale of training, and
    on 30 real sets it did harm to eight. So the result has no interval. Compare its
    `implied_accuracy` with what you know of the model, and see `sensitivity`, the temperatures for
    half and twice the deviations; `warnings` name the conditions under which UTS was measured to
    fail.

    Args:
        logits: An array (n, k), (n,) for binary logits, a path to `.npy`, `.csv`, `.parquet` and
            others, a folder or a glob of them, a URL, a list of any, a function without
            arguments that returns a new iterator of batches, a list of batches, or
            `tepid.Summaries` of the second round.
        deviations: The number of standard deviations in $\theta_k$.
        sample_weight: One weight per row.
        class_axis: Where the classes are, for arrays of more than two dimensions.
        groups: One name per row: each group gets a temperature of its own, in `groups` of the
            result. Small groups are shrunk toward the temperature of all rows.
        columns: The columns of a table that are the logits, where that is ambiguous.
        probabilities: The values are probabilities; their logarithms are the logits.
        engine: Where the sums are computed, by default on threads of this process.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = 4 * rng.normal(size=(5000, 10))
    >>> round(uts(logits).value, 2)
    1.06
    """
    deviations = number(deviations, "deviations")
    if not 0 <= deviations <= _MOST_DEVIATIONS:
        most = f"{_MOST_DEVIATIONS:g}"
        raise InputError(f"deviations must be a number in 0 to {most}, got {deviations}")
    if isinstance(logits, Summaries):
        logits.check_rows_needed(
            deviations=None if deviations == 1.0 else deviations, sample_weight=sample_weight,
            class_axis=class_axis, groups=groups, columns=columns, probabilities=probabilities,
            engine=engine,
        )  # fmt: skip
        question = uts_question(logits.tails)
        logits.check_round(question.thresholds)
        return uts_result(read_off(question, logits.curve), logits.tails)
    source = open_source(
        logits,
        sample_weight=sample_weight,
        class_axis=class_axis,
        groups=groups,
        columns=columns,
        probabilities=probabilities,
    ).select()
    check_repeatable(source)
    return fit_by_group(lambda _: _fit_uts(deviations), source, choose_engine(engine, source))


def check_repeatable(source: Source) -> None:
    """Raise unless the rows can be read twice: for the thresholds of UTS, then for its loss."""
    if not source.repeatable:
        raise InputError(
            "logits must be readable more than once, got an iterator; pass a function that returns "
            "a new iterator of batches"
        )


def _fit_uts(deviations: float) -> Passes[Fit]:
    tails: Tails = yield Pass(tails_of, "reading")
    answer = yield from search(uts_question(tails, deviations))
    # From sampling, which moves the thresholds too. It is not the distance to the oracle.
    error = loss_error(answer.point)
    return Fit(uts_result(answer, tails), None if error is None else _THRESHOLDS_MOVE * error)


def tails_of(batch: Batch) -> Tails:
    """The tails of a batch."""
    return Tails.of(batch.logits, sample_weight=batch.weight)


def uts_question(tails: Tails, deviations: float = 1.0) -> Question:
    """The question of UTS, at half, once and twice the deviations."""
    return Question(
        LeastLoss(1),
        others=(LeastLoss(0), LeastLoss(2)),
        thresholds=tails.thresholds(np.array([[0.5], [1.0], [2.0]]) * deviations),
        per_octave=1,
        first=(-2, 2),
    )


def uts_result(answer: Answer, tails: Tails) -> Temperature:
    """The result of UTS with its sensitivity and warnings."""
    notes = uts_warnings(answer.curve, tails)
    readings = zip(("half", "twice"), answer.readings[1:], strict=True)
    edges = [name for name, reading in readings if reading.where != "inside"]
    if edges and answer.reading.where == "inside":
        notes += (f"UTS finds no optimum in the range with {' and '.join(edges)} the deviations.",)
    half, double = answer.others
    return dataclasses.replace(
        to_temperature(answer, "uts", notes=notes), sensitivity=(half, double)
    )


def uts_warnings(curve: Curve, tails: Tails) -> tuple[str, ...]:
    """The conditions under which UTS was measured to fail."""
    found = []
    if curve.rows < _ENOUGH_ROWS:
        found.append(
            f"UTS is biased toward high temperatures with fewer than {_ENOUGH_ROWS} rows; there "
            f"are {curve.rows:.0f}."
        )
    mean = float(tails.confidence.sum() / tails.weight)
    if mean < _CONFIDENT:
        found.append(
            f"The mean confidence at T = 1 is {mean:.3f}. Below {_CONFIDENT}, UTS helped and "
            "harmed about equally often in the benchmark. tepid.calibrate keeps T = 1 in this "
            "case, unless you give labels, an accuracy or other evidence."
        )
    if np.count_nonzero(tails.predicted) == 1:
        only = int(tails.predicted.argmax())
        found.append(
            f"Every row is predicted as class {only}, so the rows say little about the others."
        )
    return tuple(found)


# Labels -------------------------------------------------------------------------------------------


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

    Temperature scaling (TS), Guo et al. (2017). The loss is convex in 1/T, so this is the global
    optimum. The 95 % interval comes from the sandwich standard error of $\log T$; it is too narrow
    where the labels contain only a handful of errors.

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
    return fit_by_group(lambda _: _fit_labels(source), source, choose_engine(engine, source))


def labeled_temperature(curve: Curve) -> Temperature:
    """The temperature of least loss, read off the curve of labeled rows."""
    answer = read_off(_LABELED, curve)
    error = loss_error(curve, curve.nearest_node(answer.temperature))
    return to_temperature(answer, "temperature", error=error if answer.status == "ok" else None)


def _fit_labels(source: Source) -> Passes[Fit]:
    answer = yield from search(_LABELED, repeatable=source.repeatable)
    error = loss_error(answer.point)
    if error is not None and answer.point is not None and source.clustered:
        error = yield from _clustered_error(answer.temperature, answer.point, error)
    return Fit(to_temperature(answer, "temperature", error=error), error)


def _clustered_error(temperature: float, point: Curve, error: float) -> Passes[float | None]:
    """The sandwich standard error with the scores summed by cluster; None from one cluster."""

    def of(batch: Batch) -> ClusterSums:
        z = validation.to_host(validation.as_array(batch.logits))
        weight = validation.weight_column(batch.weight, len(z))
        return ClusterSums.of(label_scores(z, batch.labels, temperature), weight, batch.buckets())

    scores: ClusterSums = yield Pass(of, "measuring clusters")
    if scores.variance is None:
        return None
    by_row = float(point.square[0, 0]) * float(point.lattice.nodes[0]) ** 2
    return max(error, error * math.sqrt(scores.variance / by_row))


# A known accuracy ---------------------------------------------------------------------------------


def match_accuracy(
    logits: Any,
    accuracy: Accuracy | Mapping[str, Accuracy],
    *,
    sample_weight: Any = None,
    class_axis: int | None = None,
    groups: Any = None,
    clusters: Any = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Temperature:
    r"""The temperature at which the mean confidence on unlabeled logits equals a known accuracy.

    Solves $\frac1n \sum_i \max_k \mathrm{softmax}(z_i/T)_k = a$; confidence falls strictly in T, so
    there is one. It makes $|conf - acc|$, a lower bound of the ECE, zero, but it is not the T of
    least NLL unless temperature scaling is right for the model. `tepid.calibrate` takes the error
    of the accuracy into account where it places T; this method does not.

    The accuracy is a number, `(value, standard error)`, `tepid.Counted` or `tepid.Range`. The 95 %
    interval comes from the spread of the confidences and the error of the accuracy; for a range it
    spans the temperatures that match its ends. With `groups`, one name per row, a mapping gives
    each group's accuracy; a single one is taken as the accuracy of every group. `clusters` are
    those of `tepid.temperature_scaling`. `logits` may be `tepid.Summaries`.

    >>> import numpy as np
    >>> logits = 4 * np.random.default_rng(0).normal(size=(5000, 10))
    >>> t = match_accuracy(logits, 0.6)
    >>> float(t(logits).max(axis=1).mean())
    0.6
    """
    if isinstance(logits, Summaries):
        logits.check_rows_needed(
            sample_weight=sample_weight, class_axis=class_axis, groups=groups, clusters=clusters,
            columns=columns, probabilities=probabilities, engine=engine,
        )  # fmt: skip
        logits.check_weight()
        return matched_temperature(logits.curve, _to_match(accuracy).value)
    source = open_source(
        logits,
        sample_weight=sample_weight,
        class_axis=class_axis,
        groups=groups,
        clusters=clusters,
        columns=columns,
        probabilities=probabilities,
    ).select(clusters=True)
    engine = choose_engine(engine, source)
    weights = group_weights(source, engine)
    if isinstance(accuracy, Mapping):
        known = estimate_groups(accuracy, weights, _to_match)
    else:
        known = dict.fromkeys((None, *weights), _to_match(accuracy))

    def fit(key: Key) -> Passes[Fit]:
        given = accuracy.get(str(key)) if isinstance(accuracy, Mapping) else accuracy
        ends = (given.high, given.low) if isinstance(given, Range) else ()
        return _fit_accuracy(known[key], ends, source)

    return fit_by_group(fit, source, engine, (None, *weights))


def matched_temperature(curve: Curve, accuracy: float) -> Temperature:
    """The temperature with this mean confidence, read off a curve."""
    return to_temperature(read_off(Question(MatchingConfidence(accuracy)), curve), "accuracy")


def _to_match(accuracy: Any) -> Estimate:
    """What the exact method matches: a number as it is, and a count as its share."""
    if isinstance(accuracy, Counted):
        return Estimate(accuracy.correct / accuracy.checked, estimate(accuracy).error)
    known = estimate(accuracy)
    exact = not isinstance(accuracy, (tuple, list, Estimate))
    return Estimate(known.value, 0.0 if exact else known.error)


def _fit_accuracy(known: Estimate, ends: tuple[float, ...], source: Source) -> Passes[Fit]:
    """The fit to an accuracy; `ends` are those of a range, the higher accuracy first."""
    others = tuple(MatchingConfidence(end) for end in ends)
    question = Question(MatchingConfidence(known.value), others=others)
    answer = yield from search(question, repeatable=source.repeatable)
    error, t = None, answer.temperature
    if answer.point is not None:
        sampling = _sampling_variance(answer.point)
        if source.clustered:
            sampling = max(sampling, (yield from _clustered_variance(t)))
        error = _matching_error(answer.point, sampling + known.error**2)
    found = to_temperature(answer, "accuracy", error=error)
    if answer.others:
        found = dataclasses.replace(found, interval=(answer.others[0], answer.others[1]))
    return Fit(found, error)


def _sampling_variance(point: Curve) -> float:
    """The variance of the mean confidence of independent rows; infinite for a single row."""
    if point.rows < 2:
        return math.inf
    mean = point.confidence[0] / point.weight
    variance = max(point.confidence_square[0] / point.weight - mean**2, 0.0)
    return float(variance * point.weight_square / point.weight**2)


def _clustered_variance(temperature: float) -> Passes[float]:
    """The variance of the mean confidence of clusters; infinite for a single cluster."""

    def of(batch: Batch) -> ClusterSums:
        z = validation.to_host(validation.as_array(batch.logits))
        weight = validation.weight_column(batch.weight, len(z))
        return ClusterSums.of(softmax(z, temperature).max(axis=1), weight, batch.buckets())

    sums: ClusterSums = yield Pass(of, "measuring clusters")
    if sums.variance is None:
        return math.inf
    return sums.variance / float(sums.weight.sum()) ** 2


def _matching_error(point: Curve, variance: float) -> float | None:
    """The standard error of log T from the variance of the confidence less the accuracy."""
    slope = float(point.lattice.nodes[0] * point.confidence_slope[0] / point.weight)
    return math.sqrt(variance) / slope if slope and math.isfinite(variance) else None
