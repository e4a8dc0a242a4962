"""Rows per second and peak memory against the number of logits, from memory and from disk.

`python benchmarks/any_size.py` takes about twenty minutes and writes results/any_size.json and .md;
`--small` stops at a million logits and only prints; `--memory` measures the megabytes again, which
a busy machine does not disturb, and keeps the times. Files are temporary, and in the page cache.
"""

import argparse
import itertools
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import any_size_views as views
import record
from any_size_cells import SEED, WHERE, Size, peaks, summary_bytes, timed, write
from memory import alone

CLASSES = (10, 100, 1000)
VALUES = (10**4, 10**5, 10**6, 10**7, 3 * 10**7, 10**8)
PACKAGES = ("tepid", "numpy", "numba", "pyarrow", "dask", "distributed")
# Whose memory is looked at: one thread takes no more than two.
LOOKED_AT = ("2 threads", "Dask")


def measured(
    values: tuple[int, ...], folder: Path, cells: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Every cell: its times, unless they are there, and where it was looked at its megabytes."""
    timing = not cells
    for classes in CLASSES:
        sizes = [Size(classes, count) for count in values]
        for size in sizes:
            alone(write, folder, size)
        if timing:
            own = alone(timed, folder, sizes)
            print(views.progress(own), flush=True)
            cells += own
        for where, engine in itertools.product(WHERE, LOOKED_AT):
            for size, megabytes in alone(peaks, folder, sizes, where, engine):
                _find(cells, size, where, engine)["megabytes"] = megabytes
        shutil.rmtree(folder)
        folder.mkdir()
    return cells


def _find(cells: list[dict[str, Any]], size: Size, where: str, engine: str) -> dict[str, Any]:
    wanted = (*size, where, engine)
    names = ("classes", "values", "where", "engine")
    return next(cell for cell in cells if tuple(cell[name] for name in names) == wanted)


def main() -> None:
    """Measure, print, and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="up to a million logits")
    options.add_argument("--memory", action="store_true", help="the megabytes alone, anew")
    chosen = options.parse_args()
    about, cells = record.circumstances("python benchmarks/any_size.py", SEED, 2, PACKAGES), []
    if chosen.memory:
        kept = json.loads((record.RESULTS / "any_size.json").read_text(encoding="utf-8"))
        cells, again = kept["cells"], about | {"command": f"{about['command']} --memory"}
        about = {name: kept[name] for name in about} | {"memory": again}
    with tempfile.TemporaryDirectory() as folder:
        cells = measured(VALUES[:3] if chosen.small else VALUES, Path(folder), cells)
    figures = {
        "cells": cells,
        "verdicts": views.verdicts(cells),
        "summary_bytes": {str(k): alone(summary_bytes, k) for k in (1000, 10**6)},
    }
    text = "\n".join([record.preamble("Any size", about), views.report(figures)])
    print(text)
    if not chosen.small:
        record.write("any_size", {**about, **figures}, text)


if __name__ == "__main__":
    main()
