"""How fast the label-free fit is, as ratios within one run; see `synthetic` for the data.

Contestants take turns, so that a busy minute hits all of them; each is warmed up (and compiled)
before. `python benchmarks/speed.py` writes results/speed.json and .md; `--sizes small` leaves out
50,000×1000 and only prints.
"""

import argparse
import os
import statistics
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import record
import synthetic
import torch
from contest import FIT, LABELLED, PEERS, SIZES, THREADS, UNIT, Size, contestants, timed

# The compiled kernels are measured, from the first call on.
os.environ.setdefault("TEPID_KERNELS", "numba")

SEED = 0
PACKAGES = ("tepid", "numpy", "numba", "scikit-learn", "probmetrics", "torch")
PASSES_FLOOR, PASSES_GOAL = 8, 5
# How far a peer's T may lie from the labeled optimum, relative.
AGREEMENT = 1e-3
# What the fit calls its passes when it reports progress, and all that is not a pass.
PASSES = {"reading": "Tails pass", "summing": "Curve pass", "finishing": "exact pass"}
REST = "Python, left over"
NOTE = """\
The label-free fit `tepid.uts`, with all that it reports, against labeled temperature
scaling on the same float32 logits: scikit-learn's `method="temperature"` on a `FrozenEstimator`
(its loss runs on one thread), probmetrics' `TemperatureScalingCalibrator` on logits, and torch's
L-BFGS with a strong-Wolfe search on log T. Ratios are times over the fit's time; floor and goal
are judged by the minima. A softmax pass is one log-sum-exp with two moments over the same array,
with tepid's exponential, on as many threads. T in brackets: relative distance to
`tepid.temperature_scaling`.
"""


def run(size: Size, rounds: int) -> dict[str, Any]:
    """All figures for one size."""
    z, y = synthetic.labeled(size.rows, size.classes, SEED)
    with ThreadPoolExecutor(THREADS) as pool:
        calls = contestants(z, y, pool)
        for name in (FIT, LABELLED, UNIT):
            calls[name]()
        seconds, answers = timed(calls, rounds, size)
    times = {
        name: {"min": min(s), "median": statistics.median(s), "calls": len(s)}
        for name, s in seconds.items()
    }
    answers[FIT], parts = answers[FIT]
    found = {name: answers[name] for name in (FIT, LABELLED, *PEERS)}
    return {
        "size": str(size),
        "accuracy": float((z.argmax(axis=1) == y).mean()),
        "seconds": times,
        "temperature": found,
        "error": {name: found[name] / found[LABELLED] - 1 for name in PEERS},
        "ratio": {n: {s: times[n][s] / times[FIT][s] for s in ("min", "median")} for n in times},
        "floor": dict(zip(PEERS, size.floor, strict=True)) | {"passes": PASSES_FLOOR},
        "goal": dict(zip(PEERS, size.goal, strict=True)) | {"passes": PASSES_GOAL},
        "parts": [*parts, (REST, times[FIT]["min"] - sum(spent for _, spent in parts))],
        "passes": {s: times[FIT][s] / times[UNIT][s] for s in ("min", "median")},
    }


def report(figures: dict[str, Any]) -> str:
    """The tables of one size."""
    head = ["", "ms, min", "ms, median", "/ fit, min", "/ fit, median", "floor", "goal", "", "T"]
    fits = [_fit_row(figures, name) for name in (FIT, LABELLED, *PEERS, UNIT)]
    unit, passes = figures["seconds"][UNIT]["min"], figures["passes"]
    parts = [
        [PASSES.get(name, name), _milliseconds(spent), f"{spent / unit:.2f}"]
        for name, spent in figures["parts"]
    ]
    verdict = _verdict(-passes["min"], -PASSES_FLOOR, -PASSES_GOAL)
    return (
        f"## {figures['size']}, accuracy {figures['accuracy']:.3f}\n\n"
        f"{record.table(head, fits)}\n\n"
        f"The fit takes {passes['min']:.1f} softmax passes (by the median {passes['median']:.1f}; "
        f"floor < {PASSES_FLOOR}, goal {PASSES_GOAL}: {verdict}). Its fastest run, part by part:"
        f"\n\n{record.table(['', 'ms', 'softmax passes'], parts)}\n"
    )


def _fit_row(figures: dict[str, Any], name: str) -> list[str]:
    seconds, ratio = figures["seconds"][name], figures["ratio"][name]
    row = [_milliseconds(seconds[s]) for s in ("min", "median")]
    row += [f"{ratio[s]:.2f}×" for s in ("min", "median")]
    found = figures["temperature"].get(name)
    if name not in PEERS:
        return [name, *row, "", "", "", "" if found is None else f"{found:.5f}"]
    floor, goal, error = (figures[key][name] for key in ("floor", "goal", "error"))
    verdict = _verdict(ratio["min"], floor, goal)
    right = f"{found:.5f} ({error:+.0e})" if abs(error) < AGREEMENT else f"{found:.5f} WRONG"
    return [name, *row, f"{floor}×", f"{goal}×", verdict, right]


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f}" if seconds >= 0.1 else f"{1e3 * seconds:.3g}"


def _verdict(got: float, floor: float, goal: float) -> str:
    return "goal" if got >= goal else "floor" if got >= floor else "missed"


def main() -> None:
    """Run, print, and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sizes", choices=("small", "all"), default="all")
    options.add_argument("--repeats", type=int, default=30)
    chosen = options.parse_args()
    torch.set_num_threads(THREADS)
    command = f"python benchmarks/speed.py --sizes {chosen.sizes} --repeats {chosen.repeats}"
    about = record.circumstances(command, SEED, THREADS, PACKAGES)
    small = synthetic.labeled(1000, 10, SEED)
    for fit in PEERS.values():
        fit(*small)
    text = [record.preamble("Speed", about), NOTE]
    print("\n".join(text))
    figures = []
    for size in SIZES if chosen.sizes == "all" else SIZES[:-1]:
        figures.append(run(size, chosen.repeats))
        text.append(report(figures[-1]))
        print(text[-1], flush=True)
    if chosen.sizes == "all":
        record.write("speed", {**about, "results": figures}, "\n".join(text))


if __name__ == "__main__":
    main()
