"""Logits and labels written in every format that is read."""

import csv
from pathlib import Path

import numpy as np

from tests import containers
from tests.needs import needed


def _write_stream(path, rows):
    pa = needed("pyarrow")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=70)
    return path


_WRITERS = {
    "parquet": lambda path, t: containers.write_parquet(path, containers.arrow_list(t), 60),
    "columns.parquet": lambda path, t: containers.write_parquet(
        path, containers.arrow_numbered(t), 60
    ),
    "fixed.parquet": lambda path, t: containers.write_parquet(
        path, containers.arrow_list(t, fixed=True), 60
    ),
    "arrow": lambda path, t: containers.write_ipc(path, containers.arrow_list(t)),
    "stream.arrow": lambda path, t: _write_stream(path, containers.arrow_list(t)),
    "feather": lambda path, t: containers.write_feather(path, containers.arrow_list(t)),
    **dict.fromkeys(("csv", "csv.gz", "csv.bz2", "csv.xz", "csv.zst"), containers.write_csv),
    "npy": lambda path, t: containers.write_npy(path, t.logits),
    "npz": containers.write_npz,
    "h5": containers.write_hdf5,
    "zarr": containers.write_zarr,
    "safetensors": containers.write_safetensors,
    "pt": containers.write_pt,
}
EVERY = tuple(_WRITERS)
ARRAYS = ("npy", "npz", "h5", "zarr", "safetensors", "pt")


def write(path, logits, labels=None, **columns):
    """Write a file in the format that its name ends in; labels and columns if it can hold them.

    A table has the columns `label`, and `logits` (lists) or `z0`, `z1`, … (`columns.parquet` and
    CSV). An archive has the members `logits` and `labels`.
    """
    kind = path.name.partition(".")[2]
    beside = {} if labels is None else {label_name(kind): labels}
    names = () if kind in ARRAYS else tuple(f"z{k}" for k in range(logits.shape[1]))
    table = containers.Table(np.ascontiguousarray(logits), beside | columns, names)
    return _WRITERS[kind](path, table)


def label_name(kind):
    """The column or member that holds the labels."""
    return "labels" if kind in ARRAYS else "label"


def fill_in(path, labels):
    """Write the labels of its rows into the table that `tepid ask` wrote."""
    with Path(path).open(newline="") as file:
        rows = list(csv.DictReader(file))
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(row | {"label": labels[int(row["id"])]} for row in rows)
