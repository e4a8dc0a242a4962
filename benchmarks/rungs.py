"""What each rung does with a case: logits alone, a few labels, other models on the same rows."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from cases import Case
from judging import ONE, Judge, Row, interval
from sets import LogitSet, load

import tepid

UNLABELLED = 3000


def halves(rows: LogitSet, split: int) -> tuple[Any, Any]:
    """A random fifth of the rows to fit, and the others to judge by."""
    order = np.random.default_rng(split).permutation(len(rows.labels))
    inside, outside = np.split(order, [len(order) // 5])
    return inside, outside


def alone(folder: Path, case: Case) -> list[Row]:
    """Every rung that needs no more than the set itself, and the accuracy of all its rows."""
    whole = load(folder, case.set)
    inside, outside = halves(whole, case.draw)
    z, y = whole.of(inside)
    judge = Judge.of(whole.of(outside))
    found = {
        "T = 1": 1.0,
        "UTS": tepid.uts(z, engine=ONE),
        "UTS, debiased": tepid.uts(z, debias=True, engine=ONE),
        "guarded, no budget": tepid.guarded(z, budget=1.0, engine=ONE),
        "guarded": tepid.guarded(z, engine=ONE),
        "accuracy": tepid.match_accuracy(z, whole.accuracy, engine=ONE),
        "labels": tepid.temperature_scaling(z, y, engine=ONE),
    }
    return [judge.judged(rung, t) for rung, t in found.items()]


@cache
def _whole(folder: Path, name: str) -> Judge:
    return Judge.of(load(folder, name))


def few(folder: Path, case: Case) -> list[Row]:
    """So many labels of 3000 unlabeled rows, and plain temperature scaling on the same labels."""
    judge = _whole(folder, case.set)
    n = int(case.group.split()[0])
    rows = np.random.default_rng([1, case.draw]).permutation(len(judge.rows.labels))[:UNLABELLED]
    z, y = judge.rows.of(rows)
    found = {
        "few labels": tepid.from_few_labels(z, z[:n], y[:n], engine=ONE),
        "plain scaling": tepid.temperature_scaling(z[:n], y[:n], engine=ONE),
    }
    return [interval(rung, t, judge.best) | judge.judged(rung, t) for rung, t in found.items()]


@cache
def _without_peers(folder: Path, name: str, split: int) -> tuple[Judge, list[Row]]:
    """The judge of a split, and the rungs that are the same whoever the peers are."""
    whole = load(folder, name)
    inside, outside = halves(whole, split)
    z, y = whole.of(inside)
    judge = Judge.of(whole.of(outside))
    found = {
        "T = 1": 1.0,
        "UTS": tepid.uts(z, engine=ONE),
        "labels": tepid.temperature_scaling(z, y, engine=ONE),
    }
    return judge, [judge.judged(rung, t) for rung, t in found.items()]


def peers(folder: Path, case: Case) -> list[Row]:
    """Other models on the same rows: as the library gates them, and without a gate."""
    inside, _ = halves(load(folder, case.set), case.draw)
    z, *others = (load(folder, name).logits[inside] for name in (case.set, *case.others))
    judge, (plain, unsupervised, labeled) = _without_peers(folder, case.set, case.draw)
    rows = [
        plain,
        unsupervised,
        judge.judged("votes, no gate", votes(z, others)),
        judge.judged("majority, no gate", majority(z, others)),
        labeled,
    ]
    try:
        gated: Any = tepid.from_models(z, *others, engine=ONE)
    except tepid.InputError:  # every peer was left out
        return [*rows, judge.judged("models", 1.0) | {"status": "refused"}]
    return [*rows, judge.judged("models", gated)]


def votes(z: Any, others: list[Any]) -> Any:
    """Temperature scaling on what each of the others predicts, in equal parts."""
    labels = np.concatenate([other.argmax(axis=1) for other in others])
    return tepid.temperature_scaling(np.concatenate([z] * len(others)), labels, engine=ONE)


def majority(z: Any, others: list[Any]) -> Any:
    """Matching the agreement with most of the others; where these are even, the surer count."""
    tally, rows = np.zeros(z.shape), np.arange(len(z))
    for other in others:
        tally[rows, other.argmax(axis=1)] += 1 + 1e-3 * sureness(other)
    agreed = float((z.argmax(axis=1) == tally.argmax(axis=1)).mean())
    return tepid.match_accuracy(z, agreed, engine=ONE)


def sureness(logits: Any) -> Any:
    """The largest probability of each row at T = 1."""
    d = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    return 1.0 / np.exp(d).sum(axis=1)
