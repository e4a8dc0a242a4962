"""A few labels: temperature scaling held near the label-free temperature by a prior."""

import dataclasses
import math
from functools import partial
from typing import Any

from tepid.curve import Curve
from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods import verdict
from tepid.methods.errors import around
from tepid.methods.groups import Fit, together
from tepid.methods.logits import check_repeatable, unsupervised
from tepid.methods.passes import Asking, Key, check_weight, each_answered, keys_of
from tepid.methods.search import Answer, Question, mean_confidence, search
from tepid.optimum import Prior, least_loss, least_with_prior, prior_step
from tepid.sources import Source, open_source
from tepid.temperature import Temperature

# How far log T lies from the label-free one on real sets, and from 0 where there is none.
SPREAD, ALONE = 0.4, 0.6


def from_few_labels(  # noqa: PLR0913  # two sets of rows with what belongs to each
    logits: Any,
    labelled_logits: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    labelled_weight: Any = None,
    class_axis: int | None = None,
    groups: Any = None,
    labelled_groups: Any = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Temperature:
    r"""The temperature from many unlabelled rows and a few labelled ones, ten to five hundred.

    Minimises the labels' negative log likelihood plus $(\log T - \log T_{UTS})^2 / 2\sigma^2$ with
    $\sigma = .4$, where $T_{UTS}$ is the label-free temperature of all unlabelled rows: plain
    temperature scaling on so few is dangerous, since rows that are all right send T to zero. The
    interval is 95 % of the posterior. `samples` counts the labelled rows; `implied_accuracy` is the
    mean confidence on all rows. `sample_weight` is one weight per unlabelled row, `labelled_weight`
    one per labelled row; a label of weight two counts as two labels. With `groups` and
    `labelled_groups`, one name per row of each, every group gets a temperature of its own; one
    without labels gets that of all.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(5000, 5))
    >>> labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> t = from_few_labels(3 * logits, 3 * logits[:50], labels[:50])
    >>> t.interval[0] < 3 < t.interval[1]
    True
    """
    check_weight(labelled_weight, "labelled_weight")
    given: dict[str, Any] = {
        "class_axis": class_axis, "columns": columns, "probabilities": probabilities,
    }  # fmt: skip
    unlabelled = open_source(logits, sample_weight=sample_weight, groups=groups, **given).select()
    few = open_source(
        labelled_logits,
        labels=labels,
        sample_weight=labelled_weight,
        groups=labelled_groups,
        **given,
    )
    if not few.labeled:
        raise InputError("labels must be given, got none")
    if unlabelled.grouped != few.grouped:
        raise InputError("groups and labelled_groups must go together, got one")
    check_repeatable(unlabelled)
    engine = choose_engine(engine, unlabelled, few)
    free = each_answered(lambda _: unsupervised(), unlabelled, engine)
    strangers = set(keys_of(few, engine)) - set(free)
    if strangers:
        raise InputError(f"labelled_groups must be among groups, got {sorted(map(str, strangers))}")
    again = few.repeatable
    fits = each_answered(lambda key: _fit(free[key][0], repeatable=again), few, engine)
    fits = _told_of_all(fits, unlabelled, engine)
    without = {key: _unlabelled(fits[None], answer) for key, (answer, _) in free.items()}
    return together(without | fits, unlabelled, engine)


def _told_of_all(fits: dict[Key, Fit], unlabelled: Source, engine: Engine) -> dict[Key, Fit]:
    """The fits with the mean confidence on all rows, of which the labelled ones are but a few."""
    found = each_answered(
        lambda key: mean_confidence(fits[key].temperature.value), unlabelled, engine, tuple(fits)
    )
    return {
        key: Fit(dataclasses.replace(fit.temperature, implied_accuracy=found[key]), fit.error)
        for key, fit in fits.items()
    }


def _unlabelled(pooled: Fit, free: Answer) -> Fit:
    """A group none of whose rows is labelled: nothing of its own."""
    rows = round(free.curve.rows)
    t = dataclasses.replace(pooled.temperature, status="not-identified", samples=rows, warnings=())
    return Fit(t, None)


def _fit(free: Answer, *, repeatable: bool) -> Asking[Fit]:
    prior = Prior(math.log(free.temperature), SPREAD) if free.status == "ok" else Prior(0.0, ALONE)
    question = Question(
        read=partial(least_with_prior, prior=prior),
        step=partial(prior_step, prior=prior),
        others=(least_loss,),
        labelled=True,
    )
    answer = yield from search(question, repeatable=repeatable)
    if answer.curve.classes != free.curve.classes:
        raise InputError(
            f"labelled_logits must have the {free.curve.classes} classes of logits, "
            f"got {answer.curve.classes}"
        )
    error = _error(answer.point, prior)
    t = Temperature(
        answer.temperature,
        "few-labels",
        samples=round(answer.curve.rows),
        classes=answer.curve.classes,
        implied_accuracy=answer.confidence,
        status=answer.status,
        interval=None if error is None else around(answer.temperature, error),
        precision=answer.precision,
        warnings=_doubts(answer, free),
    )
    return Fit(t, error)


def labels_to_halve(temperature: Temperature) -> int:
    """How many more labels would halve the interval of a temperature from few labels.

    Information adds: the posterior's is the prior's and that of each label, and a width of one half
    needs four times as much.
    """
    few = isinstance(temperature, Temperature) and temperature.method == "few-labels"
    if not few or temperature.interval is None:
        raise InputError("temperature must come from few labels with an interval, got another")
    width = math.log(temperature.interval[1] / temperature.interval[0]) / (2 * 1.96)
    known, prior = 1 / width**2, 1 / SPREAD**2
    each = max(known - prior, 1e-9) / temperature.samples
    return max(0, math.ceil((4 * known - prior) / each - temperature.samples))


def _error(point: Curve | None, prior: Prior) -> float | None:
    """The posterior's standard deviation of log T."""
    if point is None:
        return None
    beta = point.lattice.nodes[0]
    bend = beta**2 * point.curvature[0, 0] + beta * point.slope[0, 0] + 1 / prior.spread**2
    return None if bend <= 0 else float(1 / math.sqrt(bend))


def _doubts(answer: Answer, free: Answer) -> tuple[str, ...]:
    said = []
    plain, wild = answer.others[0], answer.readings[1].where != "inside"
    if wild or abs(math.log(plain / answer.temperature)) > verdict.WILD:
        found = "none" if wild else f"{plain:.3g}"
        said.append(f"Temperature scaling on these labels alone would have found {found}.")
    if free.status != "ok":
        said.append("UTS found no temperature; the labels were held near T = 1 instead.")
    return tuple(said)
