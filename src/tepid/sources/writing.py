"""Blocks of rows written to a file that appears whole or not at all."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from tepid.arrays import InputError


def write_blocks(path: str | os.PathLike[str], blocks: Iterator[Any]) -> int:
    """Write blocks to `.npy`, `.npz` or `.csv` under a temporary name, then rename; count rows."""
    target = Path(path)
    writers: dict[str, Callable[[IO[bytes], Iterator[Any]], int]] = {
        ".npy": _write_npy,
        ".npz": _write_npz,
        ".csv": _write_csv,
    }
    if target.suffix.lower() not in writers:
        raise InputError(f"output must end in .npy, .npz or .csv, got {target.name}")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            rows = writers[target.suffix.lower()](file, blocks)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return rows


def _write_npy(file: IO[bytes], blocks: Iterator[Any]) -> int:
    # NumPy pads a header so that it can be rewritten in place once the number of rows is known.
    rows = 0
    header: dict[str, Any] = {}
    for block in blocks:
        if not rows:
            descr = np.lib.format.dtype_to_descr(block.dtype)
            header = {"descr": descr, "fortran_order": False, "shape": (0, *block.shape[1:])}
            np.lib.format.write_array_header_1_0(file, header)
        file.write(np.ascontiguousarray(block).data)
        rows += len(block)
    file.seek(0)
    np.lib.format.write_array_header_1_0(file, header | {"shape": (rows, *header["shape"][1:])})
    return rows


def _write_npz(file: IO[bytes], blocks: Iterator[Any]) -> int:
    whole = np.concatenate(list(blocks))
    np.savez(file, probabilities=whole)
    return len(whole)


def _write_csv(file: IO[bytes], blocks: Iterator[Any]) -> int:
    rows = 0
    for block in blocks:
        np.savetxt(file, block, fmt="%.9g", delimiter=",")
        rows += len(block)
    return rows
