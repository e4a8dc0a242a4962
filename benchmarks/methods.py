"""Every method on a folder of real logit sets, ten 20/80 splits each: `results/methods.json`.

`OMP_NUM_THREADS=1 python benchmarks/methods.py FOLDER [--state FILE]`, each file an `.npz` of
`logits` and `labels`, cut as `sets.py` says. The splits of a set run side by side. A finished set
is one line of the state file, so that a run can be taken up again. Only figures are written.
`oracle` is the temperature of least NLL on the rows that are reported on; `matrix, no ODIR` is
matrix scaling without regularization, on the sets of a hundred classes, three splits.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import journal
import numpy as np
import record
import sets
from rich.progress import track

import tepid
from tepid import scaling

SPLITS, FRACTION, SEED = 10, 0.2, 0
FREE = "matrix, no ODIR"


def measure(name: str, path: Path) -> dict[str, Any]:
    """Every method that the set allows, the oracle, and why others were left out."""
    z, y = sets.load(path)
    begin = time.perf_counter()
    compared = tepid.comparison.compare(z, y, methods="all", splits=SPLITS, seed=SEED)
    methods = compared["methods"]
    methods["oracle"] = _averaged([_oracle(z, y, split) for split in range(SPLITS)])
    if sets.MANY_CLASSES <= z.shape[1] < 500:
        methods[FREE] = _averaged([_free(z, y, split) for split in range(3)])
    return {
        "set": name,
        "samples": len(z),
        "classes": int(z.shape[1]),
        "seconds": time.perf_counter() - begin,
        "methods": {key: _plain(m) for key, m in methods.items()},
        "left_out": compared["left_out"],
    }


def _split(rows: int, split: int) -> tuple[Any, Any]:
    order = np.random.default_rng([SEED, split]).permutation(rows)
    inside, outside = np.split(order, [round(FRACTION * rows)])
    return np.sort(inside), np.sort(outside)


def _oracle(z: Any, y: Any, split: int) -> dict[str, float]:
    _, rest = _split(len(z), split)
    t = tepid.temperature_scaling(z[rest], y[rest]).value
    return tepid.comparison.measures(
        tepid.summaries.Reliability.of_logits(z[rest], y[rest], temperature=t)
    )


def _free(z: Any, y: Any, split: int) -> dict[str, float]:
    inside, rest = _split(len(z), split)
    fitted = scaling.matrix(z[inside], y[inside], regularization=0)
    p = fitted(z[rest].astype(np.float64))
    return tepid.comparison.measures(tepid.summaries.Reliability.of(p, y[rest]))


def _averaged(runs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    return {key: {"mean": float(np.mean([run[key] for run in runs]))} for key in runs[0]}


def _plain(method: dict[str, Any]) -> dict[str, float | None]:
    """The means; an infinite one is None, which JSON can hold."""
    means = {key: method[key]["mean"] for key in ("nll", "ece", "brier", "accuracy", "seconds")
             if key in method}  # fmt: skip
    return {key: float(v) if np.isfinite(v) else None for key, v in means.items()}


def summary(measured: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Means over sets, against the oracle and against temperature scaling."""
    names = dict.fromkeys(name for each in measured for name in each["methods"])
    return {name: _of_method(name, measured) for name in names}


def _of_method(name: str, measured: list[dict[str, Any]]) -> dict[str, Any]:
    there = [each["methods"] for each in measured if name in each["methods"]]
    excess = [_gap(m, name, "oracle", "nll") for m in there]
    finite = [e for e in excess if e is not None]
    worse = [_gap(m, name, "temperature", "nll") for m in there]
    # A label that was ruled out makes the whole mean infinite, and the median where it is common.
    return {
        "sets": len(there),
        "ece": float(np.mean([m[name]["ece"] for m in there])),
        "excess": float(np.mean(finite)) if len(finite) == len(excess) else None,
        "median": _median(excess),
        "infinite": len(excess) - len(finite),
        "worse_than_temperature": sum(w is None or w > 0 for w in worse),
        "accuracy": float(np.mean([_gap(m, name, "uncalibrated", "accuracy") for m in there])),
    }


def _median(values: list[float | None]) -> float | None:
    middle = float(np.median([np.inf if v is None else v for v in values]))
    return middle if np.isfinite(middle) else None


def _gap(methods: dict[str, Any], name: str, other: str, key: str) -> float | None:
    one, two = methods[name][key], methods[other][key]
    return None if one is None or two is None else one - two


def main() -> None:
    """Measure what is not yet measured, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--state", type=Path, default=Path("build/methods.jsonl"))
    args = parser.parse_args()
    packages = ("tepid", "numpy", "numba", "scipy", "scikit-learn")
    command = "OMP_NUM_THREADS=1 python benchmarks/methods.py FOLDER"
    about = record.circumstances(command, SEED, 2, packages)
    paths = sets.find([args.folder])
    stamp = {"versions": about["versions"], "data": sets.digest(paths), "protocol": 3}
    done = journal.finished(args.state, stamp)
    with journal.writing(args.state, stamp) as write:
        for name, path in track(paths.items(), "comparing", total=len(paths)):
            if name not in done:
                done[name] = [measure(name, path)]
                write(name, done[name])
    measured = [done[name][0] for name in paths]
    figures = about | {"splits": SPLITS, "fraction": FRACTION, "methods": summary(measured)}
    text = record.preamble("Every method on real sets", about) + "\n" + table(figures) + "\n"
    record.write("methods", figures | {"sets": measured}, text)
    print(text)


def table(figures: dict[str, Any]) -> str:
    """One row for each method, the least excess NLL first."""
    methods = sorted(figures["methods"].items(), key=_order)
    header = (
        "method", "sets", "ECE, %", "NLL above the oracle", "median", "worse than temperature",
        "accuracy, points",
    )  # fmt: skip
    rows = [
        (
            name,
            m["sets"],
            f"{100 * m['ece']:.2f}",
            _excess(m),
            "infinite" if m["median"] is None else f"{m['median']:.4f}",
            f"{m['worse_than_temperature']} of {m['sets']}",
            f"{100 * m['accuracy']:+.2f}",
        )
        for name, m in methods
    ]
    return record.table(header, rows)


def _order(named: tuple[str, dict[str, Any]]) -> tuple[int, float]:
    return named[1]["infinite"], named[1]["excess"] or 0.0


def _excess(m: dict[str, Any]) -> str:
    return f"infinite on {m['infinite']}" if m["excess"] is None else f"{m['excess']:.4f}"


if __name__ == "__main__":
    main()
