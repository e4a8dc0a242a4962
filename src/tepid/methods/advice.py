"""Fit every method that the evidence allows in shared passes, and recommend one of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from tepid.engines import Engine, choose_engine
from tepid.methods.accuracy import accuracy_by_key, matched_fit
from tepid.methods.labels import QUESTION, fit_few_labels, fit_labels
from tepid.methods.models import from_models
from tepid.methods.passes import (
    Both,
    Key,
    Pass,
    Passes,
    both,
    check_total,
    in_parallel,
    run_by_group,
    without_labels,
)
from tepid.methods.results import Fit, combine_groups
from tepid.methods.search import Answer, search
from tepid.methods.source import from_source
from tepid.methods.unsupervised import (
    check_repeatable,
    guarded_after_uts,
    tails_of,
    thresholds_error,
    uts_question,
    uts_result,
)
from tepid.sources import Batch, Source, open_source
from tepid.summaries.curve import Curve
from tepid.summaries.lattice import Lattice
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature

Verdict = Literal["use", "check", "do not use"]
AccuracyRange = tuple[float, float]

# The verdict on each method's temperature if its status is ok, and the reason.
_VERDICTS: dict[str, tuple[Verdict, str]] = {
    "temperature": ("use", "labels for every row settle it"),
    "accuracy": ("use", "it is as good as the accuracy that was given"),
    "few-labels": ("use", "the interval says how far the labels settle it"),
    "models": ("check", "the models must have been trained apart; compare the implied accuracy"),
    "source": ("check", "compare the implied accuracy with what is known of the shift"),
    "guarded": ("check", "compare the implied accuracy with what is known of the model"),
    "odds": ("check", "it holds if the prior does; compare the implied accuracy"),
    "uts": ("check", "logits alone do not settle it; compare the implied accuracy"),
    "uts-debiased": ("check", "logits alone do not settle it; compare the implied accuracy"),
}
# From the strongest evidence to the weakest.
_ORDER = ("temperature", "accuracy", "few-labels", "source", "models", "guarded")
_BUDGET = 0.03


@dataclass(frozen=True)
class Advice:
    """The temperature of each method, which one to use, and which evidence would help most.

    `confidence` is the mean at T = 1. `margin` is the mean distance of the logits below the largest
    of their row.
    """

    use: str
    verdict: Verdict
    because: str
    would_help: str
    samples: int
    classes: int
    confidence: float
    margin: float
    answers: dict[str, Temperature]

    @property
    def spread(self) -> float:
        """The highest temperature over the lowest: how far the methods disagree."""
        values = [t.value for t in self.answers.values()]
        return max(values) / min(values)

    @property
    def temperature(self) -> Temperature:
        """The temperature of the recommended method."""
        return self.answers[self.use]

    def __str__(self) -> str:
        t = self.temperature
        what = "a temperature" if t.status == "abstained" else f"T = {t.value:.3f}"
        first = f"{self.verdict} {what} ({self.use}): {self.because}"
        others = ", ".join(f"{n} {a.value:.3f}" for n, a in self.answers.items() if n != self.use)
        second = f"others: {others}; they differ by a factor of {self.spread:.2f}"
        return f"{first}.\n{second}.\nwould help most: {self.would_help}."

    @property
    def seen(self) -> str:
        """A description of the logits in one line."""
        return (
            f"{self.samples} rows of {self.classes} classes, mean confidence "
            f"{100 * self.confidence:.2f} %, logits {self.margin:.3g} below the largest on average"
        )


def judged(temperature: Temperature) -> tuple[Verdict, str]:
    """Whether to use a temperature, and why."""
    if temperature.status == "abstained":
        return "do not use", "logits alone say nothing here; keep T = 1 or find more evidence"
    if temperature.status != "ok":
        return "do not use", f"no temperature was found, its status is {temperature.status}"
    if temperature.method.startswith("uts") and temperature.warnings:
        return "do not use", "on such logits UTS did harm as often as it helped; see the notes"
    unknown: tuple[Verdict, str] = ("check", "it is not known how it was found")
    return _VERDICTS.get(temperature.method, unknown)


def would_help(temperature: Temperature, *, accuracy_known: bool = False) -> str:
    """The evidence that would improve most on a temperature."""
    if temperature.method == "temperature":
        return "more labeled rows, or a method with more parameters (tepid.scaling)"
    if temperature.method == "few-labels":
        return "more labels; tepid.labels_to_halve says how many halve the interval"
    if temperature.method == "accuracy" or accuracy_known:
        return "labels for some rows, to see whether a single temperature fits at all"
    return "the model's accuracy on such rows, one number, or twenty-five labels"


def advise(
    logits: Any,
    *,
    accuracy: Any = None,
    others: tuple[Any, ...] = (),
    source: tuple[Any, Any] | None = None,
    few: tuple[Any, Any] | None = None,
    labels: Any = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Advice:
    """Fit every method that the evidence allows, and recommend one.

    `source` and `few` are pairs of logits and labels; `labels` are those of all rows. `columns` and
    `probabilities` apply to all logits that are not opened yet.

    >>> import numpy as np
    >>> logits = 4 * np.random.default_rng(0).normal(size=(5000, 10))
    >>> print(advise(logits, accuracy=0.6))
    use T = 1.624 (accuracy): it is as good as the accuracy that was given.
    others: uts 1.059, guarded 1.000; they differ by a factor of 1.62.
    would help most: labels for some rows, to see whether a single temperature fits at all.
    """

    def opened(data: Any, labels: Any = None) -> Source:
        if isinstance(data, Source):
            return open_source(data, labels=labels)
        return open_source(data, labels=labels, columns=columns, probabilities=probabilities)

    given = open_source(logits, labels=labels, columns=columns, probabilities=probabilities)
    rows = given.select()
    engine = choose_engine(engine, given)
    known = None if accuracy is None else accuracy_by_key(accuracy, rows, engine)
    shared = fit_shared(given, engine, known)
    answers = {name: shared.temperatures[name] for name in ("uts", "guarded")}
    if others:
        answers["models"] = from_models(rows, *map(opened, others), engine=engine)
    if source is not None:
        answers["source"] = from_source(rows, opened(*source), engine=engine)
    if accuracy is not None:
        answers["accuracy"] = shared.temperatures["accuracy"]
    if few is not None:
        answers["few-labels"] = fit_few_labels(rows, opened(*few), engine, shared.uts)
    answers |= shared.temperatures
    use = next(name for name in _ORDER if name in answers)
    verdict, because = judged(answers[use])
    curve, tails = shared.curve, shared.tails
    return Advice(
        use,
        verdict,
        because,
        would_help(answers[use], accuracy_known="accuracy" in answers),
        round(curve.rows),
        curve.classes,
        float(tails.confidence.sum() / tails.weight),
        float(-curve.spread / curve.weight),
        answers,
    )


@dataclass(frozen=True)
class SharedFits:
    """Temperatures by method that were fitted in the same passes, and the sums of the first pass.

    `uts` are the answers of UTS for all rows and each group. `curve` has no thresholds; it has
    labels if the rows do.
    """

    temperatures: dict[str, Temperature]
    uts: dict[Key, Answer]
    tails: Tails
    curve: Curve


def fit_shared(
    source: Source,
    engine: Engine,
    accuracy: Mapping[Key, AccuracyRange] | Literal["measure"] | None = None,
) -> SharedFits:
    """UTS and `guarded`, with labels TS, and with an accuracy the temperature that matches it.

    All methods are fitted in the same four passes over the rows, in rare cases five or more.
    `accuracy` is known for all rows and each group, or it is measured from the labels.
    """
    check_repeatable(source)

    def method(key: Key) -> Passes[_Fitted]:
        known = accuracy[key] if isinstance(accuracy, Mapping) else accuracy
        return _fit_methods(known, labeled=source.labeled)

    by_key = run_by_group(method, source, engine)
    pooled = by_key[None]
    temperatures = {
        name: combine_groups({key: own.fits[name] for key, own in by_key.items()}, source, engine)
        for name in pooled.fits
    }
    uts = {key: own.uts for key, own in by_key.items()}
    return SharedFits(temperatures, uts, pooled.tails, pooled.curve)


@dataclass(frozen=True)
class _Fitted:
    """The fits of all rows or of one group."""

    fits: dict[str, Fit]
    uts: Answer
    tails: Tails
    curve: Curve


def _fit_methods(
    accuracy: AccuracyRange | Literal["measure"] | None, *, labeled: bool
) -> Passes[_Fitted]:
    of = both(tails_of, partial(_first_curve, labeled=labeled))
    first: Both = yield Pass(of, Both, "reading")
    tails, curve = first.first, first.second
    check_total(curve.weight)
    methods: dict[Key, Passes[Any]] = {"logits": without_labels(_fit_logits(tails, curve))}
    if accuracy is not None:
        known = _measured(curve) if accuracy == "measure" else accuracy
        matched = matched_fit(known, 0.0, repeatable=True, curve=curve)
        methods["accuracy"] = without_labels(matched)
    if labeled:
        methods["temperature"] = fit_labels(curve=curve)
    found = yield from in_parallel(methods)
    uts, fits = found.pop("logits")
    return _Fitted(fits | found, uts, tails, curve)


def _first_curve(batch: Batch, *, labeled: bool) -> Curve:
    """The curve on which TS and every accuracy are located; one bin counts the correct rows."""
    return Curve.of(
        batch.logits,
        lattice=Lattice.window(*QUESTION.first, per_octave=QUESTION.per_octave),
        labels=batch.labels if labeled else None,
        sample_weight=batch.weight,
        bins=1,
    )


def _measured(curve: Curve) -> AccuracyRange:
    accuracy = float(curve.histogram[0, 2].sum() / curve.weight)
    return accuracy, accuracy


def _fit_logits(tails: Tails, curve: Curve) -> Passes[tuple[Answer, dict[str, Fit]]]:
    """The answer of UTS, its fit, and the guarded fit that builds on it."""
    answer = yield from search(uts_question(tails))
    uts = uts_result(answer, tails, answer.temperature, answer.confidence)
    guarded = yield from guarded_after_uts(answer, tails, _BUDGET, curve=curve)
    return answer, {"uts": Fit(uts, thresholds_error(answer)), "guarded": guarded}
