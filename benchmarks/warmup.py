"""What a warm-up's rule costs in the accuracy of T: `results/warmup.json`.

UTS takes its thresholds from all rows before it sums. A stream can keep the logits of its first
rows and be exact, or keep two summaries: thresholds from the first half, the curve from the second.
`python benchmarks/warmup.py FOLDER`, each file an `.npz` of `logits`; ten draws of 2000 rows of
each set; the distance is that of log T from UTS on all rows of the set.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
import record

import tepid
from tepid.summaries.optimum import least_loss

SAMPLES, DRAWS, SEED = 2000, 10, 0


def halves(z: Any) -> float:
    """T from two summaries, of the first and of the second half."""
    middle = len(z) // 2
    theta = tepid.summaries.Tails.of(z[:middle]).thresholds()
    return least_loss(tepid.summaries.Curve.of(z[middle:], thresholds=theta)).temperature


def measure(path: Path) -> dict[str, Any]:
    """For one set: root mean square distances of log T."""
    with np.load(path) as data:
        z = data["logits"]
    rng = np.random.default_rng(SEED)
    whole = tepid.uts(z).value
    kept, halved = [], []
    for _ in range(DRAWS):
        rows = z[rng.choice(len(z), min(SAMPLES, len(z)), replace=False)]
        kept.append(math.log(tepid.uts(rows).value / whole))
        halved.append(math.log(halves(rows) / whole))
    square = [float(np.sqrt(np.mean(np.square(d)))) for d in (kept, halved)]
    between = float(np.sqrt(np.mean(np.square(np.subtract(halved, kept)))))
    return {"set": path.stem, "kept": square[0], "halved": square[1], "between": between}


def main() -> None:
    """Measure every set of the folder and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    command = "python benchmarks/warmup.py FOLDER"
    about = record.circumstances(command, SEED, 1, ("tepid", "numpy", "numba"))
    paths = sorted(args.folder.glob("*.npz"))
    sets = [measure(path) for path in paths if len(np.load(path)["logits"]) >= 2 * SAMPLES]
    names = ("kept", "halved", "between")
    median = {name: float(np.median([s[name] for s in sets])) for name in names}
    rows = [(s["set"], *(f"{100 * s[name]:.2f}" for name in names)) for s in sets]
    rows.append(("median", *(f"{100 * median[name]:.2f}" for name in names)))
    header = ("set", "logits kept, %", "two summaries, %", "between the two, %")
    text = record.preamble("A warm-up of 2000 rows: distance of T from UTS on all rows", about)
    text += f"\n{record.table(header, rows)}\n"
    figures = {"samples": SAMPLES, "draws": DRAWS, "median": median, "sets": sets}
    record.write("warmup", about | figures, text)
    print(text)


if __name__ == "__main__":
    main()
