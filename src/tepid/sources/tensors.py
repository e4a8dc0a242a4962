"""Tensors in files: `.pt` of PyTorch, weights alone, and `.safetensors`."""

import contextlib
import json
import math
import struct
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from tepid import shapes
from tepid.errors import InputError
from tepid.sources import places, remote, streams
from tepid.sources.extras import needed
from tepid.sources.stored import File, member

_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
    "I16": "<i2", "I8": "|i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
_LONGEST_HEADER = 100 << 20


def open_pt(place: str, fragment: str, wanted: str) -> File:
    """A tensor that `torch.save` wrote, alone or in a dict; what is no tensor is refused."""
    name = places.base(place)
    content = _torch_load(place, name)
    if hasattr(content, "items"):
        tensors = _tensors(content)
        content = tensors[member(name, fragment, wanted, list(tensors))]
    elif fragment:
        raise InputError(f"{name} must be a dict to have a member, got #{fragment} of a tensor")
    if not hasattr(content, "detach"):
        raise InputError(f"{name} must hold tensors, got {type(content).__name__}")
    return File(name, _as_array(content))


def pt_members(place: str) -> list[str]:
    """The names of the tensors in a dict; a tensor alone has none."""
    content = _torch_load(place, places.base(place))
    return list(_tensors(content)) if hasattr(content, "items") else []


def _tensors(content: Any) -> dict[str, Any]:
    return {str(key): value for key, value in content.items() if hasattr(value, "detach")}


def _torch_load(place: str, name: str) -> Any:
    torch = needed("torch", "torch")
    try:
        with streams.seekable(place) as file:
            return torch.load(file, map_location="cpu", weights_only=True)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever a file that is none makes it say
        if "weights" in str(error).lower():
            raise InputError(f"{name} must hold tensors alone, got pickled objects") from None
        raise InputError(f"{name} must be a whole .pt file, got a damaged one ({error})") from None


def _as_array(tensor: Any) -> Any:
    tensor = tensor.detach()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def open_safetensors(place: str, fragment: str, wanted: str) -> File:
    """A tensor of a safetensors file, memory-mapped where the file is here."""
    name = places.base(place)
    with _whole(name):
        entries, start = _header(place)
        chosen = entries[member(name, fragment, wanted, list(entries))]
        array = _tensor(place, chosen, start)
    if chosen["dtype"] != "BF16":
        return File(name, array)
    return File(
        name, read=partial(_widened_slices, array), shape=array.shape, dtype=np.dtype("f4"),
        whole=partial(_widened, array),
    )  # fmt: skip


def safetensors_members(place: str) -> list[str]:
    """The names of the tensors."""
    with _whole(places.base(place)):
        return list(_header(place)[0])


def _header(place: str) -> tuple[dict[str, Any], int]:
    """The tensors' descriptions, and where their bytes begin: after a length and so much JSON."""
    with streams.opened(place) as file:
        (size,) = struct.unpack("<Q", streams.exactly(file, 8))
        if size > _LONGEST_HEADER:
            raise ValueError(f"a header of {size} bytes")
        entries = json.loads(streams.exactly(file, size))
    entries.pop("__metadata__", None)
    return entries, 8 + size


def _tensor(place: str, entry: dict[str, Any], start: int) -> Any:
    if entry["dtype"] not in _TYPES:
        raise ValueError(f"the type {entry['dtype']}")
    dtype, shape = np.dtype(_TYPES[entry["dtype"]]), tuple(entry["shape"])
    begin, end = entry["data_offsets"]
    if end - begin != dtype.itemsize * math.prod(shape):
        raise ValueError(f"{end - begin} bytes for the shape {shape}")
    if not remote.is_url(place) and end > begin:
        return np.memmap(place, dtype, "r", start + begin, shape)
    with streams.seekable(place) as file:
        file.seek(start + begin)
        return np.frombuffer(streams.exactly(file, end - begin), dtype).reshape(shape)


def _widened_slices(halves: Any, rows: int) -> Iterator[Any]:
    for part in shapes.slices(halves, rows):
        yield _widened(part)


def _widened(halves: Any) -> Any:
    """bfloat16 is the upper half of float32."""
    return (halves.astype("<u4") << 16).view("<f4")


@contextlib.contextmanager
def _whole(name: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (*streams.DAMAGE, TypeError, struct.error) as error:
        said = f"{name} must be a whole .safetensors file, got a damaged one ({error})"
        raise InputError(said) from None
