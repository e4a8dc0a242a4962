"""The sums over rows behind the posterior: of the rows themselves and of each kind of evidence.

Sites that may not share their rows share these sums (`summarize`). `temperature_scaling` and
`match_accuracy` need one round. UTS, and so `calibrate`, needs two, since its thresholds depend on
the rows of every site: the sites first share their tails and then, given all tails, their curves.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tepid import shapes, store, validation
from tepid.engines import Engine, choose_engine
from tepid.errors import InputError, RowError
from tepid.methods.exact import uts_question
from tepid.methods.passes import one_pass, run
from tepid.sources import Batch, open_source
from tepid.summaries.clusters import ClusterSums, label_scores
from tepid.summaries.curve import Curve, Lattice
from tepid.summaries.shared import LATTICE, Summaries
from tepid.summaries.summary import add, equal, scale, softmax
from tepid.summaries.tails import Tails
from tepid.validation import Array, Float64, Int64

# The grid of entropies: its number of bins and its lower end.
_BINS, _LEAST_ENTROPY = 4096, 1e-9


@dataclass(frozen=True, eq=False)
class Targets:
    """Sums of d at the classes that other models name, over the rows for which all of them do.

    `curve` is that of these rows with the first target as the label. `pulls` are the sums of d at
    each target: a class per model and the class of their mean softmax; or a reference's class and
    its whole softmax. `confidence` is the sum of each model's own confidence.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ()

    curve: Curve
    pulls: Float64
    confidence: Float64
    masked: float  # the weight of the rows in which a model names a masked class

    __add__ = add
    __mul__ = __rmul__ = scale
    __eq__ = equal


@dataclass(frozen=True, eq=False)
class Sums:
    """The first pass over the rows. `curve` takes each row's predicted class as its label."""

    PARAMETERS: ClassVar[tuple[str, ...]] = ()

    tails: Tails
    curve: Curve
    labels: Curve | None = None
    models: Targets | None = None
    reference: Targets | None = None

    @property
    def labeled(self) -> Curve | None:
        """The curve of labeled rows, or None if there are none of them."""
        return self.labels if self.labels is not None and self.labels.weight else None

    __add__ = add
    __mul__ = __rmul__ = scale
    __eq__ = equal


def first_pass(
    lattice: Lattice,
    *,
    labeled: bool,
    thresholds: Float64 | None = None,
    models: int = 0,
    reference: bool = False,
    bins: int = 0,
) -> Callable[[Batch], Sums]:
    """The function that gives the sums of a batch whose peers are the models, then a reference.

    `thresholds` are those of the curve of all rows. `bins` are those of the curve of the labels;
    one bin counts its correct rows.
    """

    def of(batch: Batch) -> Sums:
        logits = validation.as_array(batch.logits)
        z = shapes.matrix(logits)
        weight = validation.weight_column(batch.weight, len(z))
        others, judge = batch.peers[:models], batch.peers[models:]
        return Sums(
            Tails.of(logits, sample_weight=weight),
            Curve.of(
                logits,
                lattice=lattice,
                thresholds=thresholds,
                labels=predicted_classes(z),
                sample_weight=weight,
                bins=0,
            ),
            labeled_curve(batch, lattice, bins) if labeled else None,
            _model_targets(z, weight, others, lattice) if models else None,
            _reference_targets(z, weight, judge[0], lattice) if reference else None,
        )

    return of


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
    >>> from tepid.methods import uts
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
    if given is not None and not isinstance(given, Summaries):
        raise InputError(f"given must be summaries of all sites, got {type(given).__name__}")
    if given is not None and source.classes not in (None, given.tails.classes):
        raise InputError(
            f"given must be of the {source.classes} classes of the logits, "
            f"got {given.tails.classes}"
        )
    thresholds = None if given is None else uts_question(given.tails).thresholds
    of = first_pass(LATTICE, labeled=source.labeled, thresholds=thresholds)
    total: Sums = run(one_pass(of, "summing"), source, choose_engine(engine, source))
    # Without a print, so that two sites whose rows all have weight zero do not look like one.
    prints = (store.digest("Tails", *store.fields_of(total.tails)),) if total.curve.weight else ()
    return Summaries(total.tails, total.curve, total.labels, prints)


def labeled_curve(batch: Batch, lattice: Lattice, bins: int = 0) -> Curve:
    """The curve of the labeled rows of a batch."""
    z, weight, labels = _read_labeled(batch)
    return _curve_of_rows(z, weight, labels, np.flatnonzero(labels >= 0), lattice, "labels", bins)


def scores_by_cluster(batch: Batch, temperature: float) -> ClusterSums:
    """The scores of the labeled rows of a batch by cluster."""
    z, weight, labels = _read_labeled(batch)
    rows = np.flatnonzero(labels >= 0)
    own = validation.to_host(z if len(rows) == len(z) else z[rows])
    scores = label_scores(own, labels[rows], temperature)
    return ClusterSums.of(scores, weight[rows], batch.buckets()[rows])


def _read_labeled(batch: Batch) -> tuple[Any, Float64, Int64]:
    """The logits (n, k) of a batch, the weights, and the labels, -1 where unknown."""
    z = shapes.matrix(validation.as_array(batch.logits))
    n, k = z.shape
    weight = validation.weight_column(batch.weight, n)
    return z, weight, validation.partial_labels(batch.labels, n, k, weight=weight)


def predicted_classes(z: Any) -> Int64:
    """The predicted classes; of a row with NaN any class, since the kernel refuses the row."""
    predicted = validation.namespace(z).argmax(z, axis=1)
    return np.asarray(validation.to_host(predicted), np.int64)


def _curve_of_rows(
    z: Any,
    weight: Float64,
    labels: Int64,
    rows: Int64,
    lattice: Lattice,
    name: str,
    bins: int = 0,
) -> Curve:
    if not len(rows):
        return Curve.zero(z.shape[1], lattice=lattice, labeled=True, bins=bins)
    every = len(rows) == len(z)
    z, labels, weight = (z, labels, weight) if every else (z[rows], labels[rows], weight[rows])
    try:
        return Curve.of(z, lattice=lattice, labels=labels, sample_weight=weight, bins=bins)
    except RowError as error:
        called = name if error.name == "labels" else None
        raise error.moved(int(rows[error.row]) - error.row, called) from None


def _model_targets(z: Any, weight: Float64, models: tuple[Array, ...], lattice: Lattice) -> Targets:
    """One target per model, and the class of their mean softmax if there are several."""
    answered = np.all([_answered(model) for model in models], axis=0)
    rows = np.flatnonzero(answered)
    beliefs = [_softmax(model, rows, f"model {number}") for number, model in enumerate(models, 1)]
    confidence = np.array([weight[rows] @ p.max(axis=1) for p in beliefs])
    chosen = [p.argmax(axis=1) for p in beliefs]
    if len(models) > 1:
        chosen.append(sum(beliefs, np.zeros(beliefs[0].shape)).argmax(axis=1))
    return _targets(z, weight, rows, np.array(chosen, np.int64), None, confidence, lattice)


def _reference_targets(z: Any, weight: Float64, judge: Array, lattice: Lattice) -> Targets:
    """The class that a reference names and, unless it names classes alone, its softmax."""
    rows = np.flatnonzero(_answered(judge))
    if judge.ndim == 1:
        chosen = np.asarray(judge, np.int64)[None, rows]
        return _targets(z, weight, rows, chosen, None, np.zeros(1), lattice)
    belief = _softmax(judge, rows, "reference")
    confidence = np.array([weight[rows] @ belief.max(axis=1)])
    chosen = belief.argmax(axis=1)[None]
    return _targets(z, weight, rows, chosen, belief, confidence, lattice)


def _targets(
    z: Any,
    weight: Float64,
    rows: Int64,
    chosen: Int64,
    belief: Float64 | None,
    confidence: Float64,
    lattice: Lattice,
) -> Targets:
    """The sums at the chosen classes (targets, rows) and at a belief (rows, classes)."""
    own = validation.to_host(z if len(rows) == len(z) else z[rows])
    top = own.max(axis=1, initial=-np.inf).astype(np.float64)
    at = own[np.arange(len(rows)), chosen].astype(np.float64) - top
    usable = np.isfinite(at).all(axis=0)
    u = np.where(usable, weight[rows], 0.0)
    pulls = [u @ np.where(usable, each, 0.0) for each in at]
    if belief is not None:
        pulls.append(u @ (_expected(own, belief) - top))
    labels = np.full(len(z), -1)
    labels[rows] = chosen[0]
    curve = _curve_of_rows(z, weight, labels, rows[usable], lattice, "reference")
    return Targets(curve, np.array(pulls), confidence, float(weight[rows][~usable].sum()))


def _expected(z: Array, belief: Float64) -> Float64:
    """The mean logit under a belief, renormalized over the classes that are not masked."""
    masked = np.isneginf(z)
    if not masked.any():
        return np.asarray(np.einsum("ij,ij->i", belief, z))
    share = np.where(masked, 0.0, belief)
    total = np.maximum(share.sum(axis=1), np.finfo(np.float64).tiny)
    return np.asarray((share * np.where(masked, 0.0, z)).sum(axis=1) / total)


def _answered(peer: Array) -> Any:
    return peer >= 0 if peer.ndim == 1 else ~np.isnan(peer).all(axis=1)


def _softmax(peer: Array, rows: Int64, name: str) -> Float64:
    try:
        return softmax(peer[rows])
    except RowError as error:
        raise error.moved(int(rows[error.row]) - error.row, name) from None


# The older set ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Entropies:
    """A histogram of the entropies of softmax(z / T), on a fixed logarithmic grid.

    A quantile of it, and the share of rows below a place, are wrong by at most the share of rows in
    one bin, whose edges differ by half a percent.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ("classes",)

    classes: int
    weight: float
    correct: float  # the weight of the rows that are predicted correctly
    counts: Float64  # the weight of the rows in each bin

    @classmethod
    def of(cls, batch: Batch, temperature: float, *, labeled: bool = False) -> "Entropies":
        """The summary of all rows of a batch, or of its labeled rows."""
        p = softmax(batch.logits, temperature)
        k = p.shape[1]
        u = validation.weight_column(batch.weight, len(p))
        correct = 0.0
        if labeled:
            _, u, labels = _read_labeled(batch)
            u = np.where(labels >= 0, u, 0.0)
            correct = float(u @ (p.argmax(axis=1) == labels))
        entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)
        place = np.log(np.maximum(entropy, _LEAST_ENTROPY) / _LEAST_ENTROPY)
        place /= math.log(math.log(k) / _LEAST_ENTROPY)
        where = np.minimum((place * _BINS).astype(np.int64), _BINS - 1)
        counts = np.bincount(where, u, _BINS).astype(np.float64)
        return cls(k, float(u.sum()), correct, counts)

    @property
    def _below(self) -> Float64:
        return np.concatenate([[0.0], np.cumsum(self.counts)]) / self.weight

    def quantile(self, share: float) -> float:
        """The place on the grid, in bins, below which this share of the rows lies."""
        return float(np.interp(share, self._below, np.arange(_BINS + 1)))

    def share_below(self, place: float) -> float:
        """The share of the rows below a place on the grid."""
        return float(np.interp(place, np.arange(_BINS + 1), self._below))

    __add__ = add
    __mul__ = __rmul__ = scale
    __eq__ = equal
