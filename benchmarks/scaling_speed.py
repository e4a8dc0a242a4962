"""How fast the calibrators of `tepid.scaling` are fitted, as ratios within one run.

Contestants take turns, so that a busy minute hits all of them, after one call each that is not
timed. Affine maps are fitted without regularization, as the peers do; the default, which chooses
one by cross-validation, is timed beside them. `python benchmarks/scaling_speed.py` writes
results/scaling_speed.json and .md; see `synthetic` for the data.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import record
import scaling_peers
import synthetic
import torch

from tepid import scaling

SEED, THREADS = 0, 1
SIZES = ((5000, 10), (5000, 100))
AFFINE = ("vector", "matrix", "dirichlet")
PACKAGES = ["numpy", "numba", "scipy", "scikit-learn", "probmetrics", "torch"]
# A peer that takes longer than this is timed once.
SLOW = 5.0
NOTE = """\
Processor seconds of a fit on one thread, the least of the turns: other work on the machine moves
them less than the clock. NLL is that of the rows of the fit, so that a fast wrong answer does not
pass for a fast one. netcal's BBQ is another method under the same name (bins of equal width,
scored by BIC); scikit-learn's matrix and Dirichlet are a `LogisticRegression` without penalty. With
100 classes and no regularization matrix and Dirichlet have no finite optimum, and times say where
each gives up.
"""


def contestants(method: str, z: Any, p: Any, y: Any) -> dict[str, Callable[[], Any]]:
    """Fits by name; each gives a function from logits and probabilities to probabilities."""
    fit = getattr(scaling, method)
    ours: dict[str, Callable[[], Any]] = {}
    if method in AFFINE:
        ours["tepid"] = partial(fit, z, y, regularization=0)
        ours["tepid, chosen regularization"] = partial(fit, z, y)
    else:
        ours["tepid"] = partial(fit, z, y)
    peers = scaling_peers.found()[method]
    return ours | {name: partial(peer, z, p, y) for name, peer in peers.items()}


def timed(calls: dict[str, Callable[[], Any]], turns: int) -> tuple[dict[str, float], Any]:
    """The least seconds of each call, and what it gave."""
    least, given = {}, {}
    for name, call in calls.items():
        start = time.process_time()
        given[name] = call()
        least[name] = time.process_time() - start
    for _ in range(turns):
        for name, call in calls.items():
            if least[name] < SLOW:
                start = time.process_time()
                call()
                least[name] = min(least[name], time.process_time() - start)
    return least, given


def nll(p: Any, y: Any) -> float:
    return float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-300)).mean())


def run(rows: int, classes: int, turns: int) -> list[dict[str, Any]]:
    """One line for each method and contestant."""
    z, y = synthetic.labeled(rows, classes, SEED)
    z = z.astype(np.float64)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p = np.maximum(p / p.sum(axis=1, keepdims=True), 1e-12)
    p /= p.sum(axis=1, keepdims=True)
    lines = []
    for method in scaling_peers.found():
        seconds, given = timed(contestants(method, z, p, y), turns)
        for name, spent in seconds.items():
            predict = given[name]
            fitted = predict(z) if name.startswith("tepid") else predict(z, p)
            lines.append(
                {
                    "size": f"{rows:,}×{classes}",
                    "method": method,
                    "by": name,
                    "seconds": spent,
                    "ratio": spent / seconds["tepid"],
                    "nll": nll(fitted, y),
                }
            )
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Run, print, and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--with", dest="more", nargs="*", default=[], help="packages to record")
    chosen = options.parse_args()
    torch.set_num_threads(THREADS)
    more = "".join(f" {name}" for name in chosen.more)
    command = f"OMP_NUM_THREADS=1 python benchmarks/scaling_speed.py --turns {chosen.turns}"
    command += f" --with{more}" if more else ""
    about = record.circumstances(command, SEED, THREADS, [*PACKAGES, *chosen.more])
    lines = [line for size in SIZES for line in run(*size, chosen.turns)]
    head = ["size", "method", "by", "seconds", "/ tepid", "NLL"]
    cells = [
        [
            v["size"],
            v["method"],
            v["by"],
            *(f"{v[name]:.3g}" for name in ("seconds", "ratio", "nll")),
        ]
        for v in lines
    ]
    text = "\n".join([record.preamble("Speed of the scalings", about), NOTE])
    text += "\n" + record.table(head, cells) + "\n"
    print(text)
    record.write("scaling_speed", {**about, "results": lines}, text)


if __name__ == "__main__":
    main()
