"""How UTS fares on a folder of real logit sets: `results/real_sets.json`.

`python benchmarks/real_sets.py FOLDER`, each file an `.npz` of `logits` and `labels`. The data
stays where it is; only figures are written. A set is harmed if its ECE rises by more than .2
points.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import record

import tepid

HARM = 0.002


def measure(path: Path, splits: int, seed: int) -> dict[str, Any]:
    """ECE, NLL and T of every method on one set, means over the splits."""
    with np.load(path) as data:
        compared = tepid.protocol.compare(data["logits"], data["labels"], splits=splits, seed=seed)
    return {
        "set": path.stem,
        "samples": compared["samples"],
        "classes": compared["classes"],
        "methods": {
            name: {measure: m[measure]["mean"] for measure in ("temperature", "ece", "nll")}
            for name, m in compared["methods"].items()
        },
    }


def summary(sets: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Mean ECE and NLL per method, and how many sets it harmed."""
    methods = list(sets[0]["methods"])
    before = np.array([s["methods"]["uncalibrated"]["ece"] for s in sets])
    table = {}
    for name in methods:
        ece = np.array([s["methods"][name]["ece"] for s in sets])
        table[name] = {
            "ece": float(ece.mean()),
            "nll": float(np.mean([s["methods"][name]["nll"] for s in sets])),
            "lowered": int((ece < before).sum()),
            "harmed": int((ece > before + HARM).sum()),
        }
    return table


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    methods = one["methods"]
    errors = (f"{100 * m['ece']:.2f}" for m in methods.values())
    temperatures = (f"{methods[n]['temperature']:.3f}" for n in ("uts", "temperature"))
    return (one["set"], one["samples"], one["classes"], *errors, *temperatures)


def main() -> None:
    """Measure every set of the folder and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    command = f"python benchmarks/real_sets.py FOLDER --splits {args.splits} --seed {args.seed}"
    about = record.circumstances(command, args.seed, 2, ("tepid", "numpy", "numba"))
    sets = [measure(path, args.splits, args.seed) for path in sorted(args.folder.glob("*.npz"))]
    total = summary(sets)
    rows = [_row(s) for s in sets]
    header = ("set", "n", "k", *(f"ECE {n}" for n in total), "T uts", "T temperature")
    text = record.preamble("Real sets", about) + "\n" + record.table(header, rows) + "\n"
    record.write("real_sets", about | {"summary": total, "sets": sets}, text)
    print(text, total)


if __name__ == "__main__":
    main()
