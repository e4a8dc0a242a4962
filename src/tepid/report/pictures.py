"""Pictures of the rows that a report shows, as data that stands in the page itself."""

import base64
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tepid.arrays import Array, Int64
from tepid.errors import InputError
from tepid.report import formats, png
from tepid.sources import array_files, paths

_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")
# Two dozen files of this size leave the page below 3 MB.
_MOST_BYTES = 64 << 10


@dataclass(frozen=True)
class Picture:
    """What to show of a row: a data URI, empty where the file cannot be shown, and a name."""

    uri: str
    name: str


@dataclass(frozen=True)
class Pictures:
    """One picture for each of `count` rows, or for the rows `among` alone."""

    of: Callable[[int], Picture]
    count: int | None = None
    among: Int64 | None = None

    def check(self, rows: int) -> None:
        """Refuse pictures that do not belong to so many rows."""
        if self.count is not None and self.count != rows:
            raise InputError(f"images must be one for each of the {rows} rows, got {self.count}")
        if self.among is not None and self.among.max(initial=-1) >= rows:
            raise InputError(
                f"images must be of rows in 0..{rows - 1}, got one of row {self.among.max()}"
            )


def open_pictures(images: Any) -> Pictures:
    """Pictures from an array (n, h, w[, 3]) of uint8, a mapping by row, a file or a folder.

    A file is `.npy` or `.npz`; beside `images` an archive may hold `image_rows`, the rows that they
    belong to. A folder's picture files belong to the rows in the order of their names.
    """
    if isinstance(images, Mapping):
        return _by_row([int(row) for row in images], list(images.values()))
    if not isinstance(images, (str, os.PathLike)):
        return _in_order(pixels(images))
    file, member = paths.split_member(images)
    path = Path(file)
    if path.is_dir():
        return _in_folder(path)
    array = pixels(images)
    if path.suffix.lower() == ".npz" and not member and _has_rows(path):
        rows = array_files.read_array(f"{path}#image_rows", "image_rows", "images")
        return _by_row([int(row) for row in rows.reshape(-1)], array)
    return _in_order(array)


def pixels(images: Any) -> Array:
    """Images (n, h, w[, 3]) of uint8, from an array or from a `.npy` or `.npz` file."""
    if isinstance(images, (str, os.PathLike)):
        return _pixels(array_files.read_array(images, "images", "images"))
    return _pixels(np.asarray(images))


def _has_rows(path: Path) -> bool:
    with np.load(path, allow_pickle=False) as archive:
        return "image_rows" in archive.files


def _pixels(array: Array | None) -> Array:
    if array is None or array.dtype != np.uint8 or array.ndim not in (3, 4):
        got = "a table" if array is None else f"{array.dtype} of shape {array.shape}"
        raise InputError(f"images must be uint8 (n, h, w) or (n, h, w, 3), got {got}")
    if array.ndim == 4 and array.shape[3] not in (1, 3):
        raise InputError(f"images must have 1 or 3 colours, got {array.shape[3]}")
    if 0 in array.shape[1:]:
        raise InputError(f"images must have pixels, got shape {array.shape}")
    return array


def _in_order(array: Array) -> Pictures:
    return Pictures(lambda row: _drawn(array[row], row), len(array))


def _by_row(rows: list[int], images: Any) -> Pictures:
    if len(rows) != len(images) or min(rows, default=0) < 0:
        raise InputError(
            f"images must have one row from 0 on for each of {len(images)}, got {rows[:5]}"
        )
    here = {
        row: _pixels(np.asarray(image)[None])[0] for row, image in zip(rows, images, strict=True)
    }
    return Pictures(lambda row: _drawn(here[row], row), among=np.array(sorted(here), np.int64))


def _drawn(image: Array, row: int) -> Picture:
    return Picture(_uri("png", png.encoded(png.smaller(image))), f"row {row}")


def _in_folder(folder: Path) -> Pictures:
    paths = sorted(p for p in folder.iterdir() if p.suffix.lower() in _ENDINGS and p.is_file())
    if not paths:
        raise InputError(f"images must be a folder with {', '.join(_ENDINGS)} files, got {folder}")

    def of(row: int) -> Picture:
        path = paths[row]
        if path.stat().st_size > _MOST_BYTES:
            return Picture("", f"{path.name}, too large to be shown here")
        content = path.read_bytes()
        kind = formats.kind_of(content)
        if kind is None:
            return Picture("", f"{path.name}, damaged or no picture, and not shown")
        return Picture(_uri(kind, content), path.name)

    return Pictures(of, len(paths))


def _uri(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
