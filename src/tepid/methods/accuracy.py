"""One number, the model's accuracy: the temperature at which the mean confidence equals it."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods.passes import Key, Passes, run_by_group, weight_by_group
from tepid.methods.results import Fit, combine_groups, matching_error, to_temperature
from tepid.methods.search import Answer, Question, search
from tepid.sources import Source, open_source
from tepid.summaries.curve import Curve
from tepid.summaries.optimum import (
    Reading,
    confidence_precision,
    confidence_step,
    matching_confidence,
)
from tepid.temperature import Temperature
from tepid.validation import number, whole


def match_accuracy(
    logits: Any,
    accuracy: float | tuple[float, float] | Mapping[str, float],
    *,
    standard_error: float = 0.0,
    sample_weight: Any = None,
    class_axis: int | None = None,
    groups: Any = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Temperature:
    r"""The temperature at which the mean confidence on unlabeled logits equals a known accuracy.

    Solves $\frac1n \sum_i \max_k \mathrm{softmax}(z_i/T)_k = a$; confidence falls strictly in T, so
    there is one. It makes $|conf - acc|$, a lower bound of the ECE, zero, but it is not the T of
    least NLL unless temperature scaling is right for the model.

    The 95 % interval comes from the spread of the confidences and the `standard_error` of the
    accuracy; `counted` computes both from a number of checked predictions. For a range
    `(low, high)` of accuracies, T matches its middle and the interval its ends. With `groups`, one
    name per row, a mapping gives each group's accuracy; a single number is taken as the accuracy of
    every group, which is a stronger claim than the accuracy of all rows.

    >>> import numpy as np
    >>> logits = 4 * np.random.default_rng(0).normal(size=(5000, 10))
    >>> t = match_accuracy(logits, 0.6)
    >>> float(t(logits).max(axis=1).mean())
    0.6
    """
    check_error(standard_error)
    source = open_source(
        logits,
        sample_weight=sample_weight,
        class_axis=class_axis,
        groups=groups,
        columns=columns,
        probabilities=probabilities,
    ).select()
    engine = choose_engine(engine, source)
    known = accuracy_by_key(accuracy, source, engine)

    def fit(key: Key) -> Passes[Fit]:
        return matched_fit(known[key], standard_error, repeatable=source.repeatable)

    return combine_groups(run_by_group(fit, source, engine), source, engine)


def matched_fit(
    accuracy: tuple[float, float],
    standard_error: float,
    *,
    repeatable: bool,
    curve: Curve | None = None,
) -> Passes[Fit]:
    """The fit to a range of accuracies, whose ends may be equal; `curve` is that of `search`."""
    low, high = accuracy
    ends = tuple(partial(matching_confidence, accuracy=a) for a in (high, low) if low < high)
    answer = yield from match((low + high) / 2, ends, repeatable=repeatable, curve=curve)
    error = matching_error(answer.point, standard_error)
    t = to_temperature(answer, "accuracy", error=error)
    if answer.others:
        t = dataclasses.replace(t, interval=(answer.others[0], answer.others[1]))
    return Fit(t, error)


def match(
    accuracy: float,
    others: tuple[Callable[[Curve], Reading], ...] = (),
    *,
    repeatable: bool = True,
    curve: Curve | None = None,
) -> Passes[Answer]:
    """The temperature with this mean confidence; `curve` is that of `search`."""
    question = Question(
        read=partial(matching_confidence, accuracy=accuracy),
        step=lambda point, _: confidence_step(point, accuracy),
        precision=confidence_precision,
        others=others,
    )
    return search(question, repeatable=repeatable, curve=curve)


def counted(correct: int, of: int) -> tuple[float, float]:
    """The accuracy and its standard error when `correct` of `of` checked predictions were right.

    The error is that of (correct + 1) / (of + 2), which is above zero where none or all were right.

    >>> counted(93, 100)
    (0.93, 0.0266)
    """
    if not 0 <= whole(correct, "correct") <= whole(of, "of") or of < 1:
        raise InputError(f"correct must be in 0 to {of} of at least one, got {correct}")
    share = (correct + 1) / (of + 2)
    return correct / of, math.sqrt(share * (1 - share) / (of + 2))


def check_error(standard_error: float) -> None:
    """Raise if this is not the standard error of an accuracy."""
    if not 0 <= number(standard_error, "standard_error") < 1:
        raise InputError(f"standard_error must be in [0, 1), got {standard_error}")


def accuracy_by_key(
    accuracy: Any, source: Source, engine: Engine
) -> dict[Key, tuple[float, float]]:
    """The range of the accuracy, for all rows and for each group."""
    weights = weight_by_group(source, engine) if source.grouped else {}
    if not isinstance(accuracy, Mapping):
        return dict.fromkeys((None, *weights), accuracy_range(accuracy))
    names = list(weights)
    given = {str(name): value for name, value in accuracy.items()}
    if not names or set(given) != set(names):
        wrong = sorted(set(given).symmetric_difference(names))
        raise InputError(f"accuracy must have one entry for each group, got a mismatch at {wrong}")
    known: dict[Key, tuple[float, float]] = {name: accuracy_range(given[name]) for name in names}
    ends = np.average([known[name] for name in names], axis=0, weights=list(weights.values()))
    return known | {None: (float(ends[0]), float(ends[1]))}


def accuracy_range(accuracy: Any) -> tuple[float, float]:
    """An accuracy, or a range of it, as a range."""
    try:
        ends = [float(end) for end in np.atleast_1d(accuracy)]
    except (TypeError, ValueError):
        ends = []
    if len(ends) not in (1, 2) or isinstance(accuracy, str):
        got = f"{len(ends)} numbers" if len(ends) > 2 else repr(accuracy)
        raise InputError(f"accuracy must be a number or a range (low, high), got {got}")
    for end in ends:
        if not 0 <= end <= 1:
            raise InputError(f"accuracy must be in [0, 1], got {end:g}")
    if ends[0] > ends[-1]:
        raise InputError(f"accuracy must be a range from low to high, got {ends[0]} to {ends[-1]}")
    return ends[0], ends[-1]
