"""Other models on the same rows: what they agree on stands in for the labels."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tepid import arrays, shapes, summary
from tepid.arrays import Array, Float64, Int64
from tepid.engines import Threads
from tepid.errors import InputError, RowError
from tepid.methods import verdict
from tepid.methods.accuracy import match
from tepid.methods.search import Answer, Question, search
from tepid.optimum import least_loss, loss_step
from tepid.sources import Block, Source, open_array, open_source
from tepid.tails import Tails
from tepid.temperature import Temperature

# A peer this much less confident, or this often of another opinion, ruins a pair.
LESS_CONFIDENT, DISAGREEMENT = 0.05, 0.35
# From here on votes do better than a majority, whose errors are shared.
MANY_CLASSES = 100


@dataclass(frozen=True)
class Agreement:
    """Sums over rows: how sure each model is, and how often each peer, or most, agree with it."""

    PARAMETERS = ()

    rows: float
    confidence: Float64  # of the model and of each peer
    agreed: Float64  # with each peer
    majority: float  # with most of the peers

    def __add__(self, other: "Agreement") -> "Agreement":
        return summary.added(self, other)


def from_models(
    logits: Any,
    *others: Any,
    ids: Any = None,
    engine: Threads | None = None,
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
        logits: The model's logits, an array or a path.
        others: Each peer's logits for the same rows in the same order.
        ids: Optionally one column of row ids per model, this one first, which must be equal.
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
    engine = engine or Threads()
    source = open_source(logits).unlabelled()
    peers = [_peer(i, other, source) for i, other in enumerate(others, 1)]
    _check_ids(ids, len(peers) + 1)
    counted = engine.total(partial(_agreement, peers=peers), source, "comparing models")
    kept, said = _gated(counted, len(peers))
    if not kept:
        raise InputError(
            f"others must hold a model about as good as this one, got: {' '.join(said)}"
        )
    answer = _answer(source, engine, [peers[i] for i in kept], counted)
    return Temperature(
        answer.temperature,
        "models",
        samples=round(answer.curve.rows),
        classes=answer.curve.classes,
        implied_accuracy=answer.confidence,
        status=answer.status,
        precision=answer.precision,
        warnings=verdict.about_bounds(answer) + verdict.about_rows(answer.curve) + tuple(said),
    )


def _peer(number: int, other: Any, source: Source) -> Array:
    peer = shapes.matrix(arrays.as_array(open_array(other)))
    if source.rows is None or source.classes is None:
        raise InputError("logits must be an array or a file to be compared, got a stream")
    if peer.shape != (source.rows, source.classes):
        raise InputError(
            f"other {number} must have the shape of logits, {(source.rows, source.classes)}, "
            f"got {peer.shape}"
        )
    return np.asarray(peer)


def _check_ids(ids: Any, models: int) -> None:
    if ids is None:
        return
    columns = [np.asarray(column) for column in ids]
    if len(columns) != models:
        raise InputError(f"ids must be one column per model, {models} of them, got {len(columns)}")
    for number, column in enumerate(columns[1:], 1):
        if column.shape != columns[0].shape or (column != columns[0]).any():
            same = column.shape == columns[0].shape
            row = (
                int((column != columns[0]).argmax()) if same else min(len(column), len(columns[0]))
            )
            raise InputError(
                f"ids must be the same for every model, got another at row {row} of {number}"
            )


def _votes(block: Block, peer: Array) -> Int64:
    rows = peer[block.start : block.start + len(block.logits)]
    return np.asarray(rows.argmax(axis=1), np.int64)


def _sureness(logits: Any) -> Float64:
    z = np.asarray(arrays.block(arrays.as_array(logits)), np.float64)
    return np.asarray(1.0 / np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1))


def _confidence(block: Block, number: int, peer: Array) -> float:
    rows = peer[block.start : block.start + len(block.logits)]
    try:
        return float(Tails.of(rows).confidence.sum())
    except RowError as error:  # the engine adds where the block starts
        raise error.moved(0, f"other {number}") from None


def _majority(block: Block, peers: list[Array]) -> Int64:
    """What most peers predict; where they are even, the more confident ones."""
    n = len(block.logits)
    tally = np.zeros((n, peers[0].shape[1]))
    for peer in peers:
        sure = _sureness(peer[block.start : block.start + n])
        tally[np.arange(n), _votes(block, peer)] += 1 + 1e-3 * sure
    return np.asarray(tally.argmax(axis=1), np.int64)


def _agreement(block: Block, peers: list[Array]) -> Agreement:
    logits = shapes.matrix(arrays.as_array(block.logits))
    mine = logits.argmax(axis=1)
    own = Tails.of(logits).confidence.sum()
    sure = [_confidence(block, i, peer) for i, peer in enumerate(peers, 1)]
    return Agreement(
        float(len(mine)),
        np.array([own, *sure]),
        np.array([(mine == _votes(block, peer)).sum() for peer in peers], np.float64),
        float((mine == _majority(block, peers)).sum()),
    )


def _gated(counted: Agreement, peers: int) -> tuple[list[int], list[str]]:
    kept, said = [], []
    own = counted.confidence[0] / counted.rows
    for i in range(peers):
        differ = 1 - counted.agreed[i] / counted.rows
        sure = counted.confidence[i + 1] / counted.rows
        if sure < own - LESS_CONFIDENT or differ >= DISAGREEMENT:
            said.append(
                f"Model {i + 1} was left out: its mean confidence is {sure:.3f} against {own:.3f} "
                f"and it differs on {100 * differ:.1f} % of the rows."
            )
        else:
            kept.append(i)
            most = f"{1 - differ / 2:.4f}"
            said.append(f"This model and model {i + 1} have a mean accuracy of at most {most}.")
    return kept, said


def _answer(source: Source, engine: Threads, peers: list[Array], counted: Agreement) -> Answer:
    if len(peers) == 1 or peers[0].shape[1] >= MANY_CLASSES:
        question = Question(
            read=least_loss,
            step=loss_step,
            votes=lambda block: [_votes(block, peer) for peer in peers],
        )
        return search(source, engine, question)
    if len(peers) < len(counted.agreed):
        counted = engine.total(partial(_agreement, peers=peers), source, "comparing models")
    return match(source, engine, counted.majority / counted.rows)
