"""Which cases there are: every set, split, draw, choice of peers and kind of shift."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sets

PARTS = ("alone", "few", "peers", "shift", "coverage")
LABELS = (10, 25, 50, 100, 200, 500)
# How many models a group of peers has, the one that is calibrated among them.
SIZES = {"pairs": 2, "triples": 3, "fives": 5}
# So many groups are drawn where there are more.
MOST = {"pairs": 91, "triples": 60, "fives": 30}
SHIFTS = (
    "iid",
    "label shift",
    "hard rows, own confidence",
    "hard rows, others' confidence",
    "easy rows, others' confidence",
)
REAL_SHIFT = "real shift"
SEED = 0


@dataclass(frozen=True)
class Case:
    """One unit of work: what is measured, on which set, with what, and which draw of it."""

    part: str
    group: str
    set: str
    others: tuple[str, ...] = ()
    draw: int = 0

    @property
    def key(self) -> str:
        """The case in one line, by which it is known in the state file."""
        return " | ".join((self.part, self.group, self.set, "+".join(self.others), str(self.draw)))


@dataclass(frozen=True)
class Scale:
    """How many of each; the cases of the quick scale are among those of the full one."""

    splits: int = 3
    draws: int = 30
    groups: int = 1000
    samples: int = 60
    simulations: int = 400


FULL = Scale()
QUICK = Scale(splits=1, draws=3, groups=6, samples=3, simulations=3)


def cases(folder: Path, scale: Scale) -> list[Case]:
    """All cases of a folder, in the order in which they are reported."""
    parts = (_alone, _few, _peers, _shift, _coverage)
    return list(itertools.chain.from_iterable(part(folder, scale) for part in parts))


def _alone(folder: Path, scale: Scale) -> Iterator[Case]:
    for name in sets.names(folder):
        for split in range(scale.splits):
            yield Case("alone", "all sets", name, draw=split)


def _few(folder: Path, scale: Scale) -> Iterator[Case]:
    for n, name in itertools.product(LABELS, sets.names(folder)):
        for draw in range(scale.draws):
            yield Case("few", f"{n} labels", name, draw=draw)


def _peers(folder: Path, scale: Scale) -> Iterator[Case]:
    families = sets.families(folder)
    pool = [name for name in sets.names(folder) if name.startswith("pool_")]
    largest = max(families, key=lambda name: len(families[name]), default="")
    for family, members in ({"pool": pool} | families).items():
        sizes = tuple(SIZES) if family in ("pool", largest) else ("pairs",)
        for size, chosen in groups(members, sizes).items():
            for name, *others in chosen[:: max(1, len(chosen) // scale.groups)][: scale.groups]:
                yield Case("peers", f"{family} {size}", name, tuple(others))


def groups(members: list[str], sizes: tuple[str, ...]) -> dict[str, list[tuple[str, ...]]]:
    """Sets of models of each size, all or so many of them, and each model in turn with its peers.

    What is drawn is what the design targets were measured with: the triples by their places in the
    list of all, the fives one model after the other.
    """
    rng, found = np.random.default_rng(SEED), {}
    for size in sizes:
        every = list(itertools.combinations(members, SIZES[size]))
        if len(every) <= MOST[size]:
            chosen = every
        elif size == "fives":
            places = (
                rng.choice(len(members), SIZES[size], replace=False) for _ in range(MOST[size])
            )
            chosen = [tuple(members[i] for i in sorted(each)) for each in places]
        else:
            chosen = [every[i] for i in rng.permutation(len(every))[: MOST[size]]]
        found[size] = [(m, *(o for o in each if o != m)) for each in chosen for m in each]
    return found


def _shift(folder: Path, scale: Scale) -> Iterator[Case]:
    families = sets.families(folder)
    largest = max(families.values(), key=len, default=[])
    for kind, name in itertools.product(SHIFTS, largest):
        for draw in range(scale.splits * (2 if kind == "label shift" else 1)):
            others = tuple(other for other in largest if other != name)
            yield Case("shift", kind, name, others if "others'" in kind else (), draw)
    for name in sets.names(folder):
        if name.endswith("_shift"):
            yield Case("shift", REAL_SHIFT, name)


def _coverage(folder: Path, scale: Scale) -> Iterator[Case]:
    for name in sets.names(folder):
        for draw in range(scale.samples):
            yield Case("coverage", "real sets", name, draw=draw)
    for draw in range(scale.simulations):
        yield Case("coverage", "simulated", "simulated", draw=draw)
