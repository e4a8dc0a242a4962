"""Structs of Thrift's compact protocol, in which Parquet writes what precedes a page."""

from typing import Any

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 7, 8, 12
_WHOLE = (4, 5, 6)


def struct(data: bytes, at: int = 0) -> tuple[dict[int, Any], int]:
    """The fields of a struct by number, and where it ends.

    Raises ValueError for kinds that no such struct of Parquet's has, IndexError where bytes end.
    """
    fields: dict[int, Any] = {}
    number = 0
    while data[at]:
        step, kind = divmod(data[at], 16)
        at += 1
        if step:
            number += step
        else:
            number, at = _whole(data, at)
        fields[number], at = _value(data, at, kind)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind in _WHOLE:
        return _whole(data, at)
    if kind == _STRUCT:
        return struct(data, at)
    if kind == _BINARY:
        size, at = _varint(data, at)
        return data[at : at + size], at + size
    if kind in (_BYTE, _DOUBLE):
        size = 1 if kind == _BYTE else 8
        return data[at : at + size], at + size
    raise ValueError(f"a field of kind {kind}")


def _whole(data: bytes, at: int) -> tuple[int, int]:
    """A whole number, its sign in its lowest bit."""
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1
