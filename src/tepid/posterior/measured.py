"""From sums to the terms of the posterior, for all rows or for a group."""

import math
from dataclasses import dataclass

import numpy as np

from tepid.methods.accuracy import Estimate
from tepid.posterior.model import (
    DECLARED,
    DOMINANT,
    GAP,
    LIKE,
    PEER,
    REACH,
    TRUST,
    WEAK,
    Density,
    Posterior,
    RowMeans,
    Term,
    accuracy_term,
    combine,
    label_term,
    logits_alone,
    prior_term,
    reading_term,
)
from tepid.posterior.sums import Entropies, Sums, Targets
from tepid.summaries.clusters import ClusterSums
from tepid.summaries.curve import Curve
from tepid.summaries.optimum import (
    Reading,
    least_loss,
    matching_confidence,
    with_pull,
)

# The accuracy that an older set leads to is kept this far above chance, and no higher than this.
_ABOVE_CHANCE, _HIGHEST = 0.005, 0.9995
# The points of the grid on which a first temperature is found.
_POINTS = 1001


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
    accuracy: Estimate | None = None
    older: OlderSet | None = None
    entropies: Entropies | None = None
    scores: ClusterSums | None = None
    labels_each: int = 0

    @property
    def rows(self) -> RowMeans:
        """Means over the rows as functions of log T."""
        return RowMeans.of(self.sums.curve)

    @property
    def design_effect(self) -> float:
        """By how much clusters raise the variance of what the labels say; 1 without clusters.

        Labels of a single cluster count as one row.
        """
        labels = self.sums.labeled
        if labels is None or self.scores is None:
            return 1.0
        if self.scores.variance is None:
            return max(1.0, labels.weight)
        at = math.log(self.temperature_of_labels)
        information = labels.weight * RowMeans.of(labels).information(at)
        return max(1.0, self.scores.variance / information) if information else 1.0

    @property
    def temperature_of_labels(self) -> float:
        """T of the labels and the prior, at which the scores of labels are summed; 1 without."""
        labels = self.sums.labeled
        if labels is None:
            return 1.0
        places, _ = self.places()
        nodes = labels.lattice.nodes
        grid = np.linspace(-math.log(nodes[-1]), -math.log(nodes[0]), _POINTS)
        prior = prior_term(self.uts.log_t, around=places[0])
        return math.exp(Density.of((prior, label_term(labels)), grid).mean)

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
        if self.sums.labeled is not None:
            every.append(least_loss(self.sums.labeled))
        if self.accuracy is not None:
            every.append(matching_confidence(self.sums.curve, self.accuracy.value))
        inside = [r.log_t for r in every if r.log_t is not None]
        sides: set[str] = {r.where for r in every if r.where in ("below", "above")}
        center = _around(inside) if self.uts.log_t is None else self.uts.log_t
        return [center, *inside], sides

    def terms(self, rows: RowMeans) -> dict[str, Term]:
        """The terms by kind of evidence."""
        terms: dict[str, Term] = {}
        if self.sums.labeled is not None:
            terms["labels"] = label_term(self.sums.labeled, self.design_effect)
        if self.accuracy is not None:
            terms["accuracy"] = accuracy_term(rows, self.accuracy.value, self.accuracy.error)
        for kind, readings in self.readings().items():
            inside = [(r.log_t, sd) for r, sd in readings if r.log_t is not None]
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
        labels, found = self.sums.labeled, []
        if labels is not None and least_loss(labels).where == "beyond-infinity":
            found.append("labels")
        if self.accuracy is not None:
            matched = matching_confidence(self.sums.curve, self.accuracy.value)
            found += ["accuracy"] if matched.where == "beyond-infinity" else []
        return tuple(found)

    def posterior(self) -> Posterior:
        """The posterior of all evidence."""
        rows = self.rows
        places, _ = self.places()
        nodes = self.sums.curve.lattice.nodes
        low, high = -math.log(nodes[-1]), -math.log(nodes[0])
        span = max(low, min(places) - REACH), min(high, max(places) + REACH)
        span = min(span[0], 0.0), max(span[1], 0.0)
        return combine(
            rows,
            prior_term(self.uts.log_t, around=places[0]),
            self.terms(rows),
            span,
            # The rule for logits alone was measured on balanced rows of one label.
            alone=0.0 if self.labels_each or self.dominant > DOMINANT else logits_alone(rows),
            weak_models=self.weak_models,
        )


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
    inside = [r.log_t for r in alone if r.log_t is not None]
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
