"""Frozen data as a file: plain arrays and a description in JSON, nothing pickled.

Whatever a pass sums, a summary or several of them by name, can be kept so and read again.
"""

import dataclasses
import hashlib
import importlib
import io
import json
import os
import zipfile
import zlib
from typing import Any

import numpy as np

from tepid.errors import InputError
from tepid.replacing import replacing

FORMAT = 1
# What reading a damaged file raises.
DAMAGE = (
    ValueError, EOFError, OSError, KeyError, TypeError, AttributeError, NotImplementedError,
    IndexError, ImportError, zlib.error, zipfile.BadZipFile,
)  # fmt: skip


def save(value: Any, path: str | os.PathLike[str]) -> None:
    """Write dataclasses of tepid, mappings, tuples, arrays, numbers and text."""
    with replacing(path) as file:
        file.write(packed(value))


def load(path: str | os.PathLike[str], kind: type) -> Any:
    """What `save` wrote of this kind; refuses everything else by name."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # any path-like
            value = unpacked(file.read())
    except FileNotFoundError:
        raise
    except DAMAGE as error:
        raise InputError(
            f"{path} must be a file of {kind.__name__} saved by tepid, got another file ({error})"
        ) from None
    if not isinstance(value, kind):
        got = type(value).__name__
        raise InputError(f"{path} must hold {kind.__name__}, got {got}")
    return value


def packed(value: Any) -> bytes:
    """The bytes of a file; equal values give equal bytes."""
    arrays: list[Any] = []
    tree = {"format": FORMAT, "value": _described(value, arrays)}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        _put(archive, "tree.json", json.dumps(tree, sort_keys=True).encode())
        for number, array in enumerate(arrays):
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            _put(archive, f"{number}.npy", member.getvalue())
    return file.getvalue()


def digest(value: Any) -> str:
    """What tells two values apart, in thirty-two digits."""
    return hashlib.blake2b(packed(value), digest_size=16).hexdigest()


def unpacked(data: bytes) -> Any:
    """The value in a file; raises whatever a damaged one makes raise."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        tree = json.loads(archive.read("tree.json"))
        if tree["format"] != FORMAT:
            raise ValueError(f"format {tree['format']}, not {FORMAT}")
        return _built(tree["value"], archive)


def _put(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name), data)  # with no time of writing


def _described(value: Any, arrays: list[Any]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        arrays.append(np.asarray(value, order="C"))  # equal bytes for equal values
        return {"array": len(arrays) - 1, "scalar": isinstance(value, np.generic)}
    if isinstance(value, tuple):
        return {"tuple": [_described(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"mapping": [[key, _described(item, arrays)] for key, item in value.items()]}
    kind = type(value)
    if not dataclasses.is_dataclass(kind) or not kind.__module__.startswith("tepid."):
        raise TypeError(f"a {kind.__name__} is no record")
    fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(kind)}
    described = {name: _described(item, arrays) for name, item in fields.items()}
    return {"kind": f"{kind.__module__}:{kind.__qualname__}", "fields": described}


def _built(tree: Any, archive: zipfile.ZipFile) -> Any:
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        with archive.open(f"{tree['array']}.npy") as member:
            array = np.lib.format.read_array(member, allow_pickle=False)
        return array[()] if tree["scalar"] else array
    if "tuple" in tree:
        return tuple(_built(item, archive) for item in tree["tuple"])
    if "mapping" in tree:
        return {key: _built(item, archive) for key, item in tree["mapping"]}
    fields = {name: _built(item, archive) for name, item in tree["fields"].items()}
    return _kind(tree["kind"])(**fields)


def _kind(name: str) -> Any:
    """A dataclass of tepid by its name; nothing else is ever called."""
    module, _, qualified = name.partition(":")
    if not module.startswith("tepid.") or "." in qualified:
        raise ValueError(f"a {name} is no record")
    kind = getattr(importlib.import_module(module), qualified)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise ValueError(f"a {name} is no record")
    return kind
