"""How much memory the label-free fit takes, for an array in memory and for a file beyond it.

Each figure is the peak resident size of a process of its own, which imports tepid and nothing else
that is heavy; the kernel counts the pages of a mapped file while they are resident.
`python benchmarks/memory.py` writes results/memory.json and .md; `--small` takes a file of 400 MB
in place of 4 GB and only prints.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import record
import synthetic

THREADS = 2
# The compiled kernels are measured, from the first call on.
os.environ.setdefault("TEPID_KERNELS", "numba")

SEED = 0
PACKAGES = ("tepid", "numpy", "numba")
ROWS, CLASSES = 50_000, 1000
BLOCK = 16_000
MEGABYTES = ("input", "warm", "before", "peak", "beyond")
LIMITS = {"array": ("beyond", 64), "file": ("peak", 300)}
NOTE = """\
Megabytes (10⁶ bytes) of resident memory. Import and warm-up: a fresh process that has imported
tepid and fitted a small array, with the kernels already in numba's cache on disk. Peak: the highest
during the fit. Beyond: what the fit added to what the process held before it, the input included.
First use: numba has no cache on disk and compiles in the same process.
"""


def resident(field: str) -> float:
    """`VmRSS`, what this process holds now, or `VmHWM`, the most it has held, in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise LookupError(f"/proc/self/status must have {field}")


def warmed_up() -> float:
    """Import tepid, fit a small array of each kind of kernel, and say what was held at most."""
    import tepid  # noqa: PLC0415  # its memory is what is measured

    rng = np.random.default_rng(SEED)
    for classes in (10, CLASSES):
        small = synthetic.fill(np.empty((256, classes), np.float32), rng)
        tepid.uts(small, engine=tepid.Threads(THREADS))
    return resident("VmHWM")


def fitted(source: Any) -> dict[str, float]:
    """The peak of one fit, counted from here."""
    import tepid  # noqa: PLC0415  # the same

    Path("/proc/self/clear_refs").write_text("5")
    before, start = resident("VmRSS"), time.perf_counter()
    found = tepid.uts(source, engine=tepid.Threads(THREADS))
    seconds, peak = time.perf_counter() - start, resident("VmHWM")
    return {
        "before": before,
        "peak": peak,
        "beyond": peak - before,
        "seconds": seconds,
        "temperature": found.value,
    }


def of_array() -> dict[str, float]:
    """A fit of an array in memory."""
    warm = warmed_up()
    z = synthetic.fill(np.empty((ROWS, CLASSES), np.float32), np.random.default_rng(SEED))
    return {"warm": warm, "input": z.nbytes / 1e6, **fitted(z)}


def of_file(path: Path) -> dict[str, float]:
    """A fit of a memory-mapped file."""
    return {"warm": warmed_up(), "input": path.stat().st_size / 1e6, **fitted(path)}


def of_first_use(path: Path) -> dict[str, float]:
    """The same where numba has no cache yet and compiles."""
    os.environ["NUMBA_CACHE_DIR"] = os.fspath(path.parent)
    return of_file(path)


def alone(measure: Callable[..., dict[str, float]], *given: Any) -> dict[str, float]:
    """A measurement in a process of its own."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, given)


def write_logits(path: Path, rows: int) -> None:
    """A .npy file of logits: one block over and over, its rows shifted each time."""
    block = synthetic.fill(np.empty((BLOCK, CLASSES), np.float32), np.random.default_rng(SEED))
    header = {"descr": block.dtype.str, "fortran_order": False, "shape": (rows, CLASSES)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for shift, start in enumerate(range(0, rows, BLOCK)):
            np.roll(block, shift, axis=0)[: rows - start].tofile(file)


def measured(rows: int) -> dict[str, dict[str, float]]:
    """Every figure; the file is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "logits.npy"
        write_logits(path, rows)
        alone(of_array)  # fills the cache
        return {
            "array": alone(of_array),
            "file": alone(of_file, path),
            "file, first use": alone(of_first_use, path),
        }


def report(figures: dict[str, dict[str, float]]) -> str:
    """The table."""
    head = ["", "input", "import and warm-up", "before", "peak", "beyond", "must be", "", "s"]
    rows = []
    for name, figure in figures.items():
        row = [name, *(f"{figure[key]:,.1f}" for key in MEGABYTES)]
        if name in LIMITS:
            what, limit = LIMITS[name]
            row += [f"{what} < {limit}", "met" if figure[what] < limit else "missed"]
        else:
            row += ["", ""]
        rows.append([*row, f"{figure['seconds']:.2f}"])
    return record.table(head, rows) + "\n"


def main() -> None:
    """Measure, print, and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="a file of 400 MB")
    small = options.parse_args().small
    command = f"python benchmarks/memory.py{' --small' if small else ''}"
    about = record.circumstances(command, SEED, THREADS, PACKAGES)
    figures = measured(100_000 if small else 1_000_000)
    text = "\n".join([record.preamble("Memory", about), NOTE, report(figures)])
    print(text)
    if not small:
        record.write("memory", {**about, "megabytes": figures}, text)


if __name__ == "__main__":
    main()
