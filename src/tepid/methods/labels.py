"""Labels for every row: temperature scaling (TS), Guo et al. (2017)."""

from typing import Any

from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods import verdict
from tepid.methods.errors import around, loss_error
from tepid.methods.groups import Fit, together
from tepid.methods.passes import Asking, Key, each_answered
from tepid.methods.search import Answer, Question, search
from tepid.optimum import least_loss, loss_step
from tepid.sources import open_source
from tepid.temperature import Temperature

QUESTION = Question(read=least_loss, step=loss_step, labelled=True)


def from_labels(
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
    r"""The temperature that minimises the negative log likelihood of the labels, paper eq. 3.

    The loss is convex in 1/T, so this is the optimum and not where an optimiser stopped. The
    interval is 95 % from the sandwich standard error of $\log T$; it is optimistic where the labels
    hold only a handful of errors.

    `labels` may be left out where `logits` is a source that has them. `groups`, one name per row,
    gives each group a temperature of its own in `Temperature.groups`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(20000, 5))
    >>> labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> from_labels(3 * logits, labels).value
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

    def fit(_: Key) -> Asking[Fit]:
        answer = yield from search(QUESTION, repeatable=source.repeatable)
        return labelled_fit(answer)

    return together(each_answered(fit, source, engine), source, engine)


def labelled_fit(answer: Answer) -> Fit:
    """The fit that an answer from labels is."""
    error = loss_error(answer.point)
    t = Temperature(
        answer.temperature,
        "temperature",
        samples=round(answer.curve.rows),
        classes=answer.curve.classes,
        implied_accuracy=answer.confidence,
        status=answer.status,
        interval=None if error is None else around(answer.temperature, error),
        precision=answer.precision,
        warnings=verdict.about_bounds(answer) + verdict.about_rows(answer.curve),
    )
    return Fit(t, error)
