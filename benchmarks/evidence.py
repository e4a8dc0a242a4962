"""What each kind of evidence buys on the demo data: `results/evidence.json`, the README's table."""

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import tepid

RESULT = Path(__file__).parent / "results" / "evidence.json"


def measure(splits: int, seed: int) -> dict[str, Any]:
    """Run the paper's protocol on the demo data."""
    data = tepid.demo.fashion()
    logits = data["logits"].astype(np.float32)
    compared = tepid.protocol.compare(logits, data["labels"], splits=splits, seed=seed)
    for method in compared["methods"].values():
        del method["seconds"]  # a time, not a result
    del compared["cost_of_uts"]
    return {
        "command": f"python benchmarks/evidence.py --splits {splits} --seed {seed}",
        "data": "src/tepid/demo/fashion.npz",
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("tepid", "numpy", "numba")},
    } | compared


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    result = measure(args.splits, args.seed)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
