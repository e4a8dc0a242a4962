"""Logits alone, cautiously: a temperature only where it can be expected to help."""

from typing import Any

from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods import verdict
from tepid.methods.accuracy import match
from tepid.methods.errors import matching_error
from tepid.methods.groups import Fit, together
from tepid.methods.logits import check_repeatable, thresholds_error, unsupervised
from tepid.methods.passes import Asking, each_answered
from tepid.scalars import number
from tepid.sources import open_source
from tepid.temperature import Temperature


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
    r"""A temperature from unlabelled logits that abstains, with T = 1, unless it can help.

    Highly confident networks err more often than they say, and UTS tells how much more: the
    network's own error odds are multiplied by $T_{UTS}^2$ and the mean confidence is matched to
    that, $\mathrm{logit}(a) = \mathrm{logit}(conf(1)) - 2 \log T_{UTS}$. Below a mean confidence
    of .95 no such regularity was found, and the result is T = 1 with status `abstained`.

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
    fits = each_answered(lambda _: guarded_fit(budget), source, engine)
    return together(fits, source, engine)


def check_budget(budget: float) -> None:
    """Refuse what is no share."""
    if not 0 < number(budget, "budget") <= 1:
        raise InputError(f"budget must be in (0, 1], got {budget}")


def guarded_fit(budget: float, *, repeatable: bool = True) -> Asking[Fit]:
    """The fit that abstains unless it can help, of all rows or of a group."""
    answer, tails = yield from unsupervised(repeatable=repeatable)
    confidence = float(tails.confidence.sum() / tails.weight)
    rows, classes = round(answer.curve.rows), answer.curve.classes
    if answer.status != "ok" or not verdict.CONFIDENT <= confidence < 1:
        t = Temperature(
            1.0,
            "guarded",
            samples=rows,
            classes=classes,
            implied_accuracy=confidence,
            status="abstained",
            warnings=(verdict.why_abstained(answer, confidence),),
        )
        return Fit(t, None)
    odds = confidence / (1 - confidence) / answer.temperature**2
    wanted = min(max(odds / (1 + odds), confidence - budget), confidence + budget)
    matched = yield from match(min(wanted, (1 + confidence) / 2), repeatable=repeatable)
    t = Temperature(
        matched.temperature,
        "guarded",
        samples=rows,
        classes=classes,
        implied_accuracy=matched.confidence,
        status=matched.status,
        precision=matched.precision,
        warnings=verdict.about_bounds(matched) + verdict.about_rows(matched.curve),
    )
    # logit(a) moves by twice what log T of UTS does, and a by a (1 - a) of that.
    known = 2 * wanted * (1 - wanted) * (thresholds_error(answer) or 0.0)
    return Fit(t, matching_error(matched.point, known))
