"""What serving costs: a `Temperature` over torch's softmax, and `Monitor.update` over both.

One turn is a chunk of 1024 rows in batches, so that the closing of a chunk is in it, at the same
batch of every turn. Each batch is timed by itself: the figure of a batch is the fastest, or the
median, of all turns, and that of a contestant the mean over the batches. So what else the machine
does between two batches is in no figure. Contestants take turns, each with one thread.
`python benchmarks/overhead.py` writes results/overhead.json and .md; with `--dry` it only prints.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import record
import synthetic
import torch

import tepid
from tepid.online import Monitor, Outputs, Rules

# The compiled kernels are measured, from the first call on.
os.environ.setdefault("TEPID_KERNELS", "numba")

SEED, CHUNK, TEMPERATURE = 0, 1024, 2.0
PACKAGES = ("tepid", "numpy", "numba", "torch")
SIZES = ((64, 1000), (64, 10), (1, 1000), (1, 10), (512, 100))
SOFTMAX = ("tepid's Temperature", "NumPy", "torch")
WATCHED, GOAL = "Monitor.update", 2.0
NOTE = """\
Microseconds for each batch, and how many times each softmax that is: the
fastest turns over the fastest, in brackets the medians. One thread, chunks of 1024 rows, compiled
kernels. Goals: a `Temperature` below 2 times torch's softmax at every size; for 64×1000
`Monitor.update` below 2 times each softmax, by the fastest turns and by the medians.
"""


def numpy_softmax(z: Any) -> Any:
    e = np.exp((z - z.max(axis=1, keepdims=True)) / np.float32(TEMPERATURE))
    return e / e.sum(axis=1, keepdims=True)


def contestants(rows: int, classes: int, folder: Path) -> dict[str, Callable[[Any], Any]]:
    """What is done with each batch, by name."""
    rng = np.random.default_rng(SEED)
    reference = synthetic.fill(np.empty((4 * CHUNK, classes), np.float32), rng)
    about = {"samples": 1, "classes": classes, "implied_accuracy": 0.9}
    temperature = tepid.Temperature(TEMPERATURE, "accuracy", **about)

    def watching(outputs: Outputs | None = None, **rules: Any) -> Callable[[Any], Any]:
        monitor = Monitor.from_reference(
            reference, TEMPERATURE, chunk=CHUNK, rules=Rules(**rules), outputs=outputs
        )
        return monitor.update

    return {
        SOFTMAX[0]: temperature,
        SOFTMAX[1]: numpy_softmax,
        SOFTMAX[2]: lambda z: torch.softmax(torch.from_numpy(z) / TEMPERATURE, dim=1),
        WATCHED: watching(),
        "… sample=0.1": watching(sample=0.1),
        "… reestimate=True": watching(reestimate=True),
        # As often as a chunk closes, so that the saving too is at the same batch of every turn.
        "… autosave": watching(Outputs(autosave=folder / "monitor.npz", every=CHUNK // rows)),
    }


def timed(call: Callable[[Any], Any], z: Any) -> float:
    start = time.perf_counter()
    call(z)
    return time.perf_counter() - start


def run(rows: int, classes: int, turns: int) -> dict[str, Any]:
    """One size: microseconds for each batch, and ratios."""
    rng = np.random.default_rng(SEED + 1)
    count = CHUNK // rows
    batches = [synthetic.fill(np.empty((rows, classes), np.float32), rng) for _ in range(count)]
    seconds: dict[str, list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        calls = contestants(rows, classes, Path(folder))
        for turn in range(turns + 1):
            for name, call in calls.items():
                spent = [timed(call, z) for z in batches]
                if turn:  # the first one compiles
                    seconds.setdefault(name, []).append(spent)
    times = {
        name: {
            "min": 1e6 * float(np.min(spent, axis=0).mean()),
            "median": 1e6 * float(np.median(spent, axis=0).mean()),
        }
        for name, spent in seconds.items()
    }
    over = {
        unit: {n: {s: t[s] / times[unit][s] for s in t} for n, t in times.items()}
        for unit in SOFTMAX
    }
    return {"rows": rows, "classes": classes, "microseconds": times, "over": over}


def report(figures: dict[str, Any]) -> str:
    """The table of one size."""
    head = ["", "µs, min", "median", *(f"/ {unit}" for unit in SOFTMAX)]
    rows = []
    for name, t in figures["microseconds"].items():
        ratios = (figures["over"][unit][name] for unit in SOFTMAX)
        said = [f"{r['min']:.2f} ({r['median']:.2f})" for r in ratios]
        rows.append([name, f"{t['min']:.0f}", f"{t['median']:.0f}", *said])
    return f"## {figures['rows']}×{figures['classes']}\n\n{record.table(head, rows)}\n"


def main() -> None:
    """Run, print, and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--turns", type=int, default=200)
    options.add_argument("--dry", action="store_true")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    command = f"python benchmarks/overhead.py --turns {chosen.turns}"
    about = record.circumstances(command, SEED, 1, PACKAGES)
    text = [record.preamble("What serving costs", about), NOTE]
    figures = []
    for rows, classes in SIZES:
        figures.append(run(rows, classes, chosen.turns))
        text.append(report(figures[-1]))
    largest = max(max(over[WATCHED].values()) for over in figures[0]["over"].values())
    slowest = max(each["over"]["torch"][SOFTMAX[0]]["min"] for each in figures)
    said = ["reached" if worst < GOAL else "missed" for worst in (slowest, largest)]
    text.append(
        f"Goals: a Temperature takes at most {slowest:.2f} times torch's softmax ({said[0]}), "
        f"Monitor.update at most {largest:.2f} times a softmax of 64×1000 ({said[1]}).\n"
    )
    print("\n".join(text))
    if not chosen.dry:
        record.write("overhead", {**about, "goal": GOAL, "results": figures}, "\n".join(text))


if __name__ == "__main__":
    main()
