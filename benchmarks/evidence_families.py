"""Other models on the same rows as the only evidence, by family and by their number."""

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from evidence_cases import ONE, Collection, Judge, Record, Scale, calibrate, halves, softmax

import tepid

# The number of models in a group, the one that is calibrated among them.
SIZES = {"pairs": 2, "triples": 3, "fives": 5}
# The number of groups that are drawn where there are more.
MOST = {"pairs": 91, "triples": 60, "fives": 30}
# Smaller families have pairs alone.
LEAST = 6
SEED = 0


def groups(members: list[str]) -> dict[str, list[tuple[str, ...]]]:
    """Groups of models of each size: all of them, or those that the design targets were drawn for.

    Each model of a group is calibrated in turn, and stands first.
    """
    rng, found = np.random.default_rng(SEED), {}
    for size, n in SIZES.items() if len(members) >= LEAST else [("pairs", 2)]:
        every = list(itertools.combinations(members, n))
        if len(every) <= MOST[size]:
            chosen = every
        elif size == "fives":
            places = (rng.choice(len(members), n, replace=False) for _ in range(MOST[size]))
            chosen = [tuple(members[i] for i in sorted(each)) for each in places]
        else:
            chosen = [every[i] for i in rng.permutation(len(every))[: MOST[size]]]
        found[size] = [(m, *(o for o in each if o != m)) for each in chosen for m in each]
    return found


def of_set(collection: Collection, name: str, scale: Scale) -> Iterator[Record]:
    """Every group in which one model is calibrated."""
    pool = sorted(n for n in collection.paths if n.startswith("pool_"))
    families = {"pool": pool} if name in pool else {}
    families |= {f: sorted(m) for f, m in collection.families.items() if name in m}
    for family, members in families.items():
        weakest = collection.weakest(members)
        for size, every in groups(members).items():
            own = [others for first, *others in every if first == name][: scale.groups]
            names = [f"{family} {size}"]
            for others in own:
                extra = f"{names[0]}, {'only' if others == [weakest] else 'not'} the weakest"
                of = [*names, extra] if size == "pairs" and family != "pool" else names
                for record in _of_group(collection, name, tuple(others), scale.splits):
                    yield from ({"part": "families", "group": group} | record for group in of)


def _of_group(
    collection: Collection, name: str, others: tuple[str, ...], splits: int
) -> Iterator[Record]:
    whole = collection.load(name)
    for split in range(splits):
        inside, _ = halves(whole, split)
        z, *logits = (collection.load(each).logits[inside] for each in (name, *others))
        judge, alone = _judge(collection, name, split)
        about = {"set": name, "case": f"{name} + {' + '.join(others)}, split {split}"}
        plain = votes if len(others) == 1 else majority
        for record in (
            *alone,
            judge.record("without a gate", plain(z, logits)),
            judge.record("models", calibrate(z, models=logits)),
        ):
            yield about | record


@cache
def _judge(collection: Collection, name: str, split: int) -> tuple[Judge, tuple[Record, ...]]:
    """The judge of a split, and the rows that are the same whatever the other models are."""
    whole = collection.load(name)
    inside, outside = halves(whole, split)
    judge = Judge(whole.of(outside), tepid.temperature_scaling(*whole, engine=ONE).value)
    uts = tepid.uts(whole.logits[inside], engine=ONE)
    return judge, (judge.record("T = 1", 1.0), judge.record("UTS", uts))


def votes(z: Any, others: list[Any]) -> tepid.Temperature:
    """Temperature scaling on the classes that the other model predicts."""
    (other,) = others
    return tepid.temperature_scaling(z, other.argmax(axis=1), engine=ONE)


def majority(z: Any, others: list[Any]) -> tepid.Temperature:
    """Matching the agreement with most of the others; a tie goes to the more confident."""
    tally, rows = np.zeros(z.shape), np.arange(len(z))
    for other in others:
        tally[rows, other.argmax(axis=1)] += 1 + 1e-3 * softmax(other).max(axis=1)
    agreed = float((z.argmax(axis=1) == tally.argmax(axis=1)).mean())
    return tepid.match_accuracy(z, agreed, engine=ONE)
