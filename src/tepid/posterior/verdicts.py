"""The verdict on a temperature: whether to use it, why, and what would help most."""

import math
from dataclasses import dataclass

from tepid.posterior.model import DOMINANT, GATE, Answer
from tepid.temperature import Status, Temperature, Verdict

# From this probability of help on, the verdict is to use T.
_CERTAIN = 0.9
# The interval is weak if its ends differ by more than this factor.
_WEAK = 4.0
# The number of labels to begin with: they halve the mean ECE of 39 sets.
_FIRST_LABELS = 25
_ASK = "tepid ask LOGITS -n {} -o to_label.csv"
_ASK_MORE = "tepid ask LOGITS -n {} --labels to_label.csv -o more.csv"
# An interval whose ends differ by less than this factor needs no more evidence.
_NARROW = 1.25


@dataclass(frozen=True)
class Findings:
    """What the sentences of a result need beside the answer.

    `confidence` is the mean confidence at T = 1 and `implied` that at T. `light` says that weights
    of labels sum to far less than their number. `impossible` names the kinds that are no better
    than chance, so that no T is high enough, and `silent` those that gave no reading. `masked` is
    the weight of rows in which another model names a masked class. `clusters` is the number of
    clusters that have labels, 0 where rows are independent. `labels_each` is the number of labels
    of multi-label rows, and `dominant` the share of the rows that are predicted as the most
    frequent class.
    """

    flat: bool
    rows: int
    classes: int
    confidence: float
    implied: float
    labels: int
    light: bool
    information: float
    clusters: int
    labels_each: int
    dominant: float
    weak_models: bool
    impossible: tuple[str, ...]
    silent: tuple[str, ...]
    masked: float
    precision: float


def describe(answer: Answer, findings: Findings) -> Temperature:
    """The temperature of an answer with its verdict, reason, next step and warnings."""
    status = _status(answer, findings)
    value = 1.0 if findings.flat else math.exp(answer.log_t)
    kept = answer.kept or findings.flat
    helps = None if kept else answer.helps
    # Evidence that contradicts itself, or that no T satisfies, is likely wrong.
    doubtful = bool(answer.tension or findings.impossible) or status == "at-bound"
    certain = (helps or 0) >= _CERTAIN and not doubtful
    verdict: Verdict = "keep" if kept else "use" if certain else "check"
    return Temperature(
        value,
        "calibrate",
        samples=findings.rows,
        classes=findings.classes,
        implied_accuracy=findings.confidence if kept else findings.implied,
        status=status,
        interval=_interval(answer, value),
        verdict=verdict,
        reason=_reason(answer, findings, helps),
        next_step=_next_step(answer, findings),
        helps=helps,
        evidence=answer.evidence,
        tension=answer.tension,
        precision=findings.precision,
        warnings=_warnings(answer, findings, status),
    )


def _interval(answer: Answer, value: float) -> tuple[float, float]:
    """The interval of the posterior; where T does not come from it, extended to contain T."""
    low, high = answer.density.interval
    return (low, high) if answer.identified else (min(low, value), max(high, value))


def _status(answer: Answer, findings: Findings) -> Status:
    if findings.flat or not answer.identified:
        return "not-identified"
    if answer.density.at_bound:
        return "at-bound"
    low, high = answer.density.interval
    return "weak" if high / low > _WEAK else "ok"


def _reason(answer: Answer, findings: Findings, helps: float | None) -> str:
    if findings.flat:
        return "Every row's logits are equal, so every temperature gives the same probabilities."
    models = " Every other model is less confident, so these models are not used alone."
    extra = models if findings.weak_models and not answer.identified else ""
    if answer.kept and findings.labels_each:
        return f"Logits alone do not identify T of multi-label rows, so T = 1 is kept.{extra}"
    if answer.kept and findings.dominant > DOMINANT and findings.confidence >= GATE:
        return (
            f"Logits alone do not identify T, and {100 * findings.dominant:.0f} % of the rows are "
            f"predicted as one class, which explains their confidence, so T = 1 is kept.{extra}"
        )
    if answer.kept:
        side = f"below {GATE}" if findings.confidence < GATE else "too close to 1"
        return (
            f"Logits alone do not identify T, and their mean confidence is "
            f"{findings.confidence:.3f}, {side}, so T = 1 is kept.{extra}"
        )
    sure = f"T lowers the expected log loss with a probability of {helps:.2f}."
    if answer.tension or findings.impossible:
        sure += " But the evidence is contradictory or no better than chance."
    if not answer.identified:
        return (
            f"The mean confidence is {findings.confidence:.3f}; such networks err about three "
            f"times as often as they claim. {sure}{extra}"
        )
    return sure


def _next_step(answer: Answer, findings: Findings) -> str:
    if findings.flat:
        return "Check that these are the model's logits."
    if not answer.identified:
        return _first_evidence(findings)
    if findings.impossible or answer.tension:
        return _check_evidence(answer, findings)
    low, high = answer.density.interval
    if high / low < _NARROW:
        return "Apply T: tepid apply CALIBRATION LOGITS"
    return _more_labels(answer, findings)


def _check_evidence(answer: Answer, findings: Findings) -> str:
    if "labels" in findings.impossible:
        return "Check the labels: are they numbered in the order of the logits' columns?"
    if findings.impossible:
        return "Check the accuracy: it is no better than chance."
    return f"Check the {' and the '.join(answer.tension)}: the other evidence gives another T."


def _first_evidence(findings: Findings) -> str:
    if findings.labels_each:
        return (
            f"Label {_FIRST_LABELS} random rows, or give the share of correct labels or a stronger "
            "reference model."
        )
    if findings.weak_models:
        return (
            "If a model is at least as accurate as this one, pass it as reference=; otherwise "
            f"label {_FIRST_LABELS} random rows: {_ASK.format(_FIRST_LABELS)}"
        )
    return (
        f"Label {_FIRST_LABELS} random rows ({_ASK.format(_FIRST_LABELS)}), or give the "
        "model's accuracy or a stronger reference model."
    )


def _more_labels(answer: Answer, findings: Findings) -> str:
    more = labels_to_halve(answer.density.variance, findings.information)
    if more is None:
        return "Give labels of some rows: the logits carry almost no information on T."
    if findings.labels_each:
        more = math.ceil(more / findings.labels_each)
        return f"All labels of {more} more random rows would halve the interval."
    if findings.clusters:
        more = math.ceil(more * findings.clusters / max(findings.labels, 1))
        return f"Labels of {more} more random clusters would halve the interval."
    rows, ask = ("more random rows", _ASK_MORE) if findings.labels else ("random rows", _ASK)
    return f"Labels of {more} {rows} would halve the interval: {ask.format(more)}"


def labels_to_halve(variance: float, information: float) -> int | None:
    """The number of further labels that would halve the interval; None if none can.

    Half the width needs four times the information 1 / variance.
    """
    if not (information > 0 and variance > 0 and math.isfinite(variance * information)):
        return None
    more = math.ceil(3 / (variance * information))
    step: int = max(1, 10 ** (len(str(more)) - 2))
    return math.ceil(more / step) * step


def _warnings(answer: Answer, findings: Findings, status: Status) -> tuple[str, ...]:
    found = []
    for kind in answer.tension:
        own = answer.evidence[kind]
        found.append(f"T = {own.value:.3g} from the {kind} alone contradicts the other evidence.")
    found += [
        f"The predictions agree with the {kind} no better than by chance."
        for kind in findings.impossible
    ]
    if status == "weak":
        low, high = answer.density.interval
        found.append(f"The interval of T is wide: {low:.3g} to {high:.3g}.")
    if status == "at-bound":
        found.append("The best T lies at the edge of the range that was searched.")
    if findings.clusters == 1:
        found.append("All labels belong to one cluster, so they count as one row.")
    if findings.light:
        found.append(
            "The weights of the labeled rows sum to far less than their number. Weights are "
            "frequencies: normalized weights make labels count for almost nothing."
        )
    found += [
        f"No temperature could be fitted to the {kind}: the answers agree with every prediction, "
        "or are no better than chance. Check that the rows are in the same order."
        for kind in findings.silent
    ]
    if findings.masked:
        found.append(
            f"{findings.masked:g} rows were left out because another model predicts a masked class."
        )
    if findings.rows < findings.classes and not findings.labels_each:
        found.append(f"There are fewer rows ({findings.rows}) than classes ({findings.classes}).")
    return tuple(found)
