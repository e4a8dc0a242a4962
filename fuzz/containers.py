"""Files taken apart into members and put together again, so that mutations pass the checksums."""

import gzip
import io
import random
import struct
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

from fuzz.mutation import mutate_bytes, mutate_json, mutate_text

Members = dict[str, bytes]


class Container(NamedTuple):
    """How a file is taken apart and put together again; the rest of the file is its lengths."""

    split: Callable[[bytes], Members]
    join: Callable[[Members], bytes]


def split_zip(content: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def join_zip(members: Members) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name or "_"), data)
    return file.getvalue()


def split_npy(content: bytes) -> Members:
    (length,) = struct.unpack("<H", content[8:10])
    return {"header": content[10 : 10 + length], "data": content[10 + length :]}


def join_npy(members: Members) -> bytes:
    header = members.get("header", b"")[:65535]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + members.get("data", b"")


def split_safetensors(content: bytes) -> Members:
    (length,) = struct.unpack("<Q", content[:8])
    return {"header.json": content[8 : 8 + length], "data": content[8 + length :]}


def join_safetensors(members: Members) -> bytes:
    header = members.get("header.json", b"")
    return struct.pack("<Q", len(header)) + header + members.get("data", b"")


def split_parquet(content: bytes) -> Members:
    (length,) = struct.unpack("<I", content[-8:-4])
    return {"data": content[: -8 - length], "footer": content[-8 - length : -8]}


def join_parquet(members: Members) -> bytes:
    footer = members.get("footer", b"")
    return members.get("data", b"") + footer + struct.pack("<I", len(footer)) + b"PAR1"


ZIP = Container(split_zip, join_zip)
NPY = Container(split_npy, join_npy)
SAFETENSORS = Container(split_safetensors, join_safetensors)
PARQUET = Container(split_parquet, join_parquet)
GZIP = Container(
    lambda content: {"text": gzip.decompress(content)},
    lambda members: gzip.compress(members.get("text", b""), 1, mtime=0),
)


def mutate_members(rng: random.Random, content: bytes, other: bytes, container: Container) -> bytes:
    """Change one member, or which members there are."""
    members, others = container.split(content), container.split(other)
    name = rng.choice(list(members))
    if rng.random() < 0.1:
        if rng.random() < 0.5:
            del members[name]
        else:
            members[rng.choice(list(others))] = members[name]
    else:
        donor = others.get(name) or rng.choice(list(others.values()))
        members[name] = _mutate(rng, name, members[name], donor)
    return container.join(members)


def _mutate(rng: random.Random, name: str, content: bytes, other: bytes) -> bytes:
    if name.endswith(".json"):
        change = mutate_json if rng.random() < 0.7 else mutate_text
        return change(rng, content, other)
    if content.startswith(b"\x93NUMPY") and rng.random() < 0.5:
        inner = split_npy(content)
        return join_npy(inner | {"header": mutate_text(rng, inner["header"], inner["header"])})
    if name in ("header", "text"):
        return mutate_text(rng, content, other)
    return mutate_bytes(rng, content, other)


# ONNX ---------------------------------------------------------------------------------------------


def mutate_protobuf(rng: random.Random, content: bytes, other: bytes) -> bytes:
    """Change fields of an ONNX model, which keeps it a valid protobuf."""
    import onnx

    if rng.random() < 0.25:
        return mutate_bytes(rng, content, other)
    model = onnx.load_from_string(content)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change_message(rng, model)
    return model.SerializeToString()


def _change_message(rng: random.Random, message: Any) -> None:
    fields = message.ListFields()
    if not fields:
        return
    field, value = rng.choice(fields)
    if field.is_repeated:
        if rng.random() < 0.2:
            del value[rng.randrange(len(value))]
        elif field.type == field.TYPE_MESSAGE:
            if rng.random() < 0.15:
                value.add().CopyFrom(rng.choice(value))
            else:
                _change_message(rng, rng.choice(value))
        else:
            value[rng.randrange(len(value))] = _scalar(rng, field, rng.choice(value))
    elif field.type == field.TYPE_MESSAGE and rng.random() < 0.9:
        _change_message(rng, value)
    elif field.type == field.TYPE_MESSAGE or rng.random() < 0.2:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _scalar(rng, field, value))


def _scalar(rng: random.Random, field: Any, value: Any) -> Any:
    if isinstance(value, str):
        return rng.choice(
            ("", "z", "x", "p", "Softmax", "Sigmoid", "Identity", "../x", "a\nb", "𝕏")
        )
    if isinstance(value, bytes):
        return mutate_bytes(rng, value, value)
    if isinstance(value, float):
        return rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
    if field.type == field.TYPE_ENUM:
        return rng.choice([each.number for each in field.enum_type.values])
    bound = 1 << (31 if field.type in (field.TYPE_INT32, field.TYPE_SINT32) else 63)
    number = rng.choice((0, 1, -1, 2, 7, 1 << 20, 1 << 31, bound - 1, -bound, value + 1))
    unsigned = field.type in (field.TYPE_UINT64, field.TYPE_UINT32)
    return abs(number) % bound if unsigned else max(-bound, min(number, bound - 1))
