"""Logits alone: unsupervised temperature scaling (UTS), the paper's method, and its guard."""

import dataclasses
import math
from functools import partial
from typing import Any

import numpy as np

from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods.accuracy import match
from tepid.methods.passes import Pass, Passes, on_rows, run_by_group
from tepid.methods.results import (
    CONFIDENT,
    Fit,
    combine_groups,
    loss_error,
    matching_error,
    sensitivity_warnings,
    to_temperature,
    uts_warnings,
)
from tepid.methods.search import Answer, Question, mean_confidence, search
from tepid.sources import Batch, Source, open_source
from tepid.summaries.curve import Curve
from tepid.summaries.optimum import least_loss, loss_step
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature
from tepid.validation import number

_MOST_DEVIATIONS = 1e9
# The standard error of log T by bootstrap is 1.7 (200 rows) to 1.5 (1000 rows) times that by the
# sandwich, which takes the thresholds as fixed.
_THRESHOLDS_MOVE = 1.6


def uts(
    logits: Any,
    *,
    deviations: float = 1.0,
    debias: bool = False,
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
            arguments that returns a new iterator of batches, or a list of batches.
        deviations: The number of standard deviations in $\theta_k$.
        debias: Remove most of the bias of order 1/n in $\log T$ by a jackknife of two halves, the
            even and the odd rows. T comes nearer to UTS on many rows, with more noise; whether that
            calibrates better depends on the model. Weights are refused, since the halves are
            defined by the position of the rows.
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
    if not 0 <= number(deviations, "deviations") <= _MOST_DEVIATIONS:
        most = f"{_MOST_DEVIATIONS:g}"
        raise InputError(f"deviations must be a number in 0 to {most}, got {deviations}")
    source = open_source(
        logits,
        sample_weight=sample_weight,
        class_axis=class_axis,
        groups=groups,
        columns=columns,
        probabilities=probabilities,
    ).select()
    check_repeatable(source)
    if debias and source.weighted:
        raise InputError("sample_weight must be left out with debias, got one")
    engine = choose_engine(engine, source)
    fits = run_by_group(lambda _: _fit(deviations, debias=debias), source, engine)
    return combine_groups(fits, source, engine)


def guarded(
    logits: Any,
    *,
    budget: float = 0.03,
    sample_weight: Any = None,
    class_axis: int | None = None,
    groups: Any = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Temperature:
    r"""A temperature from unlabeled logits; T = 1 unless another is expected to help.

    Highly confident networks are overconfident, and UTS estimates by how much: the network's own
    error odds are multiplied by $T_{UTS}^2$ and the mean confidence is matched to that,
    $\mathrm{logit}(a) = \mathrm{logit}(conf(1)) - 2 \log T_{UTS}$. Below a mean confidence of .95
    no such regularity was found, and the result is T = 1 with status `abstained`.

    The confidence moves by at most `budget`, so that the calibration error over any fixed grouping
    of the fitted rows grows by at most that much, whatever the truth. Equal-width ECE groups the
    rows anew when T changes; there the bound is not exact. With `groups`, one name per row, each
    group is guarded by itself; the budget then holds for what its rows alone would give.

    >>> import numpy as np
    >>> logits = 4 * np.random.default_rng(0).normal(size=(5000, 10))
    >>> guarded(logits).status
    'abstained'
    """
    check_budget(budget)
    source = open_source(
        logits,
        sample_weight=sample_weight,
        class_axis=class_axis,
        groups=groups,
        columns=columns,
        probabilities=probabilities,
    ).select()
    check_repeatable(source)
    engine = choose_engine(engine, source)
    fits = run_by_group(lambda _: guarded_fit(budget), source, engine)
    return combine_groups(fits, source, engine)


def check_repeatable(source: Source) -> None:
    """Raise unless the rows can be read twice: for the thresholds of UTS, then for its loss."""
    if not source.repeatable:
        raise InputError(
            "logits must be readable more than once, got an iterator; pass a function that returns "
            "a new iterator of batches"
        )


def _fit(deviations: float, *, debias: bool) -> Passes[Fit]:
    answer, tails = yield from unsupervised(deviations)
    error = thresholds_error(answer)
    if debias:
        jackknifed = yield from _jackknifed(deviations, answer)
        if jackknifed is not None:
            confidence = yield from mean_confidence(jackknifed)
            return Fit(uts_result(answer, tails, jackknifed, confidence, debiased=True), error)
    return Fit(uts_result(answer, tails, answer.temperature, answer.confidence), error)


def thresholds_error(answer: Answer) -> float | None:
    """The standard error of log T from sampling, which moves the thresholds too.

    It is not the distance to the oracle temperature.
    """
    error = loss_error(answer.point)
    return None if error is None else _THRESHOLDS_MOVE * error


def unsupervised(
    deviations: float = 1.0, *, repeatable: bool = True
) -> Passes[tuple[Answer, Tails]]:
    """The answer of UTS, with the tails from which its thresholds were computed."""
    tails: Tails = yield Pass(tails_of, Tails, "reading")
    answer = yield from search(uts_question(tails, deviations), repeatable=repeatable)
    return answer, tails


def uts_question(tails: Tails, deviations: float = 1.0) -> Question:
    """The question of UTS, at half, once and twice the deviations."""
    thresholds = tails.thresholds(np.array([[0.5], [1.0], [2.0]]) * deviations)
    return Question(
        read=partial(least_loss, weighting=1),
        step=partial(loss_step, weighting=1),
        others=(partial(least_loss, weighting=0), partial(least_loss, weighting=2)),
        thresholds=thresholds,
        exact_thresholds=thresholds[1:2],
        per_octave=1,
        first=(-2, 2),
    )


def tails_of(batch: Batch) -> Tails:
    """The tails of a batch."""
    return Tails.of(batch.logits, sample_weight=batch.weight)


def _jackknifed(deviations: float, answer: Answer) -> Passes[float | None]:
    """T² over the geometric mean of the halves' T, unless one of the three has none."""
    if answer.status != "ok" or answer.curve.rows < 2:
        return None
    halves = []
    for parity in (0, 1):
        rows = partial(Batch.half, parity=parity)
        half, _ = yield from on_rows(unsupervised(deviations), rows)
        halves.append(half)
    if any(half.status != "ok" for half in halves):
        return None
    even, odd = (half.temperature for half in halves)
    return answer.temperature**2 / math.sqrt(even * odd)


def uts_result(
    answer: Answer, tails: Tails, temperature: float, confidence: float, *, debiased: bool = False
) -> Temperature:
    """The result of UTS with its sensitivity and warnings."""
    notes = uts_warnings(answer.curve, tails, debiased=debiased) + sensitivity_warnings(answer)
    ratio = temperature / answer.temperature
    half, double = (ratio * other for other in answer.others)
    return dataclasses.replace(
        to_temperature(answer, "uts-debiased" if debiased else "uts", notes=notes),
        value=temperature,
        implied_accuracy=confidence,
        sensitivity=(half, double),
    )


def check_budget(budget: float) -> None:
    """Raise if the budget is not a share."""
    if not 0 < number(budget, "budget") <= 1:
        raise InputError(f"budget must be in (0, 1], got {budget}")


def guarded_fit(budget: float, *, repeatable: bool = True) -> Passes[Fit]:
    """The guarded fit of all rows or of a group."""
    answer, tails = yield from unsupervised(repeatable=repeatable)
    return (yield from guarded_after_uts(answer, tails, budget, repeatable=repeatable))


def guarded_after_uts(
    answer: Answer,
    tails: Tails,
    budget: float,
    *,
    repeatable: bool = True,
    curve: Curve | None = None,
) -> Passes[Fit]:
    """The same fit where UTS has been computed; `curve` is that of `search`."""
    confidence = float(tails.confidence.sum() / tails.weight)
    rows, classes = round(answer.curve.rows), answer.curve.classes
    if answer.status != "ok" or not CONFIDENT <= confidence < 1:
        t = Temperature(
            1.0,
            "guarded",
            samples=rows,
            classes=classes,
            implied_accuracy=confidence,
            status="abstained",
            warnings=(_why_abstained(answer, confidence),),
        )
        return Fit(t, None)
    odds = confidence / (1 - confidence) / answer.temperature**2
    wanted = min(max(odds / (1 + odds), confidence - budget), confidence + budget)
    reachable = min(wanted, (1 + confidence) / 2)
    matched = yield from match(reachable, repeatable=repeatable, curve=curve)
    # logit(a) moves by twice what log T of UTS does, and a by a (1 - a) of that.
    known = 2 * wanted * (1 - wanted) * (thresholds_error(answer) or 0.0)
    return Fit(to_temperature(matched, "guarded"), matching_error(matched.point, known))


def _why_abstained(answer: Answer, confidence: float) -> str:
    if answer.status != "ok":
        return "UTS found no temperature, so that nothing is known beyond the network's own word."
    return (
        f"The mean confidence is {confidence:.3f}; outside .95 to 1 no rule was found that helps "
        "more often than it harms. Give the model's accuracy, or some labels."
    )
