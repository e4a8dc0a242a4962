"""Blocks of rows written to a file that appears whole or not at all."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from tepid.errors import InputError
from tepid.replacing import replacing


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
    with replacing(target) as file:
        rows = writers[target.suffix.lower()](file, (b for b in blocks if len(b)))
        if not rows:
            raise InputError("output must have at least one row, got none")
    return rows


def _write_npy(file: IO[bytes], blocks: Iterator[Any]) -> int:
    # NumPy pads a header so that it can be rewritten in place once the number of rows is known.
    rows = 0
    for block in blocks:
        if not rows:
            _write_header(file, block, 0)
        file.write(np.ascontiguousarray(block).data)
        rows += len(block)
    if rows:
        file.seek(0)
        _write_header(file, block, rows)
    return rows


def _write_header(file: IO[bytes], block: Any, rows: int) -> None:
    descr = np.lib.format.dtype_to_descr(block.dtype)
    header = {"descr": descr, "fortran_order": False, "shape": (rows, *block.shape[1:])}
    np.lib.format.write_array_header_1_0(file, header)


def _write_npz(file: IO[bytes], blocks: Iterator[Any]) -> int:
    parts = list(blocks)
    if parts:
        np.savez(file, probabilities=np.concatenate(parts))
    return sum(len(part) for part in parts)


def _write_csv(file: IO[bytes], blocks: Iterator[Any]) -> int:
    rows = 0
    for block in blocks:
        if block.ndim != 2:
            raise InputError("output must be .npy or .npz for more than two dimensions, got .csv")
        np.savetxt(file, block, fmt="%.9g", delimiter=",")
        rows += len(block)
    return rows
