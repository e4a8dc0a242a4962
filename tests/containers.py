"""The same table in every container that tepid reads.

A container is one function from a folder and a `Table` to what a user would pass as logits. A new
format joins every test of tests/test_containers.py by one entry in one of the dictionaries below.
"""

import bz2
import gzip
import itertools
import lzma
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.needs import needed

ROWS, CLASSES = 320, 4
NAMES = tuple(f"logit_{k}" for k in range(CLASSES))


@dataclass(frozen=True)
class Table:
    """Logits with other columns; `order` is the order of the columns where it matters."""

    logits: np.ndarray
    beside: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = NAMES
    order: tuple[str, ...] = ()

    def columns(self) -> dict[str, Any]:
        """One column per class and the others, in the order of the table."""
        every = dict(zip(self.names, self.logits.T.copy(), strict=True)) | self.beside
        return {name: every[name] for name in self.order} if self.order else every

    def numbers(self) -> dict[str, np.ndarray]:
        """The other columns that an archive of arrays can hold."""
        numeric = {name: np.asarray(values) for name, values in self.beside.items()}
        return {name: values for name, values in numeric.items() if values.dtype.kind in "ifb"}

    def rows(self, chosen: Any) -> "Table":
        beside = {name: np.asarray(values)[chosen] for name, values in self.beside.items()}
        return replace(self, logits=self.logits[chosen], beside=beside)

    def parts(self, cuts: tuple[int, ...] = (0, 1, 90, 200)) -> list["Table"]:
        ends = [*cuts, len(self.logits)]
        return [self.rows(slice(a, b)) for a, b in itertools.pairwise(ends)]

    def without(self, *names: str) -> "Table":
        kept = {name: values for name, values in self.beside.items() if name not in names}
        return replace(self, beside=kept)


def made(rows: int = ROWS, classes: int = CLASSES, seed: int = 11) -> Table:
    """Logits twice as large as they should be; float32 and the text of CSV hold them exactly."""
    rng = np.random.default_rng(seed)
    posterior = np.round(4 * 8 * rng.normal(size=(rows, classes))) / 4
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    beside = {
        "y": labels,
        "id": np.arange(1000, 1000 + rows),
        "latency_ms": np.round(8 * rng.gamma(3, size=rows)) / 8,
        "w": rng.integers(1, 9, size=rows) / 4,
        "site": np.where(np.arange(rows) % 3, "clinic", "field"),
    }
    return Table(2 * posterior, beside, tuple(f"logit_{k}" for k in range(classes)))


# --- writers of one file or object


def arrow_numbered(table: Table) -> Any:
    return needed("pyarrow").table({k: np.asarray(v) for k, v in table.columns().items()})


def _beside(table: Table) -> dict[str, Any]:
    """The other columns; a matrix becomes a column of lists."""
    arrays = {name: np.asarray(values) for name, values in table.beside.items()}
    return {name: list(v) if v.ndim > 1 else v for name, v in arrays.items()}


def arrow_list(table: Table, *, fixed: bool = False) -> Any:
    pa = needed("pyarrow")
    flat = pa.array(np.ascontiguousarray(table.logits).reshape(-1))
    width = table.logits.shape[1]
    if fixed:
        lists = pa.FixedSizeListArray.from_arrays(flat, width)
    else:
        lists = pa.ListArray.from_arrays(np.arange(0, len(flat) + 1, width, np.int32), flat)
    return pa.table({"logits": lists} | {k: pa.array(v) for k, v in _beside(table).items()})


def pandas_numbered(table: Table) -> Any:
    return needed("pandas").DataFrame(table.columns())


def pandas_list(table: Table) -> Any:
    return needed("pandas").DataFrame({"logits": list(table.logits)} | _beside(table))


def pandas_integers(table: Table) -> Any:
    frame = needed("pandas").DataFrame(dict(enumerate(table.logits.T.copy())))
    return frame.assign(**table.beside)


def polars_list(table: Table, *, fixed: bool = False) -> Any:
    pl = needed("polars")
    width = table.logits.shape[1]
    kind = pl.Array(pl.Float64, width) if fixed else pl.List(pl.Float64)
    lists = pl.Series("logits", table.logits.tolist(), dtype=kind)
    return pl.DataFrame([lists, *(pl.Series(k, v) for k, v in _beside(table).items())])


def csv_text(table: Table) -> str:
    columns = table.columns()
    lines = [",".join(columns)]
    rows = zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True)
    lines += [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
    return "\n".join(lines) + "\n"


def write_csv(path: Path, table: Table) -> Path:
    plain = csv_text(table).encode()
    compress = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    if path.suffix == ".zst":
        with needed("pyarrow").CompressedOutputStream(str(path), "zstd") as out:
            out.write(plain)
    else:
        path.write_bytes(compress.get(path.suffix, bytes)(plain))
    return path


def write_parquet(path: Path, rows: Any, row_group_size: int | None = None) -> Path:
    needed("pyarrow.parquet").write_table(rows, path, row_group_size=row_group_size)
    return path


def write_feather(path: Path, rows: Any) -> Path:
    needed("pyarrow.feather").write_feather(rows, str(path), chunksize=70)
    return path


def write_ipc(path: Path, rows: Any) -> Path:
    pa = needed("pyarrow")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=70)
    return path


def write_npy(path: Path, array: Any) -> Path:
    np.save(path, array)
    return path


def _members(table: Table) -> dict[str, np.ndarray]:
    return {"logits": np.ascontiguousarray(table.logits)} | table.numbers()


def write_npz(path: Path, table: Table) -> Path:
    np.savez(path, **_members(table))
    return path


def write_hdf5(path: Path, table: Table) -> Path:
    with needed("h5py").File(path, "w") as file:
        for name, array in _members(table).items():
            chunks = (min(70, len(array)), *array.shape[1:])
            file.create_dataset(name, data=array, chunks=chunks, fletcher32=True)
    return path


def write_zarr(path: Path, table: Table) -> Path:
    group = needed("zarr").open_group(str(path), mode="w")
    for name, array in _members(table).items():
        group.create_array(name, data=array, chunks=(min(70, len(array)), *array.shape[1:]))
    return path


def write_safetensors(path: Path, table: Table) -> Path:
    needed("safetensors.numpy").save_file(_members(table), path)
    return path


def write_pt(path: Path, table: Table) -> Path:
    torch = needed("torch")
    torch.save({name: torch.from_numpy(array) for name, array in _members(table).items()}, path)
    return path


# --- several files


def write_parts(folder: Path, ending: str, table: Table, write: Callable[..., Path]) -> Path:
    """A folder with the parts of a table; `part-10` comes after `part-2`."""
    folder.mkdir()
    for number, part in zip((0, 2, 10, 11), table.parts(), strict=True):
        write(folder / f"part-{number}{ending}", part)
    return folder


def npy_parts(folder: Path, table: Table) -> Path:
    return write_parts(folder / "npys", ".npy", table, lambda path, t: write_npy(path, t.logits))


def npz_parts(folder: Path, table: Table) -> Path:
    return write_parts(folder / "npzs", ".npz", table, write_npz)


def csv_parts(folder: Path, table: Table) -> Path:
    return write_parts(folder / "csvs", ".csv", table, write_csv)


def parquet_parts(folder: Path, table: Table) -> Path:
    write = lambda path, part: write_parquet(path, arrow_numbered(part), 70)  # noqa: E731
    return write_parts(folder / "parquets", ".parquet", table, write)


def parquet_list_parts(folder: Path, table: Table) -> Path:
    write = lambda path, part: write_parquet(path, arrow_list(part), 70)  # noqa: E731
    return write_parts(folder / "lists", ".parquet", table, write)


def paths_in(folder: Path) -> list[Path]:
    """The files of a folder, in the order of their numbers."""
    return sorted(folder.iterdir(), key=lambda path: int(path.stem.rpartition("-")[2]))


def one_in_a_folder(folder: Path, table: Table) -> Path:
    (folder / "single").mkdir()
    write_parquet(folder / "single" / "z.parquet", arrow_numbered(table))
    return folder / "single"


def memory_url(_: Path, table: Table) -> str:
    """A Parquet file in the in-memory file system of fsspec."""
    pq, fsspec = needed("pyarrow.parquet"), needed("fsspec")
    with fsspec.open("memory://tepid-tests/z.parquet", "wb") as file:
        pq.write_table(arrow_numbered(table), file)
    return "memory://tepid-tests/z.parquet"


# --- clusters


def dask_array(_: Path, table: Table) -> Any:
    return needed("dask.array").from_array(table.logits, chunks=(90, -1))


def dask_numbered(_: Path, table: Table) -> Any:
    return needed("dask.dataframe").from_pandas(pandas_numbered(table), npartitions=3)


def dask_list(_: Path, table: Table) -> Any:
    with needed("dask").config.set({"dataframe.convert-string": False}):  # which makes lists text
        return needed("dask.dataframe").from_pandas(pandas_list(table), npartitions=3)


def spark_session() -> Any:
    """The session of this process, which starts it if there is none."""
    sql = needed("pyspark.sql")
    if shutil.which("java") is None and not os.environ.get("CI"):
        pytest.skip("Spark needs Java, which is not installed")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = (
            sql.SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "97")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
    return session


def stop_spark() -> None:
    """Stop the session, if there is one."""
    sql = sys.modules.get("pyspark.sql")
    session = sql and sql.SparkSession.getActiveSession()
    if session:
        session.stop()


def _spark(rows: Any) -> Any:
    session = spark_session()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return session.createDataFrame(rows).repartition(3)


# --- every container, by what it holds

ARRAYS: dict[str, Callable[[Path, Table], Any]] = {
    "numpy": lambda _, t: t.logits,
    "list of lists": lambda _, t: t.logits.tolist(),
    "torch": lambda _, t: needed("torch").from_numpy(t.logits.copy()),
    "npy": lambda folder, t: write_npy(folder / "z.npy", t.logits),
    "npy as text": lambda folder, t: str(write_npy(folder / "z.npy", t.logits)),
    "dask array": dask_array,
    "folder of npy": npy_parts,
    "paths of npy": lambda folder, t: paths_in(npy_parts(folder, t)),
    "glob of npy": lambda folder, t: f"{npy_parts(folder, t)}/*.npy",
    "function": lambda _, t: lambda: (part.logits for part in t.parts()),
    "list of batches": lambda _, t: [part.logits for part in t.parts()],
}
ARCHIVES: dict[str, Callable[[Path, Table], Any]] = {
    "npz": lambda folder, t: write_npz(folder / "z.npz", t),
    "h5": lambda folder, t: write_hdf5(folder / "z.h5", t),
    "hdf5": lambda folder, t: write_hdf5(folder / "z.hdf5", t),
    "zarr": lambda folder, t: write_zarr(folder / "z.zarr", t),
    "safetensors": lambda folder, t: write_safetensors(folder / "z.safetensors", t),
    "pt": lambda folder, t: write_pt(folder / "z.pt", t),
    "pth": lambda folder, t: write_pt(folder / "z.pth", t),
    "folder of npz": npz_parts,
    "glob of npz": lambda folder, t: f"{npz_parts(folder, t)}/part-*.npz",
}
LISTS: dict[str, Callable[[Path, Table], Any]] = {
    "pandas, lists": lambda _, t: pandas_list(t),
    "polars, List": lambda _, t: polars_list(t),
    "polars, Array": lambda _, t: polars_list(t, fixed=True),
    "arrow table, lists": lambda _, t: arrow_list(t),
    "arrow table, fixed-size lists": lambda _, t: arrow_list(t, fixed=True),
    "duckdb, lists": lambda _, t: needed("duckdb").from_arrow(arrow_list(t)),
    "parquet, lists": lambda folder, t: write_parquet(folder / "z.parquet", arrow_list(t)),
    "parquet, fixed-size lists": lambda folder, t: write_parquet(
        folder / "z.parquet", arrow_list(t, fixed=True)
    ),
    "parquet, lists in row groups": lambda folder, t: write_parquet(
        folder / "z.parquet", arrow_list(t), 70
    ),
    "feather, lists": lambda folder, t: write_feather(folder / "z.feather", arrow_list(t)),
    "arrow file, fixed-size lists": lambda folder, t: write_ipc(
        folder / "z.arrow", arrow_list(t, fixed=True)
    ),
    "folder of parquet, lists": parquet_list_parts,
    "paths of parquet, lists": lambda folder, t: paths_in(parquet_list_parts(folder, t)),
    "dask frame, lists": dask_list,
}
NUMBERED: dict[str, Callable[[Path, Table], Any]] = {
    "pandas": lambda _, t: pandas_numbered(t),
    "polars": lambda _, t: needed("polars").DataFrame(t.columns()),
    "arrow table": lambda _, t: arrow_numbered(t),
    "arrow table in chunks": lambda _, t: needed("pyarrow").concat_tables(
        [arrow_numbered(part) for part in t.parts()]
    ),
    "duckdb": lambda _, t: needed("duckdb").from_arrow(arrow_numbered(t)),
    "csv": lambda folder, t: write_csv(folder / "z.csv", t),
    "csv.gz": lambda folder, t: write_csv(folder / "z.csv.gz", t),
    "csv.bz2": lambda folder, t: write_csv(folder / "z.csv.bz2", t),
    "csv.xz": lambda folder, t: write_csv(folder / "z.csv.xz", t),
    "csv.zst": lambda folder, t: write_csv(folder / "z.csv.zst", t),
    "parquet": lambda folder, t: write_parquet(folder / "z.parquet", arrow_numbered(t)),
    "parquet in row groups": lambda folder, t: write_parquet(
        folder / "z.parquet", arrow_numbered(t), 70
    ),
    "feather": lambda folder, t: write_feather(folder / "z.feather", arrow_numbered(t)),
    "arrow file": lambda folder, t: write_ipc(folder / "z.arrow", arrow_numbered(t)),
    "ipc file": lambda folder, t: write_ipc(folder / "z.ipc", arrow_numbered(t)),
    "folder of csv": csv_parts,
    "folder of parquet": parquet_parts,
    "folder with one parquet": one_in_a_folder,
    "glob of parquet": lambda folder, t: f"{parquet_parts(folder, t)}/*.parquet",
    "paths of csv": lambda folder, t: paths_in(csv_parts(folder, t)),
    "url of parquet": memory_url,
    "dask frame": dask_numbered,
}
# Integer names are given by the writer, so that tests of names leave these out.
INTEGERS: dict[str, Callable[[Path, Table], Any]] = {
    "pandas, integer names": lambda _, t: pandas_integers(t),
}
SPARK_LISTS: dict[str, Callable[[Path, Table], Any]] = {
    "spark, arrays": lambda _, t: _spark(arrow_list(t)),
}
SPARK_NUMBERED: dict[str, Callable[[Path, Table], Any]] = {
    "spark": lambda _, t: _spark(arrow_numbered(t)),
}


@dataclass(frozen=True)
class Container:
    """A writer, and what it writes: an array, an archive, lists or numbered columns."""

    holds: str
    write: Callable[[Path, Table], Any]

    def labels(self, table: Table) -> Any:
        """How the labels of a written table are named: a column where there is one."""
        return table.beside["y"] if self.holds == "array" else "y"


_KINDS = {
    "array": ((ARRAYS, False),),
    "archive": ((ARCHIVES, False),),
    "lists": ((LISTS, False), (SPARK_LISTS, True)),
    "numbered": ((NUMBERED, False), (SPARK_NUMBERED, True)),
    "integers": ((INTEGERS, False),),
}


def every(*kinds: str) -> list[Any]:
    """Parameters for `pytest.mark.parametrize`: the containers of these kinds, or all of them."""
    marks = (pytest.mark.slow, pytest.mark.filterwarnings("ignore"))
    return [
        pytest.param(Container(kind, write), id=name, marks=marks if slow else ())
        for kind in kinds or _KINDS
        for writers, slow in _KINDS[kind]
        for name, write in writers.items()
    ]


TABLES = ("lists", "numbered", "integers")
