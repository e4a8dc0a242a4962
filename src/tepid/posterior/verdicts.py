"""From a posterior to a `Temperature`: the verdict, why, what would help most; and the groups."""

import dataclasses
import math

import numpy as np

from tepid.methods.passes import Key, Place, shrink_groups, shrinkage_note
from tepid.posterior.measured import Measured
from tepid.posterior.model import DOMINANT, GATE, Density, Posterior, probability_of_help
from tepid.summaries.optimum import INTERPOLATION
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


# Labels whose weights sum to less than this share of their number are likely normalized.
_LIGHT = 0.1


def describe(measured: Measured, posterior: Posterior) -> Temperature:
    """The temperature of a posterior, with its verdict, reason, next step and warnings."""
    curve, flat = measured.sums.curve, _is_flat(measured)
    status = _status(measured, posterior)
    kept = posterior.kept or flat
    helps = None if kept else posterior.helps
    # Evidence that contradicts itself, or that no T satisfies, is likely wrong.
    doubtful = bool(posterior.tension or measured.impossible) or status == "at-bound"
    certain = (helps or 0) >= _CERTAIN and not doubtful
    verdict: Verdict = "keep" if kept else "use" if certain else "check"
    value = 1.0 if flat else math.exp(posterior.log_t)
    return Temperature(
        value,
        "calibrate",
        samples=round(curve.rows),
        classes=curve.classes,
        implied_accuracy=float(measured.rows.top(0.0 if kept else posterior.log_t)),
        status=status,
        interval=_interval(posterior, value),
        verdict=verdict,
        reason=_reason(measured, posterior, helps),
        next_step=_next_step(measured, posterior),
        helps=helps,
        evidence=posterior.evidence,
        tension=posterior.tension,
        precision=INTERPOLATION[curve.lattice.per_octave],
        warnings=_warnings(measured, posterior, status),
    )


def _is_flat(measured: Measured) -> bool:
    """Whether the logits of every row are equal."""
    return measured.sums.curve.spread == 0


def _interval(posterior: Posterior, value: float) -> tuple[float, float]:
    """The interval of the posterior, extended to contain T, which may lie in a long tail of it."""
    low, high = posterior.density.interval
    return min(low, value), max(high, value)


def _status(measured: Measured, posterior: Posterior) -> Status:
    if _is_flat(measured) or not posterior.identified:
        return "not-identified"
    if posterior.density.at_bound:
        return "at-bound"
    low, high = posterior.density.interval
    return "weak" if high / low > _WEAK else "ok"


def _reason(measured: Measured, posterior: Posterior, helps: float | None) -> str:
    if _is_flat(measured):
        return "Every row's logits are equal, so every temperature gives the same probabilities."
    models = " Every other model is less confident, so these models are not used alone."
    extra = models if measured.weak_models and not posterior.identified else ""
    confidence = float(measured.rows.top(0.0))
    if posterior.kept and measured.labels_each:
        return f"Logits alone do not identify T of multi-label rows, so T = 1 is kept.{extra}"
    if posterior.kept and measured.dominant > DOMINANT and confidence >= GATE:
        return (
            f"Logits alone do not identify T, and {100 * measured.dominant:.0f} % of the rows are "
            f"predicted as one class, which explains their confidence, so T = 1 is kept.{extra}"
        )
    if posterior.kept:
        side = f"below {GATE}" if confidence < GATE else "too close to 1"
        return (
            f"Logits alone do not identify T, and their mean confidence is "
            f"{confidence:.3f}, {side}, so T = 1 is kept.{extra}"
        )
    sure = f"T lowers the expected log loss with a probability of {helps:.2f}."
    if posterior.tension or measured.impossible:
        sure += " But the evidence is contradictory or no better than chance."
    if not posterior.identified:
        return (
            f"The mean confidence is {confidence:.3f}; such networks err about three "
            f"times as often as they claim. {sure}{extra}"
        )
    return sure


def _next_step(measured: Measured, posterior: Posterior) -> str:
    if _is_flat(measured):
        return "Check that these are the model's logits."
    if not posterior.identified:
        return _first_evidence(measured)
    if measured.impossible or posterior.tension:
        return _check_evidence(measured, posterior)
    low, high = posterior.density.interval
    if high / low < _NARROW:
        return "Apply T: tepid apply CALIBRATION LOGITS"
    return _more_labels(measured, posterior)


def _check_evidence(measured: Measured, posterior: Posterior) -> str:
    if "labels" in measured.impossible:
        return "Check the labels: are they numbered in the order of the logits' columns?"
    if measured.impossible:
        return "Check the accuracy: it is no better than chance."
    return f"Check the {' and the '.join(posterior.tension)}: the other evidence gives another T."


def _first_evidence(measured: Measured) -> str:
    if measured.labels_each:
        return (
            f"Label {_FIRST_LABELS} random rows, or give the share of correct labels or a stronger "
            "reference model."
        )
    if measured.weak_models:
        return (
            "If a model is at least as accurate as this one, pass it as reference=; otherwise "
            f"label {_FIRST_LABELS} random rows: {_ASK.format(_FIRST_LABELS)}"
        )
    return (
        f"Label {_FIRST_LABELS} random rows ({_ASK.format(_FIRST_LABELS)}), or give the "
        "model's accuracy or a stronger reference model."
    )


def _more_labels(measured: Measured, posterior: Posterior) -> str:
    information = measured.rows.information(posterior.log_t) / measured.design_effect
    more = labels_to_halve(posterior.density.variance, information)
    if more is None:
        return "Give labels of some rows: the logits carry almost no information on T."
    if measured.labels_each:
        more = math.ceil(more / measured.labels_each)
        return f"All labels of {more} more random rows would halve the interval."
    labels = measured.sums.labeled
    if measured.scores is not None and measured.scores.count:
        known = 1 if labels is None else max(round(labels.rows), 1)
        more = math.ceil(more * measured.scores.count / known)
        return f"Labels of {more} more random clusters would halve the interval."
    rows, ask = ("more random rows", _ASK_MORE) if labels is not None else ("random rows", _ASK)
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


def _warnings(measured: Measured, posterior: Posterior, status: Status) -> tuple[str, ...]:
    found, sums = [], measured.sums
    for kind in posterior.tension:
        own = posterior.evidence[kind]
        found.append(f"T = {own.value:.3g} from the {kind} alone contradicts the other evidence.")
    found += [
        f"The predictions agree with the {kind} no better than by chance."
        for kind in measured.impossible
    ]
    if status == "weak":
        low, high = posterior.density.interval
        found.append(f"The interval of T is wide: {low:.3g} to {high:.3g}.")
    if status == "at-bound":
        found.append("The best T lies at the edge of the range that was searched.")
    if measured.scores is not None and measured.scores.count == 1:
        found.append("All labels belong to one cluster, so they count as one row.")
    if sums.labeled is not None and sums.labeled.weight < _LIGHT * sums.labeled.rows:
        found.append(
            "The weights of the labeled rows sum to far less than their number. Weights are "
            "frequencies: normalized weights make labels count for almost nothing."
        )
    found += [
        f"No temperature could be fitted to the {kind}: the answers agree with every prediction, "
        "or are no better than chance. Check that the rows are in the same order."
        for kind in measured.readings()
        if kind not in posterior.evidence
    ]
    masked = sum(each.masked for each in (sums.models, sums.reference) if each is not None)
    if masked:
        found.append(
            f"{masked:g} rows were left out because another model predicts a masked class."
        )
    rows, classes = round(sums.curve.rows), sums.curve.classes
    if rows < classes and not measured.labels_each:
        found.append(f"There are fewer rows ({rows}) than classes ({classes}).")
    return tuple(found)


def with_groups(
    whole: Temperature, found: dict[Key, Measured], posteriors: dict[Key, Posterior]
) -> Temperature:
    """The temperature of all rows with those of the groups, shrunk toward it.

    A group whose rows alone would keep T = 1 takes the posterior of all rows.
    """
    pool = posteriors[None]
    known = {
        str(key): _place(posterior) for key, posterior in posteriors.items()
        if key is not None and posterior.identified and pool.identified
    }  # fmt: skip
    places = shrink_groups(_place(pool), known) if known else {}
    groups = {}
    for key, each in found.items():
        if key is None:
            continue
        name = str(key)
        if name not in places:
            note = "These rows alone determine no temperature; the T of all rows is used."
            implied = float(each.rows.top(math.log(whole.value)))
            groups[name] = dataclasses.replace(
                whole, samples=round(each.sums.curve.rows), implied_accuracy=implied,
                warnings=(note,),
            )  # fmt: skip
            continue
        groups[name] = _shrunk(each, posteriors[key], places[name], whole)
    return dataclasses.replace(whole, groups=groups)


def _place(posterior: Posterior) -> Place:
    return Place(posterior.log_t, math.sqrt(posterior.density.variance))


def _shrunk(each: Measured, posterior: Posterior, place: Place, whole: Temperature) -> Temperature:
    """A group's temperature with the posterior that shrinkage leaves, taken as normal."""
    grid = np.union1d(posterior.density.grid, place.log_t + place.error * np.linspace(-6, 6, 241))
    grid = grid[(grid >= posterior.density.grid[0]) & (grid <= posterior.density.grid[-1])]
    density = Density.of([lambda u: -0.5 * ((u - place.log_t) / place.error) ** 2], grid)
    moved = dataclasses.replace(
        posterior,
        log_t=place.log_t,
        density=density,
        helps=probability_of_help(each.rows, density, place.log_t),
    )
    t = describe(each, moved)
    note = shrinkage_note(math.exp(posterior.log_t), whole.value, place.kept)
    return dataclasses.replace(t, warnings=(note, *t.warnings))
