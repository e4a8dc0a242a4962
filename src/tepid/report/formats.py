"""Which kind of picture a file is, by its content, and whether it is whole."""

import struct
import zlib

_PNG = b"\x89PNG\r\n\x1a\n"


def kind_of(content: bytes) -> str | None:
    """The kind of a picture as in `image/png`; None where it is none of these or was cut off.

    Of PNG every checksum is looked at. The others have none: they must begin as their kind does,
    and end where they say that they end.
    """
    for kind, is_whole in _KINDS.items():
        if is_whole(content):
            return kind
    return None


def _png(content: bytes) -> bool:
    if not content.startswith(_PNG):
        return False
    place = len(_PNG)
    while place + 12 <= len(content):
        (size,) = struct.unpack_from(">I", content, place)
        body = content[place + 4 : place + 8 + size]
        check = content[place + 8 + size : place + 12 + size]
        if len(check) < 4 or zlib.crc32(body) != int.from_bytes(check):
            return False
        if body == b"IEND":
            return True
        place += 12 + size
    return False


def _jpeg(content: bytes) -> bool:
    # Cameras leave padding behind the end.
    return content.startswith(b"\xff\xd8\xff") and content.rstrip(b"\0").endswith(b"\xff\xd9")


def _gif(content: bytes) -> bool:
    return content.startswith((b"GIF87a", b"GIF89a")) and content.rstrip(b"\0").endswith(b";")


def _webp(content: bytes) -> bool:
    if len(content) < 16 or content[:4] + content[8:12] != b"RIFFWEBP":
        return False
    return len(content) >= 8 + int.from_bytes(content[4:8], "little")


def _bmp(content: bytes) -> bool:
    return content.startswith(b"BM") and len(content) >= max(
        26, int.from_bytes(content[2:6], "little")
    )


_KINDS = {"png": _png, "jpeg": _jpeg, "gif": _gif, "webp": _webp, "bmp": _bmp}
