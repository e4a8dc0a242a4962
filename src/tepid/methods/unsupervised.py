"""Logits alone: unsupervised temperature scaling (UTS), the paper's method."""

import dataclasses
from functools import partial
from typing import Any

import numpy as np

from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods.passes import Pass, Passes, run_by_group
from tepid.methods.results import (
    Fit,
    combine_groups,
    loss_error,
    sensitivity_warnings,
    to_temperature,
    uts_warnings,
)
from tepid.methods.search import Answer, Question, read_off, search
from tepid.sources import Batch, Source, open_source
from tepid.summaries.optimum import least_loss, loss_interpolation, loss_step
from tepid.summaries.shared import Summaries
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
    if not 0 <= number(deviations, "deviations") <= _MOST_DEVIATIONS:
        most = f"{_MOST_DEVIATIONS:g}"
        raise InputError(f"deviations must be a number in 0 to {most}, got {deviations}")
    if isinstance(logits, Summaries):
        logits.check_rows_needed(
            deviations=None if deviations == 1.0 else deviations, sample_weight=sample_weight,
            class_axis=class_axis, groups=groups, columns=columns, probabilities=probabilities,
            engine=engine,
        )  # fmt: skip
        return _from_summaries(logits)
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
    fits = run_by_group(lambda _: _fit(deviations), source, engine)
    return combine_groups(fits, source, engine)


def check_repeatable(source: Source) -> None:
    """Raise unless the rows can be read twice: for the thresholds of UTS, then for its loss."""
    if not source.repeatable:
        raise InputError(
            "logits must be readable more than once, got an iterator; pass a function that returns "
            "a new iterator of batches"
        )


def _fit(deviations: float) -> Passes[Fit]:
    answer, tails = yield from unsupervised(deviations)
    return Fit(uts_result(answer, tails), thresholds_error(answer))


def thresholds_error(answer: Answer) -> float | None:
    """The standard error of log T from sampling, which moves the thresholds too.

    It is not the distance to the oracle temperature.
    """
    error = loss_error(answer.point)
    return None if error is None else _THRESHOLDS_MOVE * error


def unsupervised(deviations: float = 1.0) -> Passes[tuple[Answer, Tails]]:
    """The answer of UTS, with the tails from which its thresholds were computed."""
    tails: Tails = yield Pass(tails_of, "reading")
    answer = yield from search(uts_question(tails, deviations))
    return answer, tails


def uts_question(tails: Tails, deviations: float = 1.0) -> Question:
    """The question of UTS, at half, once and twice the deviations."""
    thresholds = tails.thresholds(np.array([[0.5], [1.0], [2.0]]) * deviations)
    return Question(
        read=partial(least_loss, weighting=1),
        step=partial(loss_step, weighting=1),
        interpolation=partial(loss_interpolation, weighting=1),
        others=(partial(least_loss, weighting=0), partial(least_loss, weighting=2)),
        thresholds=thresholds,
        exact_thresholds=thresholds[1:2],
        per_octave=1,
        first=(-2, 2),
    )


def tails_of(batch: Batch) -> Tails:
    """The tails of a batch."""
    return Tails.of(batch.logits, sample_weight=batch.weight)


def uts_result(answer: Answer, tails: Tails) -> Temperature:
    """The result of UTS with its sensitivity and warnings."""
    notes = uts_warnings(answer.curve, tails) + sensitivity_warnings(answer)
    half, double = answer.others
    return dataclasses.replace(
        to_temperature(answer, "uts", notes=notes), sensitivity=(half, double)
    )


def _from_summaries(summaries: Summaries) -> Temperature:
    """UTS from sums alone; raises unless their thresholds are those of the rows in them."""
    question = uts_question(summaries.tails)
    summaries.check_round(question.thresholds)
    answer = read_off(question, summaries.curve)
    return uts_result(answer, summaries.tails)
