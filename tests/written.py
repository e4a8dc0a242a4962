"""Logits and labels written in every format that is read."""

import bz2
import gzip
import lzma

import numpy as np
import pytest

TABLES = ("parquet", "columns.parquet", "fixed.parquet", "arrow", "stream.arrow", "feather")
TEXTS = ("csv", "csv.gz", "csv.bz2", "csv.xz", "csv.zst")
ARRAYS = ("npy", "npz", "h5", "zarr", "safetensors", "pt")
EVERY = (*TABLES, *TEXTS, *ARRAYS)


def write(path, logits, labels=None, **columns):
    """Write a file whose format its name says; labels and other columns where it can hold them."""
    kind = path.name.partition(".")[2]
    if kind in TABLES:
        _table(path, kind, logits, labels, columns)
    elif kind in TEXTS:
        _text(path, kind, logits, labels, columns)
    else:
        _array(path, kind, logits, labels)
    return path


def table(logits, labels=None, form="list", **columns):
    """A table of Arrow: logits as lists, as lists of one length, or as a column for each class."""
    pa = pytest.importorskip("pyarrow", reason="these files need pyarrow")
    if form == "columns":
        made = {f"z{k}": pa.array(column) for k, column in enumerate(np.asarray(logits).T)}
    elif form == "fixed":
        flat = pa.array(np.ascontiguousarray(logits).reshape(-1))
        made = {"logits": pa.FixedSizeListArray.from_arrays(flat, logits.shape[1])}
    else:
        flat = pa.array(np.ascontiguousarray(logits).reshape(-1))
        ends = np.arange(0, logits.size + 1, logits.shape[1], dtype=np.int32)
        made = {"logits": pa.ListArray.from_arrays(ends, flat)}
    if labels is not None:
        made["label"] = pa.array(labels)
    return pa.table(made | {name: pa.array(column) for name, column in columns.items()})


def _table(path, kind, logits, labels, columns):
    pa = pytest.importorskip("pyarrow", reason="these files need pyarrow")
    form = {"columns.parquet": "columns", "fixed.parquet": "fixed"}.get(kind, "list")
    rows = table(logits, labels, form, **columns)
    if kind == "feather":
        pytest.importorskip("pyarrow.feather").write_feather(rows, str(path), chunksize=50)
    elif kind == "arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=70)
    elif kind == "stream.arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=70)
    else:
        pytest.importorskip("pyarrow.parquet").write_table(rows, str(path), row_group_size=60)


def text(logits, labels=None, **columns):
    """A table of text with a header."""
    names = [f"z{k}" for k in range(np.asarray(logits).shape[1])]
    beside = ([("label", labels)] if labels is not None else []) + list(columns.items())
    lines = [",".join([*names, *(name for name, _ in beside)])]
    for row, z in enumerate(np.asarray(logits).tolist()):
        lines.append(",".join([*map(repr, z), *(str(column[row]) for _, column in beside)]))
    return ("\n".join(lines) + "\n").encode()


def _text(path, kind, logits, labels, columns):
    plain = text(logits, labels, **columns)
    if kind == "csv.zst":
        pa = pytest.importorskip("pyarrow", reason="zstandard is decompressed by pyarrow")
        with pa.CompressedOutputStream(str(path), "zstd") as out:
            out.write(plain)
        return
    compress = {"csv": bytes, "csv.gz": gzip.compress, "csv.bz2": bz2.compress,
                "csv.xz": lzma.compress}[kind]  # fmt: skip
    path.write_bytes(compress(plain))


def _array(path, kind, logits, labels):
    both = {"logits": logits} if labels is None else {"logits": logits, "labels": labels}
    if kind == "npy":
        np.save(path, logits)
    elif kind == "npz":
        np.savez(path, **both)
    elif kind == "h5":
        _hdf5(path, both)
    elif kind == "zarr":
        _zarr(path, both)
    elif kind == "safetensors":
        safetensors = pytest.importorskip("safetensors.numpy", reason="it writes these files")
        safetensors.save_file({k: np.ascontiguousarray(v) for k, v in both.items()}, path)
    else:
        torch = pytest.importorskip("torch", reason="it writes these files")
        torch.save({name: torch.as_tensor(np.array(v)) for name, v in both.items()}, path)


def _hdf5(path, arrays):
    h5py = pytest.importorskip("h5py", reason="it writes these files")
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, chunks=(min(40, len(array)), *array.shape[1:]))


def _zarr(path, arrays):
    zarr = pytest.importorskip("zarr", reason="it writes these files")
    group = zarr.open_group(str(path), mode="w")
    for name, array in arrays.items():
        group.create_array(name, data=array, chunks=(40, *array.shape[1:]))
