"""Rows per second and peak memory against the number of logits, from memory and from disk.

`python benchmarks/any_size.py` takes about twenty minutes and writes results/any_size.json and .md;
`--small` stops at a million logits and only prints. Files are temporary, and in the page cache.
"""

import argparse
import itertools
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


def measured(values: tuple[int, ...], folder: Path) -> list[dict[str, Any]]:
    """Every cell: its times, and where they were looked at its megabytes."""
    cells = []
    for classes in CLASSES:
        sizes = [Size(classes, count) for count in values]
        for size in sizes:
            alone(write, folder, size)
        cells += alone(timed, folder, sizes)
        print(views.progress([cell for cell in cells if cell["classes"] == classes]), flush=True)
        for where, engine in itertools.product(WHERE, LOOKED_AT):
            for size, megabytes in alone(peaks, folder, sizes, where, engine):
                _find(cells, size, where, engine)["megabytes"] = megabytes
        for path in folder.iterdir():
            path.unlink()
    return cells


def _find(cells: list[dict[str, Any]], size: Size, where: str, engine: str) -> dict[str, Any]:
    wanted = (*size, where, engine)
    names = ("classes", "values", "where", "engine")
    return next(cell for cell in cells if tuple(cell[name] for name in names) == wanted)


def main() -> None:
    """Measure, print, and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="up to a million logits")
    small = options.parse_args().small
    command = f"python benchmarks/any_size.py{' --small' if small else ''}"
    about = record.circumstances(command, SEED, 2, PACKAGES)
    with tempfile.TemporaryDirectory() as folder:
        cells = measured(VALUES[:3] if small else VALUES, Path(folder))
    figures = {
        "cells": cells,
        "verdicts": views.verdicts(cells),
        "summary_bytes": {str(k): alone(summary_bytes, k) for k in (1000, 10**6)},
    }
    text = "\n".join([record.preamble("Any size", about), views.report(figures)])
    print(text)
    if not small:
        record.write("any_size", {**about, **figures}, text)


if __name__ == "__main__":
    main()
