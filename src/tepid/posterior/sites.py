"""Sites that may not share their rows: each sums its own, and only the sums are shared.

`temperature_scaling` and `match_accuracy` need one round. UTS, and so `calibrate`, needs two, since
its thresholds depend on the rows of every site: the sites first share their tails and then, given
all tails, their curves.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from tepid import store, validation
from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods.exact import tails_of, uts_question
from tepid.posterior.sums import labeled_curve, predicted_curve
from tepid.sources import Batch, open_source
from tepid.sources.batch import without_zero_weight
from tepid.summaries.curve import Curve
from tepid.summaries.shared import LATTICE, Summaries
from tepid.summaries.tails import Tails
from tepid.validation import Float64


@dataclass(frozen=True, eq=False)
class _Sums:
    tails: Tails
    curve: Curve
    labels: Curve | None

    def __add__(self, other: "_Sums") -> "_Sums":
        both = None if self.labels is None or other.labels is None else self.labels + other.labels
        return _Sums(self.tails + other.tails, self.curve + other.curve, both)


def summarize(
    logits: Any,
    labels: Any = None,
    *,
    given: Summaries | None = None,
    classes: Any = None,
    sample_weight: Any = None,
    class_axis: int | None = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Summaries:
    """The sums over the rows of one site, to be added to those of others.

    `given` are the merged summaries of the first round; then the result is that of the second.
    Labels may be -1 where they are unknown.

    >>> import numpy as np
    >>> from tepid.methods.exact import uts
    >>> rng = np.random.default_rng(0)
    >>> here, there = (4 * rng.normal(size=(2000, 5)) for _ in range(2))
    >>> tails = summarize(here) + summarize(there)
    >>> both = summarize(here, given=tails) + summarize(there, given=tails)
    >>> uts(both).value  # uts on all rows gives the same
    0.96993
    """
    source = open_source(
        logits,
        labels=labels,
        classes=classes,
        sample_weight=sample_weight,
        class_axis=class_axis,
        columns=columns,
        probabilities=probabilities,
    )
    if given is not None and source.classes not in (None, given.tails.classes):
        raise InputError(
            f"given must be of the {source.classes} classes of the logits, "
            f"got {given.tails.classes}"
        )
    thresholds = None if given is None else uts_question(given.tails).thresholds
    of = partial(without_zero_weight, partial(_sums, thresholds=thresholds))
    total = choose_engine(engine, source).total(of, source, "summing")
    # Without a print, so that two sites whose rows all have weight zero do not look like one.
    prints = (store.digest("Tails", *store.fields_of(total.tails)),) if total.curve.weight else ()
    return Summaries(total.tails, total.curve, total.labels, prints)


def _sums(batch: Batch, thresholds: Float64 | None) -> _Sums:
    logits = validation.as_array(batch.logits)
    weight = validation.weight_column(batch.weight, len(logits))
    return _Sums(
        tails_of(batch),
        predicted_curve(logits, weight, LATTICE, thresholds),
        None if batch.labels is None else labeled_curve(batch, LATTICE),
    )
