"""Speed and memory of a label-free fit from arrays and files.

`python benchmarks/reading.py` writes results/reading.json and .md. Another number of logits, as in
`--logits 100000000`, is measured and printed only.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import memory
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import record
import synthetic

import tepid

SEED, ROUNDS, CLASSES, LOGITS = 0, 5, 100, 10**7
CSV_SHARE = 100  # The CSV file has one row in this many, since text is slow.
ROWS_PER_GROUP = 100_000
PACKAGES = ("tepid", "numpy", "numba", "pyarrow")
ARRAY = "array in memory"
RATES = f"""\
Rate: million logits per second of `tepid.uts`, all passes included, fastest of {ROUNDS}
fits, {CLASSES} classes in float32, files in the page cache. Ratio: the rate divided by the rate of
the array with the same number of threads. The first pass decodes a file that must be decoded; later
passes read the decoded rows from a temporary file.
"""
MEMORY = """\
Peak resident memory in megabytes (10⁶ bytes) of a process that fits a Parquet file with a list
column. Before: after imports and a small fit. Added: peak minus before.
"""


class Timed:
    """A thread engine that records the seconds of each pass."""

    progress = None

    def __init__(self, threads: int) -> None:
        self.engine, self.passes = tepid.Threads(threads), list[float]()

    def total(self, of: Any, source: Any, stage: str) -> Any:
        """The sum over all batches."""
        start = time.perf_counter()
        found = self.engine.total(of, source, stage)
        self.passes.append(time.perf_counter() - start)
        return found


def list_column(z: Any) -> pa.Table:
    """A table with one column of lists."""
    flat = pa.array(z.reshape(-1))
    return pa.table({"logits": pa.FixedSizeListArray.from_arrays(flat, z.shape[1])})


def write_files(z: Any, folder: Path) -> dict[str, Any]:
    """The logits of each format: the array, or the path of a file."""
    wide = pa.table({f"logit_{k}": np.ascontiguousarray(column) for k, column in enumerate(z.T)})
    names = ("logits.npy", "logits.npz", "lists.parquet", "columns.parquet", "logits.csv")
    npy, npz, lists, columns, csv = (folder / name for name in names)
    np.save(npy, z)
    np.savez(npz, logits=z)
    pyarrow.parquet.write_table(list_column(z), lists, row_group_size=ROWS_PER_GROUP)
    pyarrow.parquet.write_table(wide, columns, row_group_size=ROWS_PER_GROUP)
    np.savetxt(csv, z[::CSV_SHARE], fmt="%.6g", delimiter=",")
    return {
        ARRAY: z, "`.npy`": npy, "`.npz`": npz, "Parquet, list column": lists,
        "Parquet, column per class": columns, "CSV": csv,
    }  # fmt: skip


def measure_rates(logits: int, folder: Path) -> list[dict[str, Any]]:
    """The fastest fit of each format, with one thread and with all."""
    z = np.empty((logits // CLASSES, CLASSES), np.float32)
    data = write_files(synthetic.fill(z, np.random.default_rng(SEED)), folder)
    fits: dict[tuple[int, str], list[tuple[float, list[float]]]] = {}
    for _ in range(ROUNDS + 1):  # the first round warms up
        for threads in dict.fromkeys((1, tepid.Threads().threads)):
            for name, source in data.items():
                engine, start = Timed(threads), time.perf_counter()
                tepid.uts(source, engine=engine)
                fit = time.perf_counter() - start, engine.passes
                fits.setdefault((threads, name), []).append(fit)
    found = []
    for (threads, name), each in sorted(fits.items(), key=lambda item: item[0][0]):
        seconds, (first, *later) = min(each[1:])
        count = len(z[::CSV_SHARE]) * CLASSES if name == "CSV" else z.size
        found.append({
            "data": name, "threads": threads, "logits": count, "rate": count / seconds,
            "first": first, "later": sum(later) / len(later),
        })  # fmt: skip
    arrays = {each["threads"]: each["rate"] for each in found if each["data"] == ARRAY}
    return [{**each, "ratio": each["rate"] / arrays[each["threads"]]} for each in found]


def measure_memory(logits: int, folder: Path) -> dict[str, Any]:
    """The peak memory of a process that fits a Parquet file."""
    path, rows = folder / f"{logits}.parquet", logits // CLASSES
    z = np.empty((min(ROWS_PER_GROUP, rows), CLASSES), np.float32)
    synthetic.fill(z, np.random.default_rng(SEED))
    with pyarrow.parquet.ParquetWriter(path, list_column(z).schema) as writer:
        for shift in range(rows // len(z)):
            writer.write_table(list_column(np.roll(z, shift, axis=0)))
    return {"logits": logits, **memory.alone(memory.of_file, path)}


def reading_rates(result: dict[str, Any]) -> str:
    """The table of rates."""
    head = ("data", "threads", "logits", "rate", "ratio", "first pass, s", "later pass, s")
    rows = [
        (each["data"], each["threads"], f"{each['logits']:,}", f"{each['rate'] / 1e6:.3g}",
         f"{each['ratio']:.2g}", f"{each['first']:.2g}", f"{each['later']:.2g}")
        for each in result["rates"]
    ]  # fmt: skip
    return record.table(head, rows)


def reading_memory(result: dict[str, Any]) -> str:
    """The table of memory."""
    head = ("logits", "file, MB", "before, MB", "peak, MB", "added, MB")
    names = ("input", "before", "peak", "beyond")
    rows = [(f"{m['logits']:,}", *(f"{m[n]:.0f}" for n in names)) for m in result["memory"]]
    return record.table(head, rows)


def main() -> None:
    """Measure, print, and write what the default size gives."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--logits", type=int, default=LOGITS)
    logits, threads = options.parse_args().logits, tepid.Threads().threads
    result = record.circumstances("python benchmarks/reading.py", SEED, threads, PACKAGES)
    head = record.preamble("Reading", result)
    with tempfile.TemporaryDirectory() as folder:
        result["rates"] = measure_rates(logits, Path(folder))
        result["memory"] = [measure_memory(n, Path(folder)) for n in (logits, 10 * logits)]
    tables = f"{RATES}\n{reading_rates(result)}\n\n{MEMORY}\n{reading_memory(result)}\n"
    print(tables)
    if logits == LOGITS:
        record.write("reading", result, f"{head}\n{tables}")


if __name__ == "__main__":
    main()
