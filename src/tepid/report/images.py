"""Images of the example rows, as data URIs inside the page."""

import base64
import os
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tepid.errors import InputError
from tepid.sources import array_files, paths
from tepid.validation import Array, Int64

_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")
# Two dozen files of this size leave the page below 3 MB.
_MOST_BYTES = 64 << 10
_MOST_PIXELS = 96
_PNG = b"\x89PNG\r\n\x1a\n"


class Image(NamedTuple):
    """A data URI, empty if the file cannot be shown, and a name."""

    uri: str
    name: str


@dataclass(frozen=True)
class Images:
    """One image for each of `count` rows, or for the rows `among` only."""

    of: Callable[[int], Image]
    count: int | None = None
    among: Int64 | None = None

    def check(self, rows: int) -> None:
        """Raise if the images do not belong to this number of rows."""
        if self.count is not None and self.count != rows:
            raise InputError(f"images must be one for each of the {rows} rows, got {self.count}")
        if self.among is not None and self.among.max(initial=-1) >= rows:
            raise InputError(
                f"images must be of rows in 0..{rows - 1}, got one of row {self.among.max()}"
            )


def open_images(images: Any) -> Images:
    """Images from an array (n, h, w[, 3]) of uint8, a mapping by row, a file or a folder.

    A file is `.npy` or `.npz`; an archive may hold `image_rows` beside `images`, the row numbers of
    the images. The image files of a folder belong to the rows in the order of their names.
    """
    if isinstance(images, Mapping):
        return _by_row([int(row) for row in images], list(images.values()))
    if not isinstance(images, (str, os.PathLike)):
        return _in_order(read_pixels(images))
    file, member = paths.split_member(images)
    path = Path(file)
    if path.is_dir():
        return _in_folder(path)
    array = read_pixels(images)
    if path.suffix.lower() == ".npz" and not member and _has_rows(path):
        rows = array_files.read_array(f"{path}#image_rows", "image_rows", "images")
        return _by_row([int(row) for row in rows.reshape(-1)], array)
    return _in_order(array)


def _has_rows(path: Path) -> bool:
    with np.load(path, allow_pickle=False) as archive:
        return "image_rows" in archive.files


def read_pixels(images: Any) -> Array:
    """Images (n, h, w[, 3]) of uint8, from an array or from a `.npy` or `.npz` file."""
    if isinstance(images, (str, os.PathLike)):
        return _check_pixels(array_files.read_array(images, "images", "images"))
    return _check_pixels(np.asarray(images))


def _check_pixels(array: Array | None) -> Array:
    if array is None or array.dtype != np.uint8 or array.ndim not in (3, 4):
        got = "a table" if array is None else f"{array.dtype} of shape {array.shape}"
        raise InputError(f"images must be uint8 (n, h, w) or (n, h, w, 3), got {got}")
    if array.ndim == 4 and array.shape[3] not in (1, 3):
        raise InputError(f"images must have 1 or 3 colors, got {array.shape[3]}")
    if 0 in array.shape[1:]:
        raise InputError(f"images must have pixels, got shape {array.shape}")
    return array


def _in_order(array: Array) -> Images:
    return Images(lambda row: _from_pixels(array[row], row), len(array))


def _by_row(rows: list[int], images: Sequence[Any] | Array) -> Images:
    if len(rows) != len(images) or min(rows, default=0) < 0:
        raise InputError(
            f"images must have one row from 0 on for each of {len(images)}, got {rows[:5]}"
        )
    pixels = {
        row: _check_pixels(np.asarray(image)[None])[0]
        for row, image in zip(rows, images, strict=True)
    }
    among = np.array(sorted(pixels), np.int64)
    return Images(lambda row: _from_pixels(pixels[row], row), among=among)


def _from_pixels(pixels: Array, row: int) -> Image:
    return Image(_data_uri("png", encode_png(shrink(pixels))), f"row {row}")


def _in_folder(folder: Path) -> Images:
    files = sorted(p for p in folder.iterdir() if p.suffix.lower() in _SUFFIXES and p.is_file())
    if not files:
        raise InputError(f"images must be a folder with {', '.join(_SUFFIXES)} files, got {folder}")

    def of(row: int) -> Image:
        path = files[row]
        if path.stat().st_size > _MOST_BYTES:
            return Image("", f"{path.name}, too large to be shown here")
        content = path.read_bytes()
        kind = detect_format(content)
        if kind is None:
            return Image("", f"{path.name}, damaged or no picture, and not shown")
        return Image(_data_uri(kind, content), path.name)

    return Images(of, len(files))


def _data_uri(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


# PNG files from pixels.


def encode_png(image: Array) -> bytes:
    """A PNG of uint8 pixels: grayscale (h, w) or (h, w, 1), or RGB (h, w, 3)."""
    h, w = image.shape[:2]
    color = 2 if image.shape[2:] == (3,) else 0
    unfiltered = np.insert(image.reshape(h, -1), 0, 0, axis=1)
    header = struct.pack(">IIBBBBB", w, h, 8, color, 0, 0, 0)
    pixels = zlib.compress(unfiltered.tobytes(), 9)
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    return _PNG + b"".join(_png_chunk(*chunk) for chunk in chunks)


def _png_chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def shrink(image: Array) -> Array:
    """The image with squares of pixels averaged, so that no side is longer than 96."""
    factor = -(-max(image.shape[:2]) // _MOST_PIXELS)
    mean = image.astype(np.float64)
    for axis in (0, 1):
        starts = np.arange(0, image.shape[axis], factor)
        widths = np.diff(np.append(starts, image.shape[axis]))
        shape = [-1 if a == axis else 1 for a in range(image.ndim)]
        mean = np.add.reduceat(mean, starts, axis=axis) / widths.reshape(shape)
    return np.rint(mean).astype(np.uint8)


# Image files: the format by content, and whether the file is complete.


def detect_format(content: bytes) -> str | None:
    """The format as in `image/png`, or None if it is not supported or the file is incomplete.

    Of PNG every checksum is verified. The other formats have none: the start and the end or length
    of the file are checked.
    """
    size, start, end = len(content), content[:12], content.rstrip(b"\0")  # cameras pad with zeros
    riff, bmp = int.from_bytes(start[4:8], "little"), int.from_bytes(start[2:6], "little")
    complete = {
        "png": _is_png(content),
        "jpeg": start.startswith(b"\xff\xd8\xff") and end.endswith(b"\xff\xd9"),
        "gif": start.startswith((b"GIF87a", b"GIF89a")) and end.endswith(b";"),
        "webp": start[:4] + start[8:] == b"RIFFWEBP" and size >= max(16, 8 + riff),
        "bmp": start.startswith(b"BM") and size >= max(26, bmp),
    }
    return next((kind for kind, whole in complete.items() if whole), None)


def _is_png(content: bytes) -> bool:
    if not content.startswith(_PNG):
        return False
    position = len(_PNG)
    while position + 12 <= len(content):
        (size,) = struct.unpack_from(">I", content, position)
        body = content[position + 4 : position + 8 + size]
        checksum = content[position + 8 + size : position + 12 + size]
        if len(checksum) < 4 or zlib.crc32(body) != int.from_bytes(checksum):
            return False
        if body == b"IEND":
            return True
        position += 12 + size
    return False
