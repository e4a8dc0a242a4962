"""Rows per second and peak memory against the number of logits, from memory and from disk.

`python benchmarks/any_size.py` takes about an hour and writes results/any_size.json and .md;
`--memory` measures the megabytes anew, which a busy machine does not disturb. Files are temporary,
and in the page cache, for which the machine must have 16 GB of memory.
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
from any_size_cells import (
    ENGINES,
    SEED,
    WHERE,
    Size,
    peaks,
    summary_bytes,
    timed,
    write,
)
from memory import alone

CLASSES = (10, 100, 1000)
USUAL = (10**4, 10**5, 10**6, 3 * 10**6, 10**7, 3 * 10**7, 10**8)
LARGER = (3 * 10**8, 10**9)
PACKAGES = ("tepid", "numpy", "numba", "pyarrow", "dask", "distributed")
# Whose memory is looked at: one thread takes no more than two.
LOOKED_AT = ("2 threads", "Dask")


def timings(folder: Path) -> list[dict[str, Any]]:
    """The cells with their times; the large sets are not there while the others are fitted.

    Nor are those of Dask in the same process, since its workers hold rows of their own.
    """
    cells: list[dict[str, Any]] = []
    for classes in CLASSES:
        for values, limit, together in (
            (USUAL, 220, (ENGINES,)),
            (LARGER, 100, (ENGINES[:2], ENGINES[2:])),
        ):
            sizes = [Size(classes, count) for count in values]
            for size in sizes:
                alone(write, folder, size)
            for names in together:
                cells += alone(timed, folder, sizes, limit, names)
            shutil.rmtree(folder)
            folder.mkdir()
        print(views.progress([c for c in cells if c["classes"] == classes]), flush=True)
    return cells


def add_megabytes(folder: Path, cells: list[dict[str, Any]]) -> None:
    """What the fits that are looked at hold."""
    for classes in CLASSES:
        sizes = [Size(classes, count) for count in (*USUAL, *LARGER)]
        for size in sizes:
            alone(write, folder, size)
        for where, engine in itertools.product(WHERE, LOOKED_AT):
            for size, megabytes in alone(peaks, folder, sizes, where, engine):
                _find(cells, size, where, engine)["megabytes"] = megabytes
        shutil.rmtree(folder)
        folder.mkdir()


def _find(cells: list[dict[str, Any]], size: Size, where: str, engine: str) -> dict[str, Any]:
    wanted = (*size, where, engine)
    names = ("classes", "values", "where", "engine")
    return next(cell for cell in cells if tuple(cell[name] for name in names) == wanted)


def main() -> None:
    """Measure, print, and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--memory", action="store_true", help="the megabytes alone, anew")
    chosen = options.parse_args()
    about = record.circumstances("python benchmarks/any_size.py", SEED, 2, PACKAGES)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if chosen.memory:
            kept = json.loads((record.RESULTS / "any_size.json").read_text(encoding="utf-8"))
            new = about | {"command": f"{about['command']} --memory"}
            about = {key: kept[key] for key in about} | {"later": [*kept.get("later", ()), new]}
            cells = kept["cells"]
        else:
            cells = timings(folder)
        add_megabytes(folder, cells)
    figures = {
        "cells": cells,
        "verdicts": views.verdicts(cells),
        "summary_bytes": {str(k): alone(summary_bytes, k) for k in (1000, 10**6)},
    }
    later = [f"`{run['command']}` came later, {run['date']}.\n" for run in about.get("later", ())]
    text = "\n".join([record.preamble("Any size", about), *later, views.report(figures)])
    print(text)
    record.write("any_size", {**about, **figures}, text)


if __name__ == "__main__":
    main()
