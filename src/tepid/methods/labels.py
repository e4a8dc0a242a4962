"""Labels: temperature scaling (TS), Guo et al. (2017), with all labels or with a few."""

import dataclasses
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods.passes import Key, Passes, check_weight, group_keys, run_by_group
from tepid.methods.results import (
    NORMAL,
    Fit,
    combine_groups,
    loss_error,
    to_temperature,
)
from tepid.methods.search import Answer, Question, mean_confidence, search
from tepid.methods.unsupervised import check_repeatable, unsupervised
from tepid.sources import Source, open_source
from tepid.summaries.curve import Curve
from tepid.summaries.optimum import Prior, least_loss, least_with_prior, loss_step, prior_step
from tepid.temperature import Temperature

QUESTION = Question(read=least_loss, step=loss_step, labeled=True)
# The standard deviation of the prior on log T: around UTS, and around 0 where UTS has no answer.
# Both are how far the oracle temperature lies from these centers on real sets.
_SPREAD, _SPREAD_ALONE = 0.4, 0.6
# A factor of two in T.
_LARGE_DIFFERENCE = 0.7


def temperature_scaling(
    logits: Any,
    labels: Any = None,
    *,
    sample_weight: Any = None,
    class_axis: int | None = None,
    groups: Any = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Temperature:
    r"""The temperature that minimizes the negative log likelihood of the labels, paper eq. 3.

    The loss is convex in 1/T, so this is the global optimum. The 95 % interval comes from the
    sandwich standard error of $\log T$; it is too narrow where the labels contain only a handful of
    errors.

    `labels` may be left out where `logits` is a source that has them. `groups`, one name per row,
    gives each group a temperature of its own in `Temperature.groups`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(20000, 5))
    >>> labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> temperature_scaling(3 * logits, labels).value
    3.0
    """
    source = open_source(
        logits,
        labels=labels,
        sample_weight=sample_weight,
        class_axis=class_axis,
        groups=groups,
        columns=columns,
        probabilities=probabilities,
    )
    if not source.labeled:
        raise InputError("labels must be given, got none")
    engine = choose_engine(engine, source)

    def fit(_: Key) -> Passes[Fit]:
        return fit_labels(repeatable=source.repeatable)

    return combine_groups(run_by_group(fit, source, engine), source, engine)


def fit_labels(*, repeatable: bool = True, curve: Curve | None = None) -> Passes[Fit]:
    """The fit to the labels of all rows or of a group; `curve` is that of `search`."""
    answer = yield from search(QUESTION, repeatable=repeatable, curve=curve)
    return labeled_fit(answer)


def labeled_fit(answer: Answer) -> Fit:
    """The fit of an answer from labels."""
    error = loss_error(answer.point)
    return Fit(to_temperature(answer, "temperature", error=error), error)


def from_few_labels(  # noqa: PLR0913  # two sets of rows with what belongs to each
    logits: Any,
    labeled_logits: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    labeled_weight: Any = None,
    class_axis: int | None = None,
    groups: Any = None,
    labeled_groups: Any = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Temperature:
    r"""The temperature from many unlabeled rows and a few labeled ones, ten to five hundred.

    Minimizes the labels' negative log likelihood plus $(\log T - \log T_{UTS})^2 / 2\sigma^2$ with
    $\sigma = .4$, where $T_{UTS}$ is the temperature of all unlabeled rows by UTS. Without this
    prior, a few labels that are all predicted correctly give T = 0. Where UTS finds no temperature,
    the prior is centered on T = 1 with $\sigma = .6$. The interval covers 95 % of the posterior,
    and `prior_spread` is $\sigma$.

    `samples` counts the labeled rows; `implied_accuracy` is the mean confidence on all rows.
    `sample_weight` is one weight per unlabeled row, `labeled_weight` one per labeled row; a label
    of weight two counts as two labels. With `groups` and `labeled_groups`, one name per row of
    each, every group gets a temperature of its own. A group without labels gets the pooled
    temperature.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(5000, 5))
    >>> labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> t = from_few_labels(3 * logits, 3 * logits[:50], labels[:50])
    >>> t.interval[0] < 3 < t.interval[1]
    True
    """
    check_weight(labeled_weight, "labeled_weight")
    given: dict[str, Any] = {
        "class_axis": class_axis, "columns": columns, "probabilities": probabilities,
    }  # fmt: skip
    unlabeled = open_source(logits, sample_weight=sample_weight, groups=groups, **given).select()
    few = open_source(
        labeled_logits,
        labels=labels,
        sample_weight=labeled_weight,
        groups=labeled_groups,
        **given,
    )
    return fit_few_labels(unlabeled, few, choose_engine(engine, unlabeled, few))


def fit_few_labels(
    unlabeled: Source, few: Source, engine: Engine, uts: Mapping[Key, Answer] | None = None
) -> Temperature:
    """The temperature of `from_few_labels`; `uts` are the answers of UTS, if they are known."""
    if not few.labeled:
        raise InputError("labels must be given, got none")
    if unlabeled.grouped != few.grouped:
        raise InputError("groups and labeled_groups must go together, got one")
    check_repeatable(unlabeled)
    if uts is None:
        found = run_by_group(lambda _: unsupervised(), unlabeled, engine)
        uts = {key: answer for key, (answer, _) in found.items()}
    free = uts
    strangers = set(group_keys(few, engine)) - set(free)
    if strangers:
        raise InputError(f"labeled_groups must be among groups, got {sorted(map(str, strangers))}")
    again = few.repeatable
    fits = run_by_group(lambda key: _fit_few(free[key], repeatable=again), few, engine)
    fits = _with_confidence(fits, unlabeled, engine)
    without = {key: _without_labels(fits[None], answer) for key, answer in free.items()}
    return combine_groups(without | fits, unlabeled, engine)


def _with_confidence(fits: dict[Key, Fit], unlabeled: Source, engine: Engine) -> dict[Key, Fit]:
    """The fits with the mean confidence on all rows instead of the labeled ones."""
    found = run_by_group(
        lambda key: mean_confidence(fits[key].temperature.value), unlabeled, engine, tuple(fits)
    )
    return {
        key: Fit(dataclasses.replace(fit.temperature, implied_accuracy=found[key]), fit.error)
        for key, fit in fits.items()
    }


def _without_labels(pooled: Fit, free: Answer) -> Fit:
    """The fit of a group without labels."""
    rows = round(free.curve.rows)
    t = dataclasses.replace(pooled.temperature, status="not-identified", samples=rows, warnings=())
    return Fit(t, None)


def _fit_few(free: Answer, *, repeatable: bool) -> Passes[Fit]:
    alone = free.status != "ok"
    prior = Prior(0.0, _SPREAD_ALONE) if alone else Prior(math.log(free.temperature), _SPREAD)
    question = Question(
        read=partial(least_with_prior, prior=prior),
        step=partial(prior_step, prior=prior),
        others=(least_loss,),
        labeled=True,
    )
    answer = yield from search(question, repeatable=repeatable)
    if answer.curve.classes != free.curve.classes:
        raise InputError(
            f"labeled_logits must have the {free.curve.classes} classes of logits, "
            f"got {answer.curve.classes}"
        )
    error = _posterior_error(answer.point, prior)
    t = dataclasses.replace(
        to_temperature(answer, "few-labels", error=error),
        prior_spread=prior.spread,
        warnings=_few_warnings(answer, free),
    )
    return Fit(t, error)


def labels_to_halve(temperature: Temperature) -> int:
    """The number of further labels that would halve the interval of a temperature from few labels.

    The information of the posterior is that of the prior plus that of each label, and half the
    width needs four times as much.
    """
    few = isinstance(temperature, Temperature) and temperature.method == "few-labels"
    if not few or temperature.interval is None:
        raise InputError("temperature must come from few labels with an interval, got another")
    width = math.log(temperature.interval[1] / temperature.interval[0]) / (2 * NORMAL)
    # Files of earlier versions do not record the spread of the prior.
    known, prior = 1 / width**2, 1 / (temperature.prior_spread or _SPREAD) ** 2
    each = max(known - prior, 1e-9) / temperature.samples
    return max(0, math.ceil((4 * known - prior) / each - temperature.samples))


def _posterior_error(point: Curve | None, prior: Prior) -> float | None:
    """The posterior standard deviation of log T."""
    if point is None:
        return None
    beta = point.lattice.nodes[0]
    bend = beta**2 * point.curvature[0, 0] + beta * point.slope[0, 0] + 1 / prior.spread**2
    return None if bend <= 0 else float(1 / math.sqrt(bend))


def _few_warnings(answer: Answer, free: Answer) -> tuple[str, ...]:
    found = []
    plain, none = answer.others[0], answer.readings[1].where != "inside"
    if none or abs(math.log(plain / answer.temperature)) > _LARGE_DIFFERENCE:
        said = "none" if none else f"{plain:.3g}"
        found.append(f"Temperature scaling on these labels alone would have found {said}.")
    if free.status != "ok":
        found.append("UTS found no temperature; the labels were held near T = 1 instead.")
    return tuple(found)
