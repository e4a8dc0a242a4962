"""How long a person waits for the first answer: wall clock from the shell, in fresh environments.

`tepid fit` without labels beside labeled temperature scaling by scikit-learn and by torch's L-BFGS,
each as a script of its own (`first_answer_peers.py`), as ratios within one run. Also the size of an
installation, and how often `tepid.calibrate` reads each source for each combination of evidence.
`python benchmarks/first_answer.py` writes results/first_answer.json and .md; with `--dry` it only
prints. It needs pip and a package index, for two virtual environments.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import record
import synthetic

import tepid

SEED = 0
ROOT = Path(__file__).parents[1]
PACKAGES = ("tepid", "numpy", "numba", "scikit-learn", "torch")
SIZES = ((10_000, 10, 7), (50_000, 1000, 3))
FIRST, LATER, WITHOUT = "tepid, no cache", "tepid, warm cache", "tepid, no numba"
UNIT, TORCH = "scikit-learn script", "torch L-BFGS script"
# At most these times the scikit-learn script.
GOALS = {
    (10_000, 10): {FIRST: 0.8, LATER: 0.5},
    (50_000, 1000): {FIRST: 1.0, LATER: 0.15},
}
MEGABYTES = 130
NOTE = """\
Seconds from the shell until the command ends, imports included: the fastest and the median of
several runs, which take turns. Ratios are to the scikit-learn script, by the fastest and, in
brackets, by the median; goals are judged by the fastest. "No cache" is the first run after
installation with the extra `fast`, "no numba" an installation without it. The peers are given
labels, tepid is not.
"""


def environment(folder: Path, extra: str) -> Path:
    """The scripts of a new virtual environment with tepid in it."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = [folder / "bin" / "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
    subprocess.run([*install, f"{ROOT}{extra}"], check=True)
    return folder / "bin"


def megabytes(folder: Path) -> dict[str, float]:
    """The size of what is installed, and without pip and setuptools."""
    (packages,) = folder.glob("lib/python*/site-packages")
    sizes = {path: path.lstat().st_size for path in packages.rglob("*") if path.is_file()}
    tools = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence.pth")
    own = {
        path: size
        for path, size in sizes.items()
        if path.relative_to(packages).parts[0].split("-")[0] not in tools
    }
    return {"all": sum(sizes.values()) / 1e6, "without pip": sum(own.values()) / 1e6}


def contestants(
    fast: Path, plain: Path, logits: Path, labels: Path, folder: Path
) -> dict[str, Callable[[], float]]:
    """What is timed, by name: each returns its seconds."""
    fit = ["fit", str(logits), "-o", str(folder / "t.json")]
    peers = [sys.executable, str(Path(__file__).with_name("first_answer_peers.py"))]
    given = [str(logits), str(labels)]
    empty = itertools.count()

    def no_cache() -> float:
        return seconds([fast / "tepid", *fit], NUMBA_CACHE_DIR=folder / f"empty{next(empty)}")

    return {
        FIRST: no_cache,
        LATER: lambda: seconds([fast / "tepid", *fit], NUMBA_CACHE_DIR=folder / "warm"),
        WITHOUT: lambda: seconds([plain / "tepid", *fit]),
        UNIT: lambda: seconds([*peers, "scikit-learn", *given]),
        TORCH: lambda: seconds([*peers, "torch", *given]),
    }


def seconds(command: list[Any], **variables: Any) -> float:
    """The wall clock of a command."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TEPID", "NUMBA"))}
    given = own | {name: str(value) for name, value in variables.items()}
    start = time.perf_counter()
    subprocess.run([str(part) for part in command], check=True, capture_output=True, env=given)
    return time.perf_counter() - start


def run(rows: int, classes: int, turns: int, fast: Path, plain: Path) -> dict[str, Any]:
    """All figures for one size."""
    z, y = synthetic.labeled(rows, classes, SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "logits.npy", z)
        np.save(folder / "labels.npy", y)
        calls = contestants(fast, plain, folder / "logits.npy", folder / "labels.npy", folder)
        calls[LATER]()  # fills the cache, if the work is worth compiling for
        spent: dict[str, list[float]] = {who: [] for who in calls}
        for _ in range(turns):
            for who, call in calls.items():
                spent[who].append(call())
    times = {n: {"min": min(s), "median": statistics.median(s)} for n, s in spent.items()}
    ratios = {n: {s: t[s] / times[UNIT][s] for s in t} for n, t in times.items()}
    goals = GOALS[rows, classes]
    return {"rows": rows, "classes": classes, "seconds": times, "ratio": ratios, "goal": goals}


def report(figures: dict[str, Any]) -> str:
    """The table of one size."""
    rows = []
    for name, t in figures["seconds"].items():
        ratio, goal = figures["ratio"][name], figures["goal"].get(name)
        met = "" if goal is None else "met" if ratio["min"] <= goal else "missed"
        said = f"{ratio['min']:.2f} ({ratio['median']:.2f})"
        rows.append([name, f"{t['min']:.2f}", f"{t['median']:.2f}", said, goal or "", met])
    head = ["", "s, min", "median", "/ scikit-learn", "goal", ""]
    return f"## {figures['rows']:,}×{figures['classes']}\n\n{record.table(head, rows)}\n"


# Passes -------------------------------------------------------------------------------------------


class Counted:
    """A function that returns batches, and how often it was called."""

    def __init__(self, array: Any) -> None:
        self.array, self.passes = array, 0

    def __call__(self) -> Iterator[Any]:
        """The batches."""
        self.passes += 1
        return iter(np.array_split(self.array, 4))


def passes() -> dict[str, dict[str, int]]:
    """How often `calibrate` reads each source, for every combination of evidence."""
    z, y = synthetic.labeled(2000, 10, SEED)
    older = synthetic.labeled(2000, 10, SEED + 1)
    kinds = ("labels", "accuracy", "models", "reference", "source", "groups")
    found = {}
    for size in range(len(kinds) + 1):
        for chosen in itertools.combinations(kinds, size):
            sources = {
                "logits": Counted(z),
                "models": Counted(z + np.float32(0.1) * z[::-1]),
                "reference": Counted(2 * z),
                "source": Counted(older[0]),
            }
            every = {
                "labels": y,
                "accuracy": 0.9,
                "models": [sources["models"]],
                "reference": sources["reference"],
                "source": (sources["source"], older[1]),
                "groups": np.arange(len(z)) % 2,
            }
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tepid.calibrate(sources["logits"], **{kind: every[kind] for kind in chosen})
            used = {n: s.passes for n, s in sources.items() if n == "logits" or n in chosen}
            found[" + ".join(chosen) or "logits alone"] = used
    return found


def report_passes(found: dict[str, dict[str, int]]) -> str:
    """Every kind alone, and whether a combination ever reads more than its most demanding kind."""
    alone = {name: used for name, used in found.items() if " + " not in name}
    names = ("logits", "models", "reference", "source")
    rows = [[name, *(used.get(source, "") for source in names)] for name, used in alone.items()]
    more = [
        name
        for name, used in found.items()
        if any(
            count > max(alone[kind].get(source, 0) for kind in ("logits alone", *name.split(" + ")))
            for source, count in used.items()
            if " + " in name
        )
    ]
    said = f"{len(more)} read a source" if more else "none reads any source"
    return (
        "## Passes of tepid.calibrate\n\n"
        f"{record.table(['evidence', *names], rows)}\n\n"
        f"Of all {len(found)} combinations, {said} more often than its most demanding kind alone.\n"
    )


def main() -> None:
    """Run, print, and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--dry", action="store_true")
    chosen = options.parse_args()
    threads = len(os.sched_getaffinity(0))
    about = record.circumstances("python benchmarks/first_answer.py", SEED, threads, PACKAGES)
    text = [record.preamble("The first answer", about), NOTE]
    with tempfile.TemporaryDirectory() as name:
        fast, plain = Path(name) / "fast", Path(name) / "plain"
        bins = environment(fast, "[fast]"), environment(plain, "")
        sizes = {"plain": megabytes(plain), "fast": megabytes(fast)}
        figures = [run(rows, classes, turns, *bins) for rows, classes, turns in SIZES]
    text += [report(each) for each in figures]
    least = sizes["plain"]["without pip"]
    text.append(
        "## Installed size\n\n"
        f"Without extras {least:.0f} MB, with pip and setuptools {sizes['plain']['all']:.0f} MB; "
        f"with the extra `fast` {sizes['fast']['without pip']:.0f} and "
        f"{sizes['fast']['all']:.0f} MB. Goal: under {MEGABYTES} MB without extras, "
        f"{'met' if least < MEGABYTES else 'missed'}.\n"
    )
    counted = passes()
    text.append(report_passes(counted))
    print("\n".join(text))
    if not chosen.dry:
        results = {"results": figures, "megabytes": sizes, "passes": counted}
        record.write("first_answer", {**about, **results}, "\n".join(text))


if __name__ == "__main__":
    main()
