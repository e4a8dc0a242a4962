"""Which of the methods to use, and whether to use what it answers."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from tepid.curve import Curve
from tepid.engines import Engine, choose_engine
from tepid.lattice import Lattice
from tepid.methods.accuracy import from_accuracy
from tepid.methods.few import from_few_labels
from tepid.methods.guard import guarded
from tepid.methods.labels import from_labels
from tepid.methods.logits import from_logits
from tepid.methods.models import from_models
from tepid.methods.passes import without_zero_weight
from tepid.methods.shift import from_source
from tepid.sources import Batch, open_source
from tepid.temperature import Temperature

Verdict = Literal["use", "check", "do not use"]

# What to make of each method's answer when its status is ok.
_WORTH: dict[str, tuple[Verdict, str]] = {
    "temperature": ("use", "labels for every row settle it"),
    "accuracy": ("use", "it is as good as the accuracy that was given"),
    "few-labels": ("use", "the interval says how far the labels settle it"),
    "models": ("check", "the models must have been trained apart; compare the implied accuracy"),
    "source-any": ("check", "compare the implied accuracy with what is known of the shift"),
    "source-label": ("check", "it holds if only the frequencies of the classes changed"),
    "source-none": ("check", "it holds if nothing changed since the source"),
    "guarded": ("check", "compare the implied accuracy with what is known of the model"),
    "odds": ("check", "it holds if the prior does; compare the implied accuracy"),
    "uts": ("check", "logits alone do not settle it; compare the implied accuracy"),
    "uts-debiased": ("check", "logits alone do not settle it; compare the implied accuracy"),
}
# The rungs from the firmest down.
_ORDER = ("temperature", "accuracy", "few-labels", "source-any", "models", "guarded")


@dataclass(frozen=True)
class Advice:
    """What each method answers, which to use, and what would help most.

    `confidence` is the mean at T = 1, `margin` how far logits lie below their row's largest.
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
        """The highest answer over the lowest: how far the methods disagree."""
        values = [t.value for t in self.answers.values()]
        return max(values) / min(values)

    @property
    def temperature(self) -> Temperature:
        """The answer of the method to use."""
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
        """What the logits look like, in a line."""
        return (
            f"{self.samples} rows of {self.classes} classes, mean confidence "
            f"{100 * self.confidence:.2f} %, logits {self.margin:.3g} below the largest on average"
        )


def judged(temperature: Temperature) -> tuple[Verdict, str]:
    """What a hurried person should do with a temperature, and why."""
    if temperature.status == "abstained":
        return "do not use", "logits alone say nothing here; keep T = 1 or find more evidence"
    if temperature.status != "ok":
        return "do not use", f"no temperature was found, its status is {temperature.status}"
    unknown: tuple[Verdict, str] = ("check", "it is not known how it was found")
    verdict, reason = _WORTH.get(temperature.method, unknown)
    if temperature.method.startswith("uts") and temperature.warnings:
        return "do not use", "on such logits UTS did harm as often as it helped; see the notes"
    return verdict, reason


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
    """Which method to use with what is there, what each would answer, and what would help most.

    `source` and `few` are pairs of logits and labels; `labels` are those of all rows, if there are.

    >>> import numpy as np
    >>> logits = 4 * np.random.default_rng(0).normal(size=(5000, 10))
    >>> print(advise(logits, accuracy=0.6))
    use T = 1.624 (accuracy): it is as good as the accuracy that was given.
    others: uts 1.059, guarded 1.000; they differ by a factor of 1.62.
    would help most: labels for some rows, to see whether a single temperature fits at all.
    """
    given = open_source(logits, labels=labels, columns=columns, probabilities=probabilities)
    rows = given.select()
    engine = choose_engine(engine, rows)
    answers = {"uts": from_logits(rows, engine=engine), "guarded": guarded(rows, engine=engine)}
    if others:
        answers["models"] = from_models(rows, *others, engine=engine)
    if source is not None:
        answers["source-any"] = from_source(rows, *source, engine=engine)
    if accuracy is not None:
        answers["accuracy"] = from_accuracy(rows, accuracy, engine=engine)
    if few is not None:
        answers["few-labels"] = from_few_labels(rows, *few, engine=engine)
    if given.labeled:
        answers["temperature"] = from_labels(given, engine=engine)
    use = next(name for name in _ORDER if name in answers)
    verdict, because = judged(answers[use])
    plain = engine.total(partial(without_zero_weight, _plain), rows, "looking")
    return Advice(
        use,
        verdict,
        because,
        would_help(answers[use], accuracy_known="accuracy" in answers),
        round(plain.rows),
        plain.classes,
        float(plain.confidence[0] / plain.weight),
        float(-plain.spread / plain.weight),
        answers,
    )


def _plain(batch: Batch) -> Curve:
    return Curve.of(batch.logits, lattice=Lattice.point(1.0), sample_weight=batch.weight, bins=0)


def would_help(temperature: Temperature, *, accuracy_known: bool = False) -> str:
    """The piece of evidence that would help most beyond what a temperature was found from."""
    if temperature.method == "temperature":
        return "more labelled rows, or a method with more parameters (tepid.scaling)"
    if temperature.method == "few-labels":
        return "more labels; tepid.labels_to_halve says how many halve the interval"
    if temperature.method == "accuracy" or accuracy_known:
        return "labels for some rows, to see whether a single temperature fits at all"
    return "the model's accuracy on such rows, one number, or twenty-five labels"
