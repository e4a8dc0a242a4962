"""Other models on the same rows: their agreement takes the place of labels."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tepid import shapes, validation
from tepid.engines import Engine, choose_engine
from tepid.errors import InputError, RowError
from tepid.methods.accuracy import match
from tepid.methods.passes import (
    Key,
    Pass,
    Passes,
    check_total,
    run_by_group,
    without_zero_weight,
)
from tepid.methods.results import (
    Fit,
    combine_groups,
    effective_rows,
    loss_error,
    matching_error,
    to_temperature,
)
from tepid.methods.search import Answer, Question, search
from tepid.sources import Batch, Source, open_source
from tepid.sources.batch import Peer, attach
from tepid.summaries import arithmetic
from tepid.summaries.curve import Curve
from tepid.summaries.lattice import Lattice
from tepid.summaries.optimum import least_loss, loss_step
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature, softmax
from tepid.validation import Array, Float64, Int64

# A peer is left out if its mean confidence is this much lower or it disagrees this often.
_LESS_CONFIDENT, _DISAGREEMENT = 0.05, 0.35
# From this number of classes on, votes do better than the majority.
_MANY_CLASSES = 100


@dataclass(frozen=True)
class _Agreement:
    """Sums over rows: the confidence of each model, and the agreement with each peer."""

    PARAMETERS: ClassVar = ("classes",)

    classes: int
    weight: float
    confidence: Float64  # of the model and of each peer
    agreed: Float64  # with each peer

    def __add__(self, other: "_Agreement") -> "_Agreement":
        return arithmetic.added(self, other)


@dataclass(frozen=True)
class _Majority:
    PARAMETERS: ClassVar = ()

    weight: float
    agreed: float

    def __add__(self, other: "_Majority") -> "_Majority":
        return arithmetic.added(self, other)


def from_models(
    logits: Any,
    *others: Any,
    ids: Any = None,
    sample_weight: Any = None,
    class_axis: int | None = None,
    groups: Any = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Temperature:
    """The temperature from the unlabeled logits of this model and of others on the same rows.

    With one peer, or a hundred classes, this is temperature scaling on the peers' predictions in
    place of labels. With more peers it is the temperature at which the mean confidence equals the
    agreement with the majority of them. Peers must have been trained independently: shared errors
    look like agreement, and language models with the same prompt share errors. A peer that is much
    less confident, or differs on more than a third of the rows, is left out with a warning. The
    warnings also give a bound that needs no assumption: the mean accuracy of two models is at most
    1 - d/2, where d is the share of rows on which they differ.

    Args:
        logits: The model's logits, as in `uts`.
        others: Each peer's logits for the same rows in the same order.
        ids: Optionally one column of row ids per model, this one first, which must be equal.
        sample_weight: One weight per row, for every model.
        class_axis: Where the classes are, for arrays of more than two dimensions.
        groups: One name per row, for a temperature of each group. Whether a peer is left out is
            decided on all rows.
        columns: The columns of each table that are the logits, where that is ambiguous.
        probabilities: The values are probabilities; their logarithms are the logits.
        engine: Where the sums are computed, by default on threads of this process.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = 4 * rng.normal(size=(3000, 5))
    >>> one, two = (truth + rng.normal(size=truth.shape) for _ in range(2))
    >>> from_models(one, two).method
    'models'
    """
    if not others:
        raise InputError("others must be the logits of at least one more model, got none")
    given: dict[str, Any] = {
        "class_axis": class_axis, "columns": columns, "probabilities": probabilities,
    }  # fmt: skip
    own = open_source(logits, sample_weight=sample_weight, groups=groups, **given).select()
    peers = _open_peers(own, [open_source(other, **given) for other in others])
    source = attach(own, {}, peers)
    engine = choose_engine(engine, source)
    _check_ids(ids, len(others) + 1, source.rows)
    agreement = partial(without_zero_weight, _agreement)
    counted = engine.total(agreement, source, "comparing models")
    check_total(counted.weight)
    kept, notes = _choose_peers(counted, len(others))
    if not kept:
        raise InputError(
            f"others must hold a model about as good as this one, got: {' '.join(notes)}"
        )
    source = attach(own, {}, tuple(peers[i] for i in kept))
    voting = len(kept) == 1 or counted.classes >= _MANY_CLASSES

    def fit(_: Key) -> Passes[Fit]:
        answer, error = yield from (_scaled_on_votes() if voting else _matched_to_majority())
        return Fit(to_temperature(answer, "models", notes=tuple(notes)), error)

    return combine_groups(run_by_group(fit, source, engine), source, engine)


def _open_peers(source: Source, others: list[Source]) -> tuple[Peer, ...]:
    """The other models; their numbers of rows and classes must be the model's own."""
    shape = (source.rows, source.classes)
    for number, other in enumerate(others, 1):
        there = (other.rows, other.classes)
        if None not in (*shape, *there) and there != shape:
            raise InputError(f"other {number} must have the shape of logits, {shape}, got {there}")
        if other.weighted and not source.weighted:
            raise InputError(f"sample_weight must come with logits, got it with other {number}")
        if not other.repeatable:
            raise InputError(f"other {number} must be readable more than once, got an iterator")
    if not source.repeatable:
        raise InputError(f"{source.name} must be readable more than once, got an iterator")
    return tuple(
        Peer(
            f"other {number}",
            other.select(weight=False, group=False).parts,
            decoded=other.spool is not None,
        )
        for number, other in enumerate(others, 1)
    )


def _check_ids(ids: Any, models: int, rows: int | None) -> None:
    if ids is None:
        return
    columns = [np.atleast_1d(column) for column in ids]
    if len(columns) != models:
        raise InputError(f"ids must be one column per model, {models} of them, got {len(columns)}")
    if rows is not None and len(columns[0]) != rows:
        raise InputError(f"ids must have one entry for each of {rows} rows, got {len(columns[0])}")
    for number, column in enumerate(columns[1:], 1):
        if column.shape != columns[0].shape or (column != columns[0]).any():
            same = column.shape == columns[0].shape
            row = (
                int((column != columns[0]).argmax()) if same else min(len(column), len(columns[0]))
            )
            raise InputError(
                f"ids must be the same for every model, got another at row {row} of {number}"
            )


def _votes(batch: Batch) -> list[Int64]:
    return [np.asarray(peer.argmax(axis=1), np.int64) for peer in batch.peers]


def _confidence(number: int, peer: Array, weight: Float64) -> float:
    try:
        return float(Tails.of(peer, sample_weight=weight).confidence.sum())
    except RowError as error:  # the engine adds where the batch starts
        raise error.moved(0, f"other {number}") from None


def _majority(batch: Batch) -> _Majority:
    """The agreement with the majority of the peers; ties go to the more confident peers."""
    logits = shapes.matrix(validation.as_array(batch.logits))
    tally = np.zeros(logits.shape)
    for peer, votes in zip(batch.peers, _votes(batch), strict=True):
        tally[np.arange(len(logits)), votes] += 1 + 1e-3 * softmax(peer).max(axis=1)
    agreed = logits.argmax(axis=1) == tally.argmax(axis=1)
    u = validation.weight_column(batch.weight, len(agreed))
    return _Majority(float(u.sum()), float(u @ agreed))


def _agreement(batch: Batch) -> _Agreement:
    logits = shapes.matrix(validation.as_array(batch.logits))
    mine = logits.argmax(axis=1)
    u = validation.weight_column(batch.weight, len(mine))
    sure = [_confidence(number, peer, u) for number, peer in enumerate(batch.peers, 1)]
    return _Agreement(
        logits.shape[1],
        float(u.sum()),
        np.array([Tails.of(logits, sample_weight=u).confidence.sum(), *sure]),
        np.array([u @ (mine == votes) for votes in _votes(batch)], np.float64),
    )


def _scaled_on_votes() -> Passes[tuple[Answer, float | None]]:
    """Temperature scaling on the peers' predictions, each peer with equal weight."""
    answer = yield from search(Question(read=least_loss, step=loss_step, curve_of=_vote_curve))
    return answer, loss_error(answer.point)


def _vote_curve(batch: Batch, lattice: Lattice) -> Curve:
    try:
        first, *others = (
            Curve.of(batch.logits, lattice=lattice, labels=v, sample_weight=batch.weight, bins=0)
            for v in _votes(batch)
        )
    except RowError as error:
        raise error if error.name == "logits" else error.moved(0, "a peer's vote") from None
    return sum(others, start=first) * (1 / len(batch.peers))


def _matched_to_majority() -> Passes[tuple[Answer, float | None]]:
    """The temperature at which the mean confidence equals the agreement with the majority."""
    counted: _Majority = yield Pass(_majority, _Majority, "comparing models")
    agreed = counted.agreed / counted.weight
    answer = yield from match(agreed)
    known = math.sqrt(agreed * (1 - agreed) / effective_rows(answer.curve))
    return answer, matching_error(answer.point, known)


def _choose_peers(counted: _Agreement, peers: int) -> tuple[list[int], list[str]]:
    kept, notes = [], []
    own = counted.confidence[0] / counted.weight
    for i in range(peers):
        differ = 1 - counted.agreed[i] / counted.weight
        sure = counted.confidence[i + 1] / counted.weight
        most = f"This model and model {i + 1} have a mean accuracy of at most {1 - differ / 2:.4f}."
        if sure < own - _LESS_CONFIDENT or differ >= _DISAGREEMENT:
            notes.append(
                f"Model {i + 1} was left out: its mean confidence is {sure:.3f} against {own:.3f} "
                f"and it differs on {100 * differ:.1f} % of the rows."
            )
        else:
            kept.append(i)
        notes.append(most)
    return kept, notes
