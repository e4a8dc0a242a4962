"""PNG files from arrays of pixels."""

import struct
import zlib

import numpy as np

from tepid.arrays import Array

_MOST_PIXELS = 96


def encoded(image: Array) -> bytes:
    """A PNG of uint8 pixels, (h, w) or (h, w, 1) in grey and (h, w, 3) in red, green and blue."""
    h, w = image.shape[:2]
    colour = 2 if image.shape[2:] == (3,) else 0
    unfiltered = np.insert(image.reshape(h, -1), 0, 0, axis=1)
    header = struct.pack(">IIBBBBB", w, h, 8, colour, 0, 0, 0)
    pixels = zlib.compress(unfiltered.tobytes(), 9)
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


def smaller(image: Array) -> Array:
    """The image with squares of pixels averaged, so that no side is longer than 96."""
    factor = -(-max(image.shape[:2]) // _MOST_PIXELS)
    mean = image.astype(np.float64)
    for axis in (0, 1):
        starts = np.arange(0, image.shape[axis], factor)
        widths = np.diff(np.append(starts, image.shape[axis]))
        shape = [-1 if a == axis else 1 for a in range(image.ndim)]
        mean = np.add.reduceat(mean, starts, axis=axis) / widths.reshape(shape)
    return np.rint(mean).astype(np.uint8)
