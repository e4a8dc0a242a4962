"""The paper's tables on logits at hand, and what its temperature scaling lacked.

`python benchmarks/reproduction.py FOLDER_OF_LOGITS FOLDER_OF_RUNS` measures every set of logits by
the paper's protocol over 20 splits, reads off the paper's own figures where its temperature scaling
(TS) cannot be the minimum, and stops TS early in the common ways: `results/reproduction.json`.
"""

import argparse
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import record
import stopping

import tepid
from tepid.lab import paper, sets, tables
from tepid.lab.figures import choose_rows

SEEDS, FRACTION = 20, 0.2
# The classes of each set of data that has a row in the paper's Table 1.
CLASSES = {"cifar10": 10, "cifar100": 100, "svhn": 10, "mnist": 10}


def published(row: paper.Published) -> dict[str, Any]:
    r"""Whether the NLLs of a row of the paper can be of one network on one set of rows.

    The NLL is convex in 1/T and is log K at 1/T = 0, so its slopes between the temperatures that
    the paper gives must rise with 1/T. `above` is how much worse than UTS the paper's TS is: the
    converged TS, which minimizes the NLL, would be no worse but for the 1/(2N) of fitting.
    """
    nll = {name: row.get(name, "nll")[0] for name in ("uncalibrated", "temperature", "uts")}
    t = {name: row.get(name, "temperature")[0] for name in nll} | {"uncalibrated": 1.0}
    points = sorted((1 / t[name], value) for name, value in nll.items())
    points.insert(0, (0.0, math.log(CLASSES[paper.canonical_name(row.dataset)])))
    rounding = row.get("uts", "nll")[1]
    # The least that the later slope and the most that the earlier can be, by rounding.
    slopes = [
        ((b[1] - a[1]) / (b[0] - a[0]), 2 * rounding / (b[0] - a[0]))
        for a, b in itertools.pairwise(points)
    ]
    return {
        "row": f"{row.model} on {row.dataset}",
        "above": round(nll["temperature"] - nll["uts"], 6),
        "temperature": t["temperature"],
        "uts": t["uts"],
        "ece_above": round(row.get("temperature", "ece")[0] - row.get("uts", "ece")[0], 8),
        "convex": all(
            left - a <= right + b for (left, a), (right, b) in itertools.pairwise(slopes)
        ),
    }


def splits(z: Any) -> list[tuple[Any, Any]]:
    """The splits of the protocol."""
    return [
        tepid.comparison.split(len(z), round(FRACTION * len(z)), 0, number)
        for number in range(SEEDS)
    ]


def nll(z: Any, y: Any, temperature: float) -> float:
    """The NLL of these rows at a temperature."""
    return float(
        tepid.metrics.nll(tepid.summaries.Reliability.of_logits(z, y, temperature=temperature))
    )


def converged(one: sets.LogitSet) -> dict[str, Any]:
    """What the converged TS loses to the best T of the reported rows, and how it stands to UTS."""
    z, y = one.read()
    lost, above = [], []
    for inside, outside in splits(z):
        rest = z[outside], y[outside]
        ts = nll(*rest, tepid.temperature_scaling(z[inside], y[inside]).value)
        lost.append(ts - nll(*rest, tepid.temperature_scaling(*rest).value))
        above.append(ts - nll(*rest, tepid.uts(z[inside]).value))
    return {
        "set": one.name,
        "fitted_rows": round(FRACTION * len(z)),
        "lost": float(np.mean(lost)),
        "most_lost": float(np.max(lost)),
        "above_uts": float(np.mean(above)),
        "most_above_uts": float(np.max(above)),
        "splits_above_uts": int(np.sum(np.array(above) > 0)),
    }


def stopped(one: sets.LogitSet) -> dict[str, Any]:
    """The temperatures at which iterations stop, and what each costs, against the converged TS."""
    z, y = one.read()
    found: dict[str, list[tuple[float, float]]] = {}
    for inside, outside in splits(z):
        rest = z[outside], y[outside]
        best = tepid.temperature_scaling(z[inside], y[inside]).value
        base = nll(*rest, best)
        for name, t in {"converged": best, **stopping.temperatures(z[inside], y[inside])}.items():
            found.setdefault(name, []).append((t, nll(*rest, t) - base))
    mean = {name: np.mean(values, axis=0) for name, values in found.items()}
    return {
        "set": one.name,
        "ways": {
            name: {"temperature": float(t), "cost": float(c)} for name, (t, c) in mean.items()
        },
    }


def confidences(one: sets.LogitSet) -> dict[str, Any]:
    """The mean confidence of right and wrong answers before and after UTS, on the first split."""
    z, y = one.read()
    inside, outside = splits(z)[0]
    t = tepid.uts(z[inside]).value
    both = choose_rows(z[outside], y[outside], t)
    kinds = zip(("right", "wrong"), both, strict=True)
    means = {name: {"before": part.before, "after": part.after} for name, part in kinds}
    return {"set": one.name, "temperature": t, **means}


def main() -> None:
    """Measure and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logits", type=Path)
    parser.add_argument("runs", type=Path)
    args = parser.parse_args()
    command = "python benchmarks/reproduction.py FOLDER_OF_LOGITS FOLDER_OF_RUNS"
    about = record.circumstances(command, 0, tepid.Threads().threads, ("tepid", "numpy", "torch"))
    found = tables.table([args.logits, args.runs], seeds=SEEDS)
    every = [row.logits for row in found.rows]
    same = [row.logits for row in found.rows if row.same_network]
    runs = sets.find([args.runs])
    figures = {
        **about,
        "table": found.as_json(),
        "published": [published(row) for row in found.published if row.table == 1],
        "converged": [converged(one) for one in every],
        "stopped": [stopped(one) for one in same],
        "confidences": [confidences(one) for one in runs],
        "runs": [_trained(one) for one in runs],
    }
    text = record.preamble("The paper's tables on logits at hand", about)
    record.write("reproduction", figures, f"{text}\n{tables.markdown(found.sheets, found.notes)}")


def _trained(one: sets.LogitSet) -> dict[str, Any]:
    """What a run says of its training, without its history."""
    about = sets.read_run(Path(one.logits).parent)
    config = about["config"]
    kept = ("recipe", "network", "data", "seed", "accuracy", "seconds", "device", "versions")
    shown = ("title", "depth", "epochs", "batch", "rate", "schedule", "optimizer", "size")
    return {
        "set": one.name,
        **{key: about[key] for key in kept},
        **{key: config[key] for key in (*shown, "keep_lesions", "rows")},
    }


if __name__ == "__main__":
    main()
