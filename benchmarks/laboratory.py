"""What the laboratory's trainings came to, by the paper's protocol: `results/laboratory.json`.

`python benchmarks/laboratory.py RUNS`, a folder with a run of `tepid lab train` in each of its own:
20 random splits, a fifth to calibrate on and the rest to report on. The record of each run goes to
`results/lab/NAME/run.json`, its logits and labels beside it in few bytes, unless the licence of its
images asks for more than naming them.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import record

import tepid

SPLITS, SEED = 20, 0
METHODS = ("uncalibrated", "temperature", "uts", "accuracy")
KEPT = record.RESULTS / "lab"
BOUND = ("isic",)  # CC BY-NC


def measure(run: Path) -> dict[str, Any]:
    """One run: what was trained, and mean and deviation of each figure for each method."""
    about = json.loads((run / "run.json").read_text(encoding="utf-8"))
    logits, labels = (np.load(run / f"{name}.npy") for name in ("logits", "labels"))
    found = tepid.comparison.compare(logits, labels, methods=METHODS, splits=SPLITS, seed=SEED)
    figures = {
        name: {key: method[key] for key in ("temperature", "nll", "ece")}
        for name, method in found["methods"].items()
    }
    config = about["config"]
    return {
        "run": run.name,
        "title": config["title"],
        "recipe": about["recipe"],
        "changed": changed(config),
        "rows": config["rows"],
        "accuracy": about["accuracy"],
        "training_accuracy": about["history"][-1]["accuracy"],
        "training_seconds": about["seconds"],
        "methods": figures,
    }


def changed(config: dict[str, Any]) -> list[str]:
    """The settings in which a run departs from its recipe."""
    recipe = json.loads(json.dumps(vars(tepid.lab.named(config["name"])), default=vars))
    return [
        f"{key}={config[key]}"
        for key, value in recipe.items()
        if key not in ("paper", "title", "sources") and config[key] != value
    ]


def keep(run: Path) -> None:
    """Copy the record, and half-precision logits with labels where that is allowed."""
    home = KEPT / run.name
    home.mkdir(parents=True, exist_ok=True)
    about = (run / "run.json").read_text(encoding="utf-8")
    (home / "run.json").write_text(about, encoding="utf-8")
    if json.loads(about)["data"] not in BOUND:
        np.save(home / "logits.npy", np.load(run / "logits.npy").astype(np.float16))
        np.save(home / "labels.npy", np.load(run / "labels.npy").astype(np.uint8))


def lines(measured: list[dict[str, Any]]) -> list[list[str]]:
    """A line for each run and method."""
    return [
        [
            found["title"] if name == METHODS[0] else "",
            f"{100 * found['accuracy']:.2f}" if name == METHODS[0] else "",
            name,
            *(_spread(found["methods"][name], key) for key in ("temperature", "nll", "ece")),
        ]
        for found in measured
        for name in METHODS
    ]


def _spread(method: dict[str, Any], key: str) -> str:
    unit, digits = (100, 2) if key == "ece" else (1, 3)
    mean, sd = (unit * method[key][part] for part in ("mean", "sd"))
    return f"{mean:.{digits}f} ± {sd:.{digits}f}"


def main() -> None:
    """Measure every finished run of a folder."""
    parser = argparse.ArgumentParser(description="Measure the laboratory's trainings.")
    parser.add_argument("runs", type=Path, help="a folder of runs")
    runs = sorted(found.parent for found in parser.parse_args().runs.glob("*/run.json"))
    measured = [measure(run) for run in runs]
    for run in runs:
        keep(run)
    command = "python benchmarks/laboratory.py RUNS"
    about = record.circumstances(command, SEED, 1, ("tepid", "numpy", "torch"))
    header = ("network", "accuracy, %", "method", "T", "NLL", "ECE, %")
    text = record.table(header, lines(measured))
    page = f"{record.preamble('Trained in the laboratory', about)}\n{SPLITS} splits.\n\n{text}\n"
    record.write("laboratory", {**about, "splits": SPLITS, "runs": measured}, page)
    print(text)


if __name__ == "__main__":
    main()
