"""How much sooner lists of Parquet are there by their pages than by pyarrow.

Both give the same batches of the same file, in turns within a round; the ratio of the least times
is what counts. `python benchmarks/decoding.py` writes results/decoding.json and .md.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import record
import synthetic

from tepid.shapes import rows_per_block
from tepid.sources import parquet

SEED, ROUNDS, LOGITS = 0, 9, 20_000_000
CLASSES = (10, 100, 1000)
# What is said to pyarrow when it writes; the first is what it does by itself.
WAYS: dict[str, dict[str, Any]] = {
    "snappy, dictionary": {},
    "snappy": {"use_dictionary": False},
    "zstd": {"use_dictionary": False, "compression": "zstd"},
    "uncompressed": {"use_dictionary": False, "compression": "none"},
}
PACKAGES = ("tepid", "numpy", "numba", "pyarrow")
NOTE = """\
Nanoseconds for each logit of a column of lists, float32, in row groups of 2²² logits, in the page
cache, by one thread, from the file to batches of about a million.
"""


def write(folder: Path, classes: int, way: str) -> Path:
    """A file of rows that are the same for every way."""
    z = np.empty((LOGITS // classes, classes), np.float32)
    synthetic.fill(z, np.random.default_rng(SEED))
    column = pa.FixedSizeListArray.from_arrays(pa.array(z.reshape(-1)), classes)
    path = folder / f"{classes}.parquet"
    pq.write_table(
        pa.table({"logits": column}), path, row_group_size=(1 << 22) // classes, **WAYS[way]
    )
    return path


def seconds(path: Path, classes: int, *, paged: bool) -> float:
    """How long all batches take."""
    start = time.perf_counter()
    with pa.OSFile(str(path)) as file:
        opened = pq.ParquetFile(file, buffer_size=1 << 16, pre_buffer=False)
        groups = list(range(opened.num_row_groups))
        where = file if paged else None
        rows = sum(
            batch.num_rows
            for batch in parquet.batches(opened, where, groups, ["logits"], rows_per_block(classes))
        )
    if rows != LOGITS // classes:
        raise RuntimeError(f"{rows} rows of {LOGITS // classes}")
    return time.perf_counter() - start


def measured(path: Path, classes: int, way: str) -> dict[str, Any]:
    """Both ways of one file."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(ROUNDS + 1):  # the first compiles
        for paged, times in found.items():
            times.append(seconds(path, classes, paged=paged))
    pages, pyarrow = (1e9 * min(found[paged][1:]) / LOGITS for paged in (True, False))
    return {"classes": classes, "way": way, "pages": pages, "pyarrow": pyarrow,
            "ratio": pyarrow / pages}  # fmt: skip


def main() -> None:
    """Measure, print, and write."""
    about = record.circumstances("python benchmarks/decoding.py", SEED, 1, PACKAGES)
    with tempfile.TemporaryDirectory() as name:
        results = [
            measured(write(Path(name), classes, way), classes, way)
            for classes in CLASSES
            for way in WAYS
        ]
    rows = [
        (r["classes"], r["way"], f"{r['pages']:.2f}", f"{r['pyarrow']:.2f}", f"{r['ratio']:.1f} ×")
        for r in results
    ]
    head = ("classes", "written", "pages, ns", "pyarrow, ns", "ratio")
    text = "\n".join([record.preamble("Decoding", about), NOTE, record.table(head, rows) + "\n"])
    print(text)
    record.write("decoding", {**about, "results": results}, text)


if __name__ == "__main__":
    main()
