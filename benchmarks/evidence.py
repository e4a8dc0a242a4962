"""What each kind of evidence buys on the demo data: the README's table.

Writes `benchmarks/results/evidence.json` and the table between the marks in `README.md`.
"""

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import tepid

ROOT = Path(__file__).parents[1]
RESULT = Path(__file__).parent / "results" / "evidence.json"
ROWS = {
    "uncalibrated": "nothing (T = 1)",
    "uts": "unlabelled logits",
    "accuracy": "… and the accuracy, one number",
    "temperature": "labels for every row",
}


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


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    lines = ["| evidence | T | ECE, % | NLL |", "|---|---|---|---|"]
    for name, title in ROWS.items():
        m = result["methods"][name]
        t, ece, nll = m["temperature"], m["ece"], m["nll"]
        lines.append(
            f"| {title} | {t['mean']:.2f} ± {t['sd']:.2f} "
            f"| {100 * ece['mean']:.2f} ± {100 * ece['sd']:.2f} "
            f"| {nll['mean']:.4f} ± {nll['sd']:.4f} |"
        )
    return "\n".join(lines)


def between(text: str, name: str, content: str) -> str:
    """The text with `content` between the marks of `name`."""
    head, rest = text.split(f"<!-- {name}", 1)
    mark, tail = rest.split("-->", 1)
    return f"{head}<!-- {name}{mark}-->\n{content}\n<!-- end -->{tail.split('<!-- end -->', 1)[1]}"


def main() -> None:
    """Measure, write, and put the table into the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    result = measure(args.splits, args.seed)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    readme = ROOT / "README.md"
    readme.write_text(between(readme.read_text(), "evidence", table(result)))
    print(table(result))


if __name__ == "__main__":
    main()
