"""What each rung of evidence buys on a folder of real logit sets: `results/ladder.json`.

`python benchmarks/ladder.py FOLDER`, each file an `.npz` of `logits` and `labels`; sets of a
hundred classes or more are cut to 5000 rows, others to 10,000. Logits alone and the accuracy: three
random splits, 20 % to fit, 80 % to score. Few labels: thirty draws from 3000 unlabelled rows.
Peers: the sets called `pool_…`, which share their rows. Shift: the set with `logits_val` that has
one. Only figures are written.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import record

import tepid

Score = tuple[float, float]


def load(folder: Path, pattern: str = "*.npz") -> Iterator[tuple[str, Any, Any]]:
    """Name, logits and labels of every set."""
    for path in sorted(folder.glob(pattern)):
        with np.load(path) as data:
            n = 5000 if data["logits"].shape[1] >= 100 else 10_000
            yield path.stem, data["logits"][:n], data["labels"][:n]


def score(z: Any, y: Any, temperature: float) -> Score:
    """ECE, and NLL above that of the best temperature."""
    best, found = (
        tepid.Reliability.of_logits(z, y, temperature=t)
        for t in (tepid.from_labels(z, y).value, temperature)
    )
    return tepid.metrics.ece(found), tepid.metrics.nll(found) - tepid.metrics.nll(best)


def alone(folder: Path) -> dict[str, list[list[Score]]]:
    """Every rung that needs no more than the set itself, by set and split."""
    fits: dict[str, Callable[[Any, Any, float], float]] = {
        "T = 1": lambda z, y, a: 1.0,  # noqa: ARG005  # one signature
        "uts": lambda z, y, a: tepid.from_logits(z).value,  # noqa: ARG005
        "guarded, no budget": lambda z, y, a: tepid.guarded(z, budget=1.0).value,  # noqa: ARG005
        "guarded": lambda z, y, a: tepid.guarded(z).value,  # noqa: ARG005
        "accuracy": lambda z, y, a: tepid.from_accuracy(z, a).value,  # noqa: ARG005
        "labels": lambda z, y, a: tepid.from_labels(z, y).value,  # noqa: ARG005
    }
    scores: dict[str, list[list[Score]]] = {name: [] for name in fits}
    for _, z, y in load(folder):
        known = float((z.argmax(axis=1) == y).mean())
        for name, fit in fits.items():
            scores[name].append([])
            for split in range(3):
                order = np.random.default_rng([0, split]).permutation(len(z))
                inside, outside = np.split(order, [round(0.2 * len(z))])
                t = fit(z[inside], y[inside], known)
                scores[name][-1].append(score(z[outside], y[outside], t))
    return scores


def few(folder: Path, labels: int) -> list[list[Score]]:
    """A few labels, by set and draw."""
    scores = []
    for _, z, y in load(folder):
        draws = []
        for draw in range(30):
            rows = np.random.default_rng([1, draw]).permutation(len(z))[:3000]
            t = tepid.from_few_labels(z[rows], z[rows[:labels]], y[rows[:labels]])
            draws.append(score(z, y, t.value))
        scores.append(draws)
    return scores


def peers(folder: Path, count: int) -> tuple[list[list[Score]], int]:
    """Every model of the pool with every choice of so many others; how often all were refused."""
    pool = list(load(folder, "pool_*.npz"))
    scores, refused = [], 0
    for i, (_, z, y) in enumerate(pool):
        rest = [p for j, (_, p, _) in enumerate(pool) if j != i]
        for others in itertools.combinations(rest, count):
            inside, outside = np.split(np.random.default_rng(0).permutation(len(z)), [2000])
            try:
                t = tepid.from_models(z[inside], *(o[inside] for o in others)).value
            except tepid.InputError:
                t, refused = 1.0, refused + 1
            scores.append([score(z[outside], y[outside], t)])
    return scores, refused


def shifted(folder: Path) -> dict[str, list[list[Score]]]:
    """The set with a second labelled part that differs from the first."""
    with np.load(folder / "pathmnist_shift.npz") as data:
        z, y, old, labels = (data[m] for m in ("logits", "labels", "logits_val", "labels_val"))
    kinds: tuple[Any, ...] = ("none", "label", "any")
    return {
        f"source, {kind} shift": [
            [score(z, y, tepid.from_source(z, old, labels, shift=kind).value)]
        ]
        for kind in kinds
    }


def summary(scores: list[list[Score]], before: list[list[Score]] | None) -> dict[str, Any]:
    """Means over sets of the means over draws; how many sets were harmed by over .2 points."""
    means = np.array([np.mean(s, axis=0) for s in scores])
    out = {
        "cases": len(means),
        "ece": float(means[:, 0].mean()),
        "excess": float(means[:, 1].mean()),
    }
    if before is not None:
        gap = means[:, 0] - np.array([np.mean(s, axis=0)[0] for s in before])
        out |= {"harmed": int((gap > 0.002).sum()), "worst": float(gap.max())}
    return out


def main() -> None:
    """Measure every rung and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    command = "python benchmarks/ladder.py FOLDER"
    about = record.circumstances(command, 0, 2, ("tepid", "numpy", "numba"))
    each = alone(folder)
    rungs = {name: summary(s, each["T = 1"]) for name, s in each.items()}
    for n in (10, 25, 50, 100, 200):
        rungs[f"{n} labels"] = summary(few(folder, n), None)
    for count in (1, 2, 5):
        found, refused = peers(folder, count)
        rungs[f"{count} peers"] = summary(found, None) | {"refused": refused}
    rungs |= {name: summary(s, None) for name, s in shifted(folder).items()}
    header = ("rung", "cases", "ECE, %", "excess NLL", "harmed", "worst harm, points")
    rows = [
        (
            name,
            r["cases"],
            f"{100 * r['ece']:.2f}",
            f"{r['excess']:.4f}",
            r.get("harmed", ""),
            f"{100 * r['worst']:.2f}" if "worst" in r else "",
        )
        for name, r in rungs.items()
    ]
    text = (
        record.preamble("The ladder of evidence", about) + "\n" + record.table(header, rows) + "\n"
    )
    record.write("ladder", about | {"rungs": rungs}, text)
    print(text)


if __name__ == "__main__":
    main()
