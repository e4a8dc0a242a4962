"""From sums to a temperature: the terms of all rows or of a group, and the shrinkage of groups."""

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from tepid.methods.accuracy import Estimate
from tepid.methods.passes import Key, Place, shrink_groups, shrinkage_note
from tepid.posterior.model import (
    DECLARED,
    DOMINANT,
    GAP,
    LIKE,
    PEER,
    REACH,
    TRUST,
    WEAK,
    Answer,
    Density,
    RowMeans,
    Term,
    accuracy_term,
    combine,
    label_term,
    logits_alone,
    prior_term,
    probability_of_help,
    reading_term,
    tempered,
)
from tepid.posterior.sums import Entropies, Sums, Targets
from tepid.posterior.verdicts import Findings, describe
from tepid.summaries.clusters import ClusterSums
from tepid.summaries.curve import Curve
from tepid.summaries.optimum import (
    INTERPOLATION,
    Reading,
    least_loss,
    matching_confidence,
    with_pull,
)
from tepid.temperature import Temperature

# The accuracy that an older set leads to is kept this far above chance, and no higher than this.
_ABOVE_CHANCE, _HIGHEST = 0.005, 0.9995
# Labels whose weights sum to less than this share of their number are likely normalized.
_LIGHT = 0.1
# The points of the grid on which a first temperature is found.
_POINTS = 1001


def known_labels(labels: Curve | None) -> Curve | None:
    """The curve of labeled rows, or None if there are none of them."""
    return labels if labels is not None and labels.weight else None


def labels_alone(sums: Sums) -> float:
    """T of the labels and a prior around 1, for what must be summed at some temperature."""
    labels = known_labels(sums.labels)
    if labels is None:
        return 1.0
    nodes = labels.lattice.nodes
    grid = np.linspace(-math.log(nodes[-1]), -math.log(nodes[0]), _POINTS)
    return math.exp(Density.of((prior_term(None), label_term([labels])), grid).mean)


@dataclass(frozen=True)
class OlderSet:
    """An older labeled set: its temperature with the standard error of log T, and its entropies."""

    reading: Reading
    error: float
    entropies: Entropies

    @property
    def temperature(self) -> float:
        """T of the set, or 1 if it has none."""
        return self.reading.temperature if self.reading.where == "inside" else 1.0


@dataclass(frozen=True, eq=False)
class Measured:
    """All rows, or one group: the sums, and the evidence on them."""

    sums: Sums
    uts: Reading
    entropies: Entropies | None
    accuracy: Estimate | None
    older: OlderSet | None
    scores: ClusterSums | None = None
    labels_each: int = 0

    @property
    def design_effect(self) -> float:
        """By how much clusters raise the variance of what the labels say; 1 without clusters.

        Labels of a single cluster count as one row.
        """
        labels = known_labels(self.sums.labels)
        if labels is None or self.scores is None:
            return 1.0
        if self.scores.variance is None:
            return max(1.0, labels.weight)
        means = RowMeans.of(labels)
        information = labels.weight * means.information(math.log(labels_alone(self.sums)))
        return max(1.0, self.scores.variance / information) if information else 1.0

    @property
    def center(self) -> float | None:
        """Log T of UTS, if it found one."""
        return math.log(self.uts.temperature) if self.uts.where == "inside" else None

    def readings(self) -> dict[str, list[tuple[Reading, float]]]:
        """The readings of log T by kind of evidence, with their standard deviations."""
        found: dict[str, list[tuple[Reading, float]]] = {}
        if self.sums.models is not None:
            found["models"] = [(r, PEER) for r in _model_readings(self.sums.models)]
        if self.sums.reference is not None:
            found["reference"] = _reference_readings(self.sums.reference, self.sums.curve.weight)
        if self.older is not None and self.entropies is not None:
            found["source"] = _source_readings(self.older, self.entropies, self.sums.curve)
        return found

    def places(self) -> tuple[list[float], set[str]]:
        """Log T of every term alone and of T = 1, and on which sides of the window others lie."""
        every = [reading for readings in self.readings().values() for reading, _ in readings]
        labels = known_labels(self.sums.labels)
        if labels is not None:
            every.append(least_loss(labels))
        if self.accuracy is not None:
            every.append(matching_confidence(self.sums.curve, self.accuracy.value))
        inside = [math.log(r.temperature) for r in every if r.where == "inside"]
        sides: set[str] = {r.where for r in every if r.where in ("below", "above")}
        center = _around(inside) if self.center is None else self.center
        return [center, *inside], sides

    def terms(self, rows: RowMeans) -> dict[str, Term]:
        """The terms by kind of evidence."""
        terms: dict[str, Term] = {}
        labels = known_labels(self.sums.labels)
        if labels is not None:
            terms["labels"] = tempered(label_term([labels]), self.design_effect)
        if self.accuracy is not None:
            terms["accuracy"] = accuracy_term(rows, self.accuracy.value, self.accuracy.error)
        for kind, readings in self.readings().items():
            inside = [(math.log(r.temperature), sd) for r, sd in readings if r.where == "inside"]
            if inside:
                outlier = WEAK if self.weak_models else LIKE
                terms[kind] = reading_term(inside, outlier if kind == "models" else DECLARED)
        return terms

    @property
    def weak_models(self) -> bool:
        """Whether every model is less confident by GAP."""
        models = self.sums.models
        if models is None or not models.curve.weight:
            return False
        own = float(self.sums.tails.confidence.sum() / self.sums.tails.weight)
        return bool(models.confidence.max() / models.curve.weight < own - GAP)

    @property
    def dominant(self) -> float:
        """The share of the rows that are predicted as the most frequent class."""
        return float(self.sums.tails.predicted.max() / self.sums.tails.weight)

    @property
    def impossible(self) -> tuple[str, ...]:
        """The kinds for which no temperature is high enough."""
        labels, found = known_labels(self.sums.labels), []
        if labels is not None and least_loss(labels).where == "beyond-infinity":
            found.append("labels")
        if self.accuracy is not None:
            matched = matching_confidence(self.sums.curve, self.accuracy.value)
            found += ["accuracy"] if matched.where == "beyond-infinity" else []
        return tuple(found)

    def answer(self) -> Answer:
        """The answer of all evidence."""
        rows = RowMeans.of(self.sums.curve)
        places, _ = self.places()
        nodes = self.sums.curve.lattice.nodes
        low, high = -math.log(nodes[-1]), -math.log(nodes[0])
        span = max(low, min(places) - REACH), min(high, max(places) + REACH)
        span = min(span[0], 0.0), max(span[1], 0.0)
        return combine(
            rows,
            prior_term(self.center, around=places[0]),
            self.terms(rows),
            span,
            # The rule for logits alone was measured on balanced rows of one label.
            alone=0.0 if self.labels_each or self.dominant > DOMINANT else logits_alone(rows),
            weak_models=self.weak_models,
        )

    def result(self, answer: Answer | None = None) -> Temperature:
        """The temperature, with its verdict and reasons."""
        answer = self.answer() if answer is None else answer
        curve, rows = self.sums.curve, RowMeans.of(self.sums.curve)
        labels = known_labels(self.sums.labels)
        findings = Findings(
            flat=curve.spread == 0,
            rows=round(curve.rows),
            classes=curve.classes,
            confidence=float(rows.top(np.zeros(1))[0]),
            implied=float(rows.top(np.array([answer.log_t]))[0]),
            labels=0 if labels is None else round(labels.rows),
            light=labels is not None and labels.weight < _LIGHT * labels.rows,
            information=rows.information(answer.log_t) / self.design_effect,
            clusters=0 if self.scores is None else self.scores.count,
            labels_each=self.labels_each,
            dominant=self.dominant,
            weak_models=self.weak_models,
            impossible=self.impossible,
            silent=tuple(kind for kind in self.readings() if kind not in answer.evidence),
            masked=sum(
                targets.masked
                for targets in (self.sums.models, self.sums.reference)
                if targets is not None
            ),
            precision=INTERPOLATION[curve.lattice.per_octave],
        )
        return describe(answer, findings)


def _around(places: list[float]) -> float:
    """Where a prior without UTS lies: at T = 1, unless all evidence is out of its reach."""
    if not places or min(abs(place) for place in places) <= REACH:
        return 0.0
    return float(np.median(places))


def sampling_error(curve: Curve, temperature: float) -> float:
    """The standard error of log T, from the expected information of rows that are frequencies."""
    node = curve.nearest_node(temperature)
    information = curve.lattice.nodes[node] ** 2 * curve.curvature[0, node]
    return 1 / math.sqrt(max(float(information), 1e-9))


def _model_readings(models: Targets) -> list[Reading]:
    """The median over models, and the class of their mean softmax; one model has one reading."""
    each = [least_loss(with_pull(models.curve, float(pull))) for pull in models.pulls]
    if len(each) == 1:
        return each
    *alone, together = each
    inside = [math.log(r.temperature) for r in alone if r.where == "inside"]
    if not inside:
        return [alone[0], together]
    return [Reading("inside", math.exp(float(np.median(inside)))), together]


def _reference_readings(reference: Targets, weight: float) -> list[tuple[Reading, float]]:
    """Its class and its softmax; a reference on some rows has a sampling error."""
    curve = reference.curve
    found = []
    for pull in reference.pulls:
        reading = least_loss(with_pull(curve, float(pull)))
        error = sampling_error(curve, reading.temperature)
        # None where every row has an answer: the rows are then the whole population.
        missing = max(0.0, 1 - curve.weight / weight)
        found.append((reading, math.sqrt(TRUST**2 + missing * error**2)))
    return found


def _source_readings(
    older: OlderSet, target: Entropies, curve: Curve
) -> list[tuple[Reading, float]]:
    """The older set's own temperature, and the one that matches the accuracy it leads to.

    The accuracy is estimated by average thresholded confidence (Garg et al. 2022): the share of
    rows whose entropy is below the threshold that as many of the older rows pass as are correct.
    """
    place = older.entropies.quantile(older.entropies.correct / older.entropies.weight)
    accuracy = target.share_below(place)
    accuracy = min(max(accuracy, 1 / curve.classes + _ABOVE_CHANCE), _HIGHEST)
    matched = matching_confidence(curve, accuracy)
    return [(older.reading, math.hypot(TRUST, older.error)), (matched, TRUST)]


def with_groups(
    whole: Temperature, found: dict[Key, Measured], answers: dict[Key, Answer]
) -> Temperature:
    """The temperature of all rows with those of the groups, shrunk toward it.

    A group whose rows alone would keep T = 1 takes the answer of all rows.
    """
    pool = answers[None]
    known = {
        str(key): _place(answer) for key, answer in answers.items()
        if key is not None and answer.identified and pool.identified
    }  # fmt: skip
    places = shrink_groups(_place(pool), known) if known else {}
    groups = {}
    for key, each in found.items():
        if key is None:
            continue
        name, rows = str(key), RowMeans.of(each.sums.curve)
        if name not in places:
            note = "These rows alone determine no temperature; the T of all rows is used."
            implied = float(rows.top(np.array([math.log(whole.value)]))[0])
            groups[name] = dataclasses.replace(
                whole, samples=round(each.sums.curve.rows), implied_accuracy=implied,
                warnings=(note,),
            )  # fmt: skip
            continue
        groups[name] = _shrunk(each, answers[key], places[name], whole)
    return dataclasses.replace(whole, groups=groups)


def _place(answer: Answer) -> Place:
    return Place(answer.log_t, math.sqrt(answer.density.variance))


def _shrunk(each: Measured, answer: Answer, place: Place, whole: Temperature) -> Temperature:
    """A group's temperature with the posterior that shrinkage leaves, taken as normal."""
    rows = RowMeans.of(each.sums.curve)
    grid = np.union1d(answer.density.grid, place.log_t + place.error * np.linspace(-6, 6, 241))
    grid = grid[(grid >= answer.density.grid[0]) & (grid <= answer.density.grid[-1])]
    density = Density.of([lambda u: -0.5 * ((u - place.log_t) / place.error) ** 2], grid)
    moved = dataclasses.replace(
        answer,
        log_t=place.log_t,
        density=density,
        helps=probability_of_help(rows, density, place.log_t),
    )
    t = each.result(moved)
    note = shrinkage_note(math.exp(answer.log_t), whole.value, place.kept)
    return dataclasses.replace(t, warnings=(note, *t.warnings))
