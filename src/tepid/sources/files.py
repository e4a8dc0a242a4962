"""Arrays in files: `.npy` memory-mapped, `.npz` by member, `.csv` block by block.

A member of an archive is named `file.npz#member`. Nothing is ever unpickled.
"""

import io
import mmap
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tepid.arrays import InputError, RowError

# Pages of a memory map that were read are handed back after this many bytes, so that a file
# larger than memory is never resident as a whole.
_RESIDENT = 16 << 20


@dataclass(frozen=True)
class File:
    """An array that is there as a whole, or one that is read block by block."""

    array: Any
    read: Callable[[int], Iterator[Any]]

    def whole(self) -> Any:
        """All of it."""
        if self.array is not None:
            return self.array
        blocks = list(self.read(1 << 16))
        return np.concatenate(blocks) if blocks else np.zeros(0)


def open_array(path: str | os.PathLike[str], member: str, what: str) -> File:
    """The array in a file; `member` is what is looked for where the path does not name one."""
    text = os.fspath(path)
    file, fragment = Path(text), ""
    if "#" in text and not file.exists():
        name, _, fragment = text.rpartition("#")
        file = Path(name)
    if not file.is_file():
        raise InputError(f"{what} must exist, got {file}")
    suffix = file.suffix.lower()
    openers = {".npy": _open_npy, ".npz": _open_npz, ".csv": _open_csv}
    if suffix not in openers:
        raise InputError(f"{what} must end in .npy, .npz or .csv, got {file.name}")
    return openers[suffix](file, fragment, member)


def _open_npy(file: Path, fragment: str, member: str) -> File:  # noqa: ARG001  # one signature
    if fragment:
        raise InputError(f"{file.name} must be a .npz archive to have a member, got #{fragment}")
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{file.name} must be a whole .npy array, got {_reason(error)}") from None
    return _held(array)


def _open_npz(file: Path, fragment: str, member: str) -> File:
    try:
        with np.load(file, allow_pickle=False) as archive:
            name = _member(file, fragment, member, archive.files)
            array = archive[name]
    except InputError:
        raise
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{file.name} must be a whole .npz archive, got {_reason(error)}"
        ) from None
    return _held(array)


def _member(file: Path, fragment: str, member: str, members: list[str]) -> str:
    wanted = fragment or member
    if wanted in members:
        return wanted
    if not fragment and len(members) == 1:
        return members[0]
    raise InputError(
        f"{file.name} must have a member {wanted!r}, got {', '.join(members) or 'none'}"
    )


def _held(array: Any) -> File:
    return File(array, lambda _: iter(()))


def _reason(error: Exception) -> str:
    if "pickle" in str(error).lower() or "object" in str(error).lower():
        return "pickled objects"
    return f"a damaged file ({error})"


def releasing(array: Any, read: Callable[[int], Iterator[Any]]) -> Callable[[int], Iterator[Any]]:
    """Read a memory map, handing its pages back behind the reader."""
    mapped = getattr(array, "_mmap", None)
    if mapped is None or not hasattr(mapped, "madvise"):
        return read

    def reading(rows: int) -> Iterator[Any]:
        seen = 0
        for block in read(rows):
            yield block
            seen += block.nbytes
            if seen >= _RESIDENT:
                mapped.madvise(mmap.MADV_DONTNEED)
                seen = 0
        mapped.madvise(mmap.MADV_DONTNEED)

    return reading


def _open_csv(file: Path, fragment: str, member: str) -> File:
    with file.open(encoding="utf-8-sig") as lines:
        first = lines.readline()
    delimiter = next((d for d in ",;\t" if d in first), ",")
    names = [cell.strip().strip('"') for cell in first.strip().split(delimiter)]
    header = not all(_is_number(cell) for cell in names)
    columns = _columns(file, fragment, member, names if header else [])

    def read(rows: int) -> Iterator[Any]:
        with file.open(encoding="utf-8-sig") as lines:
            if header:
                lines.readline()
            start = 0
            while True:
                block = _parse(file, lines, delimiter, columns, rows, start)
                if not len(block):
                    return
                yield block
                start += len(block)

    return File(None, read)


def _columns(file: Path, fragment: str, member: str, names: list[str]) -> list[int] | None:
    lowered = [name.lower() for name in names]
    if fragment:
        if fragment not in names:
            raise InputError(f"{file.name} must have a column {fragment!r}, got {names}")
        return [names.index(fragment)]
    labels = [i for i, name in enumerate(lowered) if name in ("label", "labels")]
    if member == "labels":
        return labels or None
    return [i for i in range(len(names)) if i not in labels] if labels else None


def _parse(
    file: Path, lines: Any, delimiter: str, columns: list[int] | None, rows: int, start: int
) -> Any:
    text = [line for _, line in zip(range(rows), lines, strict=False) if line.strip()]
    if not text:
        return np.empty((0, 0))
    try:
        return np.loadtxt(
            io.StringIO("".join(text)), np.float64, delimiter=delimiter, usecols=columns, ndmin=2,
            comments=None,
        )  # fmt: skip
    except ValueError as error:
        raise _bad_cell(file, text, delimiter, columns, start, error) from None


def _bad_cell(
    file: Path, text: list[str], delimiter: str, columns: list[int] | None, start: int, error: Any
) -> InputError:
    width = len(text[0].split(delimiter))
    for row, line in enumerate(text):
        cells = line.strip().split(delimiter)
        if len(cells) != width:
            got = f"{len(cells)} cells"
            return RowError(file.name, f"have {width} cells in every row", got, start + row)
        for i in columns if columns is not None else range(width):
            if not _is_number(cells[i]):
                return RowError(file.name, "hold numbers", repr(cells[i].strip()), start + row)
    return InputError(f"{file.name} must be a table of numbers, got {error}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
