"""Other models on the same rows: what they agree on stands in for the labels."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tepid import arrays, shapes, summary
from tepid.arrays import Array, Float64, Int64
from tepid.curve import Curve
from tepid.engines import Engine, choose_engine
from tepid.errors import InputError, RowError
from tepid.lattice import Lattice
from tepid.methods import passes, verdict
from tepid.methods.accuracy import match
from tepid.methods.errors import effective_rows, loss_error, matching_error
from tepid.methods.groups import Fit, together
from tepid.methods.passes import Asking, Key, Pass, each_answered
from tepid.methods.search import Answer, Question, search
from tepid.optimum import least_loss, loss_step
from tepid.sources import Batch, Source, open_source
from tepid.sources.batch import Peer, attach
from tepid.tails import Tails
from tepid.temperature import Temperature

# A peer this much less confident, or this often of another opinion, ruins a pair.
LESS_CONFIDENT, DISAGREEMENT = 0.05, 0.35
# From here on votes do better than a majority, whose errors are shared.
MANY_CLASSES = 100


@dataclass(frozen=True)
class Agreement:
    """Sums over rows: how sure each model is, and how often each peer agrees with it."""

    PARAMETERS: ClassVar = ("classes",)

    classes: int
    weight: float
    confidence: Float64  # of the model and of each peer
    agreed: Float64  # with each peer

    def __add__(self, other: "Agreement") -> "Agreement":
        return summary.added(self, other)


@dataclass(frozen=True)
class _Majority:
    PARAMETERS: ClassVar = ()

    weight: float
    agreed: float

    def __add__(self, other: "_Majority") -> "_Majority":
        return summary.added(self, other)


def from_models(
    logits: Any,
    *others: Any,
    ids: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Temperature:
    """The temperature from the unlabelled logits of this model and of others on the same rows.

    With one peer, or a hundred classes, temperature scaling on the peers' predictions in the place
    of labels; with more peers, the temperature at which the mean confidence equals the agreement
    with most of them. Peers must have been trained apart: shared errors look like agreement, and
    language models with one prompt share theirs. A peer that is much less confident, or differs on
    more than a third of the rows, is left out, and `warnings` say so; they also give what holds
    without any assumption: the mean accuracy of two models is at most 1 - d/2, d being how often
    they differ.

    Args:
        logits: The model's logits: an array, a path, or a function that yields blocks afresh.
        others: Each peer's logits for the same rows in the same order, as the same kinds of thing.
        ids: Optionally one column of row ids per model, this one first, which must be equal.
        sample_weight: One weight per row, which counts for every model.
        groups: One name per row, for a temperature of each group. Peers are kept or left out by
            what they do on all rows.
        columns: The columns of each table that are the logits, where that is not clear.
        probabilities: The values are probabilities; their logarithms are the logits.
        engine: How many threads, and whom to tell of progress.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = 4 * rng.normal(size=(3000, 5))
    >>> one, two = (truth + rng.normal(size=truth.shape) for _ in range(2))
    >>> from_models(one, two).method
    'models'
    """
    if not others:
        raise InputError("others must be the logits of at least one more model, got none")
    given: dict[str, Any] = {"columns": columns, "probabilities": probabilities}
    own = open_source(logits, sample_weight=sample_weight, groups=groups, **given).select()
    peers = _open_peers(own, [open_source(other, **given) for other in others])
    source = attach(own, {}, peers)
    engine = choose_engine(engine, source)
    _check_ids(ids, len(others) + 1, source.rows)
    agreement = partial(passes.without_zero_weight, _agreement)
    counted = engine.total(agreement, source, "comparing models")
    passes.check_total(counted.weight)
    kept, said = _gated(counted, len(others))
    if not kept:
        raise InputError(
            f"others must hold a model about as good as this one, got: {' '.join(said)}"
        )
    source = attach(own, {}, tuple(peers[i] for i in kept))
    voting = len(kept) == 1 or counted.classes >= MANY_CLASSES

    def fit(_: Key) -> Asking[Fit]:
        answer, error = yield from (_voted() if voting else _matched())
        return _fitted(answer, error, said)

    return together(each_answered(fit, source, engine), source, engine)


def _fitted(answer: Answer, error: float | None, said: list[str]) -> Fit:
    t = Temperature(
        answer.temperature,
        "models",
        samples=round(answer.curve.rows),
        classes=answer.curve.classes,
        implied_accuracy=answer.confidence,
        status=answer.status,
        precision=answer.precision,
        warnings=verdict.about_bounds(answer) + verdict.about_rows(answer.curve) + tuple(said),
    )
    return Fit(t, error)


def _open_peers(source: Source, others: list[Source]) -> tuple[Peer, ...]:
    """The other models, whose rows and classes must be as many as the model's own."""
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


def _sureness(logits: Array) -> Float64:
    z = np.asarray(arrays.block(logits), np.float64)
    return np.asarray(1.0 / np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1))


def _confidence(number: int, peer: Array, weight: Float64) -> float:
    try:
        return float(Tails.of(peer, sample_weight=weight).confidence.sum())
    except RowError as error:  # the engine adds where the batch starts
        raise error.moved(0, f"other {number}") from None


def _majority(batch: Batch) -> _Majority:
    """How often the model agrees with most peers; where they are even, the more confident count."""
    logits = shapes.matrix(arrays.as_array(batch.logits))
    tally = np.zeros(logits.shape)
    for peer, votes in zip(batch.peers, _votes(batch), strict=True):
        tally[np.arange(len(logits)), votes] += 1 + 1e-3 * _sureness(peer)
    agreed = logits.argmax(axis=1) == tally.argmax(axis=1)
    u = arrays.weight_column(batch.weight, len(agreed))
    return _Majority(float(u.sum()), float(u @ agreed))


def _agreement(batch: Batch) -> Agreement:
    logits = shapes.matrix(arrays.as_array(batch.logits))
    mine = logits.argmax(axis=1)
    u = arrays.weight_column(batch.weight, len(mine))
    sure = [_confidence(number, peer, u) for number, peer in enumerate(batch.peers, 1)]
    return Agreement(
        logits.shape[1],
        float(u.sum()),
        np.array([Tails.of(logits, sample_weight=u).confidence.sum(), *sure]),
        np.array([u @ (mine == votes) for votes in _votes(batch)], np.float64),
    )


def _voted() -> Asking[tuple[Answer, float | None]]:
    """Temperature scaling on the peers' predictions, each of which counts in equal parts."""
    answer = yield from search(Question(read=least_loss, step=loss_step, summing=_ballots))
    return answer, loss_error(answer.point)


def _ballots(batch: Batch, lattice: Lattice) -> Curve:
    try:
        first, *others = (
            Curve.of(batch.logits, lattice=lattice, labels=v, sample_weight=batch.weight, bins=0)
            for v in _votes(batch)
        )
    except RowError as error:
        raise error if error.name == "logits" else error.moved(0, "a peer's vote") from None
    return sum(others, start=first) * (1 / len(batch.peers))


def _matched() -> Asking[tuple[Answer, float | None]]:
    """The temperature at which the mean confidence equals the agreement with most peers."""
    counted: _Majority = yield Pass(_majority, "comparing models")
    agreed = counted.agreed / counted.weight
    answer = yield from match(agreed)
    known = math.sqrt(agreed * (1 - agreed) / effective_rows(answer.curve))
    return answer, matching_error(answer.point, known)


def _gated(counted: Agreement, peers: int) -> tuple[list[int], list[str]]:
    kept, said = [], []
    own = counted.confidence[0] / counted.weight
    for i in range(peers):
        differ = 1 - counted.agreed[i] / counted.weight
        sure = counted.confidence[i + 1] / counted.weight
        most = f"This model and model {i + 1} have a mean accuracy of at most {1 - differ / 2:.4f}."
        if sure < own - LESS_CONFIDENT or differ >= DISAGREEMENT:
            said.append(
                f"Model {i + 1} was left out: its mean confidence is {sure:.3f} against {own:.3f} "
                f"and it differs on {100 * differ:.1f} % of the rows."
            )
        else:
            kept.append(i)
        said.append(most)
    return kept, said
