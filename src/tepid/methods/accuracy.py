"""A known accuracy: its forms, and the temperature at which the mean confidence equals it."""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from tepid import validation
from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods.passes import Key, Pass, Passes, group_weights, run_by_group
from tepid.methods.results import Fit, combine_groups, matching_error, to_temperature
from tepid.methods.search import Question, read_off, search
from tepid.sources import Batch, Source, open_source
from tepid.summaries.clusters import ClusterSums
from tepid.summaries.curve import Curve
from tepid.summaries.optimum import (
    Reading,
    confidence_interpolation,
    confidence_precision,
    confidence_step,
    matching_confidence,
)
from tepid.summaries.shared import Summaries
from tepid.summaries.summary import softmax
from tepid.temperature import Temperature
from tepid.validation import number, whole

# The standard error of an accuracy that is given without one.
STATED = 0.02
# A number in text, perhaps in percent.
_NUMBER = r"\s*([0-9.]+(?:e-?[0-9]+)?)\s*(%?)\s*"


@dataclass(frozen=True)
class Counted:
    """An accuracy that was counted: `correct` predictions of `checked`.

    >>> estimate(Counted(186, 200))
    Estimate(value=0.926, error=0.0184)
    """

    correct: int
    checked: int

    def __post_init__(self) -> None:
        most = whole(self.checked, "checked")
        if most < 1 or not 0 <= whole(self.correct, "correct") <= most:
            raise InputError(f"correct must be in 0 to {most} of at least one, got {self.correct}")


@dataclass(frozen=True)
class Range:
    """An accuracy that is about certain to lie in a range: two standard errors on both sides."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _share(self.low), _share(self.high)
        if self.low > self.high:
            raise InputError(f"accuracy must be a range from low to high, got {self}")


@dataclass(frozen=True)
class Estimate:
    """An accuracy and its standard error."""

    value: float
    error: float


Accuracy: TypeAlias = float | tuple[float, float] | Counted | Range


def estimate(accuracy: Any) -> Estimate:
    """The number and standard error of an accuracy in any form."""
    if isinstance(accuracy, str):
        return estimate(parse_accuracy(accuracy))
    if isinstance(accuracy, Estimate):
        return accuracy
    if isinstance(accuracy, Counted):
        # The posterior of a share under a uniform prior.
        mean = (accuracy.correct + 1) / (accuracy.checked + 2)
        return Estimate(mean, math.sqrt(mean * (1 - mean) / (accuracy.checked + 3)))
    if isinstance(accuracy, Range):
        return Estimate((accuracy.low + accuracy.high) / 2, (accuracy.high - accuracy.low) / 4)
    if isinstance(accuracy, (tuple, list)):
        if len(accuracy) != 2:
            raise InputError(
                f"accuracy must be (value, standard error), got {len(accuracy)} numbers"
            )
        return Estimate(_share(accuracy[0]), _error(accuracy[1]))
    return Estimate(_share(accuracy), STATED)


def estimate_groups(
    accuracy: Mapping[str, Any],
    weights: Mapping[str, float],
    form: Callable[[Any], Estimate] = estimate,
) -> dict[Key, Estimate]:
    """The accuracy of each group, and under None that of all rows, from the groups' weights."""
    given: dict[Key, Estimate] = {str(name): form(value) for name, value in accuracy.items()}
    if not weights or given.keys() != weights.keys():
        wrong = sorted(str(name) for name in given.keys() ^ weights.keys())
        raise InputError(f"accuracy must have one entry for each group, got a mismatch at {wrong}")
    total = math.fsum(weights.values())
    shares = {name: weight / total for name, weight in weights.items()}
    value = math.fsum(share * given[name].value for name, share in shares.items())
    error = math.hypot(*(share * given[name].error for name, share in shares.items()))
    return given | {None: Estimate(value, error)}


def parse_accuracy(text: str) -> Accuracy:
    """An accuracy as people type it: 0.93, 93%, 0.93±0.01 (or +-), 186/200, 0.91..0.95.

    >>> parse_accuracy("186/200")
    Counted(correct=186, checked=200)
    """
    plain = text.replace("+-", "±").replace("+/-", "±")
    if counted := re.fullmatch(r"\s*([0-9]{1,15})\s*/\s*([0-9]{1,15})\s*", plain):
        return Counted(int(counted[1]), int(counted[2]))
    if ends := re.fullmatch(rf"{_NUMBER}\.\.{_NUMBER}", plain.replace("...", "..")):
        return Range(*_numbers(text, ends.groups()))
    if stated := re.fullmatch(rf"{_NUMBER}±{_NUMBER}", plain):
        value, error = _numbers(text, stated.groups())
        return _share(value), _error(error)
    if alone := re.fullmatch(_NUMBER, plain):
        return _share(_numbers(text, alone.groups())[0])
    raise _unreadable(text)


def _numbers(text: str, found: tuple[Any, ...]) -> list[float]:
    """Numbers with their signs of percent; one sign at the end counts for all that need it.

    In 93±1% it counts for both, in 0.93±1% for the error alone.
    """
    signs = found[1::2]
    try:
        numbers = [float(part) for part in found[::2]]
    except ValueError:
        raise _unreadable(text) from None
    if any(signs) and not signs[-1]:
        raise _unreadable(text)
    if not signs[-1]:
        return numbers
    if not signs[0] and numbers[0] <= 1:
        if "±" not in text.replace("+-", "±").replace("+/-", "±"):
            raise _unreadable(text)
        return [numbers[0], numbers[1] / 100]
    return [number / 100 for number in numbers]


def _unreadable(text: str) -> InputError:
    return InputError(
        f"accuracy must be like 0.93, 93%, 0.93±0.01, 186/200 or 0.91..0.95, got {text}"
    )


def _share(value: Any) -> float:
    share = math.nan if isinstance(value, bool) else number(value, "accuracy")
    if not 0 <= share <= 1:
        forms = "; a count is tepid.Counted(correct, checked)" if share > 1 else ""
        raise InputError(f"accuracy must be in [0, 1], got {value!r}{forms}")
    return share


def _error(value: Any) -> float:
    if not 0 <= number(value, "standard error of accuracy") < 1:
        raise InputError(f"standard error of accuracy must be in [0, 1), got {value!r}")
    return float(value)


# The exact method ---------------------------------------------------------------------------------


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
        return _matched_fit(known[key], ends, source)

    keys = (None, *weights)
    return combine_groups(run_by_group(fit, source, engine, keys), source, engine)


def matched_temperature(curve: Curve, accuracy: float) -> Temperature:
    """The temperature with this mean confidence, read off a curve."""
    answer = read_off(_question(accuracy, ()), curve)
    return to_temperature(answer, "accuracy")


def _to_match(accuracy: Any) -> Estimate:
    """What the exact method matches: a number as it is, and a count as its share."""
    if isinstance(accuracy, Counted):
        return Estimate(accuracy.correct / accuracy.checked, estimate(accuracy).error)
    known = estimate(accuracy)
    exact = not isinstance(accuracy, (tuple, list, Estimate))
    return Estimate(known.value, 0.0 if exact else known.error)


def _matched_fit(known: Estimate, ends: tuple[float, ...], source: Source) -> Passes[Fit]:
    """The fit to an accuracy; `ends` are those of a range, the higher accuracy first."""
    others = tuple(partial(matching_confidence, accuracy=end) for end in ends)
    answer = yield from search(_question(known.value, others), repeatable=source.repeatable)
    sampling = None
    if answer.point is not None and source.clustered:
        sampling = yield from _clustered_variance(answer.temperature)
    error = matching_error(answer.point, known.error, sampling)
    t = to_temperature(answer, "accuracy", error=error)
    if answer.others:
        t = dataclasses.replace(t, interval=(answer.others[0], answer.others[1]))
    return Fit(t, error)


def _clustered_variance(temperature: float) -> Passes[float]:
    """The sampling variance of the mean confidence; infinite from a single cluster."""

    def of(batch: Batch) -> ClusterSums:
        z = validation.to_host(validation.as_array(batch.logits))
        p = np.asarray(softmax(z, temperature).max(axis=1))
        weight = validation.weight_column(batch.weight, len(p))
        return ClusterSums.of(p, weight, batch.buckets())

    sums: ClusterSums = yield Pass(of, "measuring clusters")
    if sums.variance is None:
        return math.inf
    return sums.variance / float(sums.weight.sum()) ** 2


def _question(accuracy: float, others: tuple[Callable[[Curve], Reading], ...]) -> Question:
    return Question(
        read=partial(matching_confidence, accuracy=accuracy),
        step=lambda point, _: confidence_step(point, accuracy),
        precision=confidence_precision,
        interpolation=confidence_interpolation,
        others=others,
    )
