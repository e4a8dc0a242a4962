"""What a fit costs from files of each format, with and without reading ahead.

Each figure is the least over rounds of one label-free fit, in turns within a round, since what else
a machine does can only add; the ratio of two is what counts. `python benchmarks/reading.py`
writes results/reading.json and .md; `--small` takes a tenth of the rows and only prints.
"""

import argparse
import gzip
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import record
import synthetic

import tepid
from tepid.sources import ahead

SEED, ROUNDS, THREADS = 0, 5, 2
LOGITS = 20_000_000
FILES = 4
DELAY = 0.005
WAITING = ("far away, 1 thread", "far away, 2 threads")
PACKAGES = ("tepid", "numpy", "numba", "pyarrow", "h5py")
NOTE = """\
Seconds of one `from_logits` on the same rows, in memory and from four files in the page cache.
Ahead over plain is what reading ahead on a thread leaves of the time. Text is a hundredth of the
rows, counted up to all of them. Far away: 5 ms of waiting for each block. Where all processors
sum, decoding ahead wins little, since the engine itself reads while another thread sums; what is
won is the waiting.
"""


def lists(z: np.ndarray[Any, Any]) -> pa.Table:
    """One column of lists."""
    flat = pa.array(z.reshape(-1))
    return pa.table({"logits": pa.FixedSizeListArray.from_arrays(flat, z.shape[1])})


def columns(z: np.ndarray[Any, Any]) -> pa.Table:
    """One column for each class."""
    return pa.table({f"z{k}": pa.array(np.ascontiguousarray(c)) for k, c in enumerate(z.T)})


def write_csv(path: Path, z: np.ndarray[Any, Any]) -> None:
    with gzip.open(path, "wt", compresslevel=1) as file:
        np.savetxt(file, z[: len(z) // 100], fmt="%.6g", delimiter=",")


def write_hdf5(path: Path, z: np.ndarray[Any, Any]) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("logits", data=z, chunks=(max(1, (1 << 18) // z.shape[1]), z.shape[1]))


def parquet(table: Callable[[Any], pa.Table], path: Path, z: np.ndarray[Any, Any]) -> None:
    pyarrow.parquet.write_table(table(z), path, row_group_size=1 << 16)


FORMS: dict[str, tuple[str, Callable[[Path, Any], None]]] = {
    "npy": ("npy", np.save),
    "parquet, lists": ("parquet", partial(parquet, lists)),
    "parquet, columns": ("parquet", partial(parquet, columns)),
    "feather": ("feather", lambda path, z: pyarrow.feather.write_feather(lists(z), str(path))),
    "hdf5": ("h5", write_hdf5),
    "csv.gz": ("csv.gz", write_csv),
}


def far_away(z: Any) -> Any:
    """The same rows from a place that makes one wait for each block."""

    def read(rows: int) -> Iterator[Any]:
        for start in range(0, len(z), rows):
            time.sleep(DELAY)
            yield z[start : start + rows]

    reading = partial(ahead.ahead, read)
    return tepid.sources.Source(reading, "far away", len(z), z.shape[1])


def plainly(items: Iterator[Any]) -> Iterator[Any]:
    """What reading ahead is compared with."""
    return items


def seconds(logits: Any, threads: int = THREADS) -> float:
    start = time.perf_counter()
    tepid.from_logits(logits, engine=tepid.Threads(threads))
    return time.perf_counter() - start


def one_round(z: Any, folder: Path) -> dict[str, float]:
    """Seconds of every way, once each."""
    found = {"memory": seconds(z)}
    reading = ahead.reading_ahead
    for way, name in ((reading, "{}"), (plainly, "{}, plain")):
        ahead.reading_ahead = way
        for form in FORMS:
            scale = 100 if form == "csv.gz" else 1
            found[name.format(form)] = scale * seconds(folder / form)
        found[name.format(WAITING[0])] = seconds(far_away(z), 1)
        found[name.format(WAITING[1])] = seconds(far_away(z), 2)
    ahead.reading_ahead = reading
    return found


def measured(classes: int, logits: int, folder: Path) -> dict[str, Any]:
    """The least of each for so many classes."""
    rng = np.random.default_rng(SEED)
    z = synthetic.fill(np.empty((logits // classes, classes), np.float32), rng)
    for name, (ending, write) in FORMS.items():
        (folder / name).mkdir()
        for i, part in enumerate(np.array_split(z, FILES)):
            write(folder / name / f"part-{i}.{ending}", part)
    one_round(z, folder)
    rounds = [one_round(z, folder) for _ in range(ROUNDS)]
    return {name: min(each[name] for each in rounds) for name in rounds[0]}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--small", action="store_true")
    small = arguments.parse_args().small
    about = record.circumstances("python benchmarks/reading.py", SEED, THREADS, PACKAGES)
    found = {}
    for classes in (10, 1000):
        with tempfile.TemporaryDirectory() as folder:
            found[classes] = measured(classes, LOGITS // 10 if small else LOGITS, Path(folder))
    rows = [
        (
            name, k, f"{times[name]:.3f}", f"{times[name] / times['memory']:.2f}",
            f"{times[name] / times[f'{name}, plain']:.2f}" if name != "memory" else "",
        )
        for k, times in found.items()
        for name in ("memory", *FORMS, *WAITING)
    ]  # fmt: skip
    table = record.table(("from", "classes", "seconds", "over memory", "ahead over plain"), rows)
    print(table)
    if not small:
        text = f"{record.preamble('Reading', about)}\n{NOTE}\n{table}\n"
        record.write("reading", {**about, "seconds": found}, text)


if __name__ == "__main__":
    main()
