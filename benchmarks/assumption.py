"""The paper's own assumption, measured with labels: `results/assumption.json`.

UTS counts a row with S_k at or above its threshold as a sample of class k, also where k is not
predicted, since near the decision boundary the two are said to be interchangeable (eq. 7). Of these
rows, how many truly are of class k? `python benchmarks/assumption.py FOLDER`, each file an `.npz`
of `logits` and `labels`; only figures are written.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import record

import tepid


def measure(path: Path) -> dict[str, Any]:
    """For one set: pairs drawn in unpredicted, the share that truly are, and the mean S there."""
    with np.load(path) as data:
        z, y = data["logits"], data["labels"]
    theta = tepid.summaries.Tails.of(z).thresholds()
    e = np.exp(z.astype(np.float64) - z.max(axis=1, keepdims=True))
    s = e / e.sum(axis=1, keepdims=True)
    classes = np.arange(z.shape[1])
    drawn = (s >= theta * (1 - 2.0**-20)) & (classes != z.argmax(axis=1)[:, None])
    truly = drawn & (classes == y[:, None])
    return {
        "set": path.stem,
        "pairs_per_row": float(drawn.sum() / len(z)),
        "truly": float(truly.sum() / max(drawn.sum(), 1)),
        "softmax": float(s[drawn].mean()),
        "threshold": float(np.median(theta)),
    }


def main() -> None:
    """Measure every set of the folder and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    command = "python benchmarks/assumption.py FOLDER"
    about = record.circumstances(command, 0, 1, ("tepid", "numpy", "numba"))
    sets = [measure(path) for path in sorted(args.folder.glob("*.npz"))]
    rows = [
        (
            s["set"],
            f"{s['pairs_per_row']:.2f}",
            f"{100 * s['truly']:.1f}",
            f"{100 * s['softmax']:.1f}",
        )
        for s in sets
    ]
    header = ("set", "unpredicted pairs per row", "truly of the class, %", "mean softmax, %")
    total = {
        name: float(np.median([s[name] for s in sets]))
        for name in ("truly", "softmax", "threshold")
    }
    text = record.preamble("The assumption", about) + "\n" + record.table(header, rows) + "\n"
    record.write("assumption", about | {"median": total, "sets": sets}, text)
    print(text, total)


if __name__ == "__main__":
    main()
