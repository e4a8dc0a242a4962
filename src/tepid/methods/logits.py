"""Logits alone: unsupervised temperature scaling (UTS), the paper's method."""

import math
from functools import partial
from typing import Any

import numpy as np

from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods import verdict
from tepid.methods.errors import loss_error
from tepid.methods.groups import Fit, together
from tepid.methods.passes import Asking, Pass, each_answered, only
from tepid.methods.search import Answer, Question, mean_confidence, search
from tepid.optimum import least_loss, loss_step
from tepid.scalars import number
from tepid.sources import Batch, Source, open_source
from tepid.tails import Tails
from tepid.temperature import Temperature

_MOST_DEVIATIONS = 1e9
# Over bootstrap draws of the whole rule T moves by 1.7 (200 rows) to 1.5 (1000 rows) times what the
# sandwich says, which takes the thresholds for fixed.
_THRESHOLDS_MOVE = 1.6


def from_logits(
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
    r"""The temperature of unlabelled logits by UTS, Mozafari et al. (2019), eq. 4-8.

    $T^* = \arg\min_T \sum_k \sum_{i \in M_k} -\log \mathrm{softmax}(z_i / T)_k$ with
    $M_k = \{i : S_{ik} \ge \theta_k\}$, $S = \mathrm{softmax}(z)$ and $\theta_k$ the mean plus
    `deviations` standard deviations of $S_{ik}$ over the rows that are not predicted k.

    Logits alone do not identify a temperature: UTS leans on T = 1 being the scale of training, and
    on 30 real sets it did harm to eight. So the result has no interval. Compare its
    `implied_accuracy` with what you know of the model, and see `sensitivity`, the temperatures for
    half and twice the deviations; `warnings` say where it was measured to fail.

    Args:
        logits: An array (n, k), (n,) for binary logits, a path to `.npy`, `.csv`, `.parquet` and
            others, a folder or a pattern of them, a URL, a list of any, a function without
            arguments that yields blocks afresh, or a list of blocks.
        deviations: The number of standard deviations in $\theta_k$.
        debias: Remove most of the bias of order 1/n in $\log T$ by a jackknife of two halves, the
            even and the odd rows. It brings T nearer to that of UTS on many rows, at the price of
            more noise; whether that calibrates better depends on the model. It takes no weights,
            since it halves the rows by their position.
        sample_weight: One weight per row.
        class_axis: Where the classes are, for arrays of more than two dimensions.
        groups: One name per row: each group gets a temperature of its own, in `groups` of the
            result, drawn towards that of all rows as far as the group is small.
        columns: The columns of a table that are the logits, where that is not clear.
        probabilities: The values are probabilities; their logarithms are the logits.
        engine: How many threads, and whom to tell of progress.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = 4 * rng.normal(size=(5000, 10))
    >>> round(from_logits(logits).value, 2)
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
    fits = each_answered(lambda _: _fit(deviations, debias=debias), source, engine)
    return together(fits, source, engine)


def check_repeatable(source: Source) -> None:
    """UTS takes its thresholds from all rows before it sums, so the rows must be there twice."""
    if not source.repeatable:
        raise InputError(
            "logits must be readable more than once, got an iterator; pass a function that yields "
            "the blocks afresh"
        )


def _fit(deviations: float, *, debias: bool) -> Asking[Fit]:
    answer, tails = yield from unsupervised(deviations)
    error = thresholds_error(answer)
    if debias:
        jackknifed = yield from _jackknifed(deviations, answer)
        if jackknifed is not None:
            confidence = yield from mean_confidence(jackknifed)
            return Fit(uts_result(answer, tails, jackknifed, confidence, debiased=True), error)
    return Fit(uts_result(answer, tails, answer.temperature, answer.confidence), error)


def thresholds_error(answer: Answer) -> float | None:
    """How far sampling moves log T, with the thresholds; not how far T is from the best."""
    error = loss_error(answer.point)
    return None if error is None else _THRESHOLDS_MOVE * error


def unsupervised(
    deviations: float = 1.0, *, repeatable: bool = True
) -> Asking[tuple[Answer, Tails]]:
    """The answer of UTS, with the tails that its thresholds came from."""
    tails: Tails = yield Pass(tails_of, "reading")
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


def _jackknifed(deviations: float, answer: Answer) -> Asking[float | None]:
    """T² over the geometric mean of the halves' T, unless one of the three has none."""
    if answer.status != "ok" or answer.curve.rows < 2:
        return None
    halves = []
    for parity in (0, 1):
        rows = partial(Batch.half, parity=parity)
        half, _ = yield from only(unsupervised(deviations), rows)
        halves.append(half)
    if any(half.status != "ok" for half in halves):
        return None
    even, odd = (half.temperature for half in halves)
    return answer.temperature**2 / math.sqrt(even * odd)


def uts_result(
    answer: Answer, tails: Tails, temperature: float, confidence: float, *, debiased: bool = False
) -> Temperature:
    """The result of UTS, with what is to be said of it."""
    curve = answer.curve
    said = verdict.about_bounds(answer) + verdict.about_rows(curve)
    said += verdict.about_uts(curve, tails, debiased=debiased)
    said += verdict.about_sensitivity(answer)
    shift = temperature / answer.temperature
    half, double = (shift * other for other in answer.others)
    return Temperature(
        temperature,
        "uts-debiased" if debiased else "uts",
        samples=round(curve.rows),
        classes=curve.classes,
        implied_accuracy=confidence,
        status=answer.status,
        sensitivity=(half, double),
        precision=answer.precision,
        warnings=said,
    )
