"""What watching costs while serving: `Monitor.update` over the softmax that is computed anyway.

One turn is a chunk of about a thousand rows in batches, so that the closing of a chunk is in it.
Contestants take turns, so that a busy minute hits all of them; each has one thread.
`python benchmarks/overhead.py` writes results/overhead.json and .md; with `--dry` it only prints.
"""

import argparse
import statistics
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

SEED, CHUNK, TEMPERATURE = 0, 1000, 2.0
PACKAGES = ("tepid", "numpy", "numba", "torch")
SIZES = ((64, 1000), (64, 10), (1, 1000), (512, 100))
SOFTMAX = ("tepid's Temperature", "NumPy", "torch")
UNIT, WATCHED, GOAL = SOFTMAX[0], "Monitor.update", 2.0
NOTE = """\
Microseconds for each batch, and how many times each softmax that is: the
fastest turn over the fastest, in brackets the medians. One thread, chunks of 1000 rows; goal
for 64×1000: below 2 times the Temperature call.
"""


def numpy_softmax(z: Any) -> Any:
    e = np.exp((z - z.max(axis=1, keepdims=True)) / np.float32(TEMPERATURE))
    return e / e.sum(axis=1, keepdims=True)


def contestants(classes: int, folder: Path) -> dict[str, Callable[[Any], Any]]:
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
        "… autosave, every=100": watching(Outputs(autosave=folder / "monitor.npz", every=100)),
    }


def run(rows: int, classes: int, turns: int) -> dict[str, Any]:
    """One size: microseconds for each batch, and ratios."""
    rng = np.random.default_rng(SEED + 1)
    count = max(1, CHUNK // rows)
    batches = [synthetic.fill(np.empty((rows, classes), np.float32), rng) for _ in range(count)]
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        calls = contestants(classes, Path(folder))
        for turn in range(turns + 1):
            for name, call in calls.items():
                start = time.perf_counter()
                for z in batches:
                    call(z)
                spent = (time.perf_counter() - start) / count
                if turn:  # the first one compiles
                    seconds.setdefault(name, []).append(spent)
    times = {
        name: {"min": 1e6 * min(s), "median": 1e6 * statistics.median(s)}
        for name, s in seconds.items()
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
    text = [record.preamble("What watching costs", about), NOTE]
    figures = []
    for rows, classes in SIZES:
        figures.append(run(rows, classes, chosen.turns))
        text.append(report(figures[-1]))
    ratio = figures[0]["over"][UNIT][WATCHED]["min"]
    text.append(f"Goal: {'reached' if ratio < GOAL else 'missed'}, {ratio:.2f} times.\n")
    print("\n".join(text))
    if not chosen.dry:
        record.write("overhead", {**about, "goal": GOAL, "results": figures}, "\n".join(text))


if __name__ == "__main__":
    main()
