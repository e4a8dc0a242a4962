"""ONNX models: read, check and write their files; walk, rename and inspect their graphs."""

import filecmp
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, MutableSequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import onnx
from google.protobuf.message import DecodeError, EncodeError, Message
from onnx import external_data_helper

from tepid.errors import InputError
from tepid.store import atomic_write

PathLike = str | os.PathLike[str]
# Tensors up to this many bytes may be shapes and axes, which shape inference needs.
_SMALL = 1 << 16
_Found = TypeVar("_Found", bound=Message)
# The node that produces each tensor; inputs and initializers have none.
Producers = dict[str, onnx.NodeProto]
STANDARD_DOMAINS = ("", "ai.onnx")
FLOAT_TYPES = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.DOUBLE: "float64",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.BFLOAT16: "bfloat16",
}


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no reason"])[0][:300]


# Read ---------------------------------------------------------------------------------------------


def read_model(path: PathLike) -> onnx.ModelProto:
    """The model in a file, without its external data."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"model must be a file that exists, got {file}")
    try:
        model = onnx.load(file, format="protobuf", load_external_data=False)
    except DecodeError:
        raise InputError(f"{file.name} must be a whole ONNX model, got something else") from None
    if not model.ir_version or not model.graph.output:
        raise InputError(f"{file.name} must be a whole ONNX model, got one without a graph")
    _check_names(model, file)
    version = opset_version(model)
    if version < 7:
        raise InputError(f"{file.name} must be of opset 7 or later, got {version}")
    for data, size in _external_files(model, file).items():
        if not data.is_file():
            raise InputError(f"{file.name} must have its external data beside it, got no {data}")
        found = data.stat().st_size
        if found < size:
            raise InputError(f"{data.name} must have {size} bytes of external data, got {found}")
    return model


def _check_names(model: onnx.ModelProto, file: Path) -> None:
    """Raise if a name is not valid UTF-8, which protobuf returns as bytes."""
    for message in walk(model, Message):
        for field in message.DESCRIPTOR.fields:
            if field.type == field.TYPE_STRING:
                value = getattr(message, field.name)
                words = [value] if isinstance(value, (str, bytes)) else value
                broken = [word for word in words if isinstance(word, bytes)]
                if broken:
                    got = f"{broken[0][:80]!r}"
                    raise InputError(f"{file.name} must have names that are text, got {got}")


def _external_files(model: onnx.ModelProto, path: PathLike) -> dict[Path, int]:
    """The files that hold the model's external tensors, and the least size of each in bytes."""
    # Not resolved: if the model is a symbolic link, its data lies beside the link.
    folder = Path(path).absolute().parent
    found: dict[Path, int] = {}
    for tensor in filter(external_data_helper.uses_external_data, walk(model, onnx.TensorProto)):
        try:
            place = external_data_helper.ExternalDataInfo(tensor)
            file = Path(os.path.normpath(folder / place.location))
            end = int(place.offset or 0) + int(place.length or 0)
        except (TypeError, ValueError) as error:
            reason = _first_line(error)
            raise InputError(f"external data must have a place in its file: {reason}") from None
        if file == folder or not file.is_relative_to(folder):
            got = place.location or "nothing"
            raise InputError(f"external data must lie in the model's folder, got {got}")
        found[file] = max(found.get(file, 0), end)
    return found


# Validate -----------------------------------------------------------------------------------------


def strip_weights(model: onnx.ModelProto, path: PathLike) -> onnx.ModelProto:
    """A copy whose large tensors are inputs: quick to copy, check and infer shapes of.

    External tensors are loaded if they are small or inside a node, and become inputs otherwise.
    """
    kept = ("name", "node", "input", "output", "value_info", "sparse_initializer")
    copy = onnx.ModelProto(
        ir_version=model.ir_version,
        opset_import=model.opset_import,
        functions=model.functions,
        graph=onnx.GraphProto(**{field: getattr(model.graph, field) for field in kept}),
    )
    declared = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if 8 * math.prod(tensor.dims) <= _SMALL:
            copy.graph.initializer.append(tensor)
        elif tensor.name not in declared:
            value = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            copy.graph.input.append(value)
    try:
        folder = str(Path(path).absolute().parent)
        external_data_helper.load_external_data_for_model(copy, folder)
    except (ValueError, OSError, onnx.checker.ValidationError) as error:
        raise InputError(f"external data must be readable, got: {_first_line(error)}") from None
    return copy


def check_model(stripped: onnx.ModelProto, name: str) -> None:
    """Raise if ONNX's own checker refuses a model from `strip_weights`."""
    try:
        onnx.checker.check_model(stripped)
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must be a valid ONNX model, got: {_first_line(error)}") from None


# Write --------------------------------------------------------------------------------------------


def check_output_path(path: PathLike, out: PathLike) -> None:
    """Raise if the output is the model itself or does not end in `.onnx`."""
    target = Path(out)
    if target.suffix.lower() != ".onnx":
        raise InputError(f"output must end in .onnx, got {target.name}")
    if target.exists() and target.samefile(path):
        raise InputError(f"output must not be the model itself, got {target}")


def write_model(model: onnx.ModelProto, path: PathLike, out: PathLike) -> None:
    """Atomically write a model that was read from `path`, and copy its external data.

    In the model's own folder the external data is shared. Elsewhere it is copied under the same
    name, and a file of that name must have the same content.
    """
    try:
        content = model.SerializeToString()
    except (EncodeError, ValueError) as error:
        reason = _first_line(error)
        raise InputError(f"model must fit into one file, got too large a one: {reason}") from None
    copies = _missing_copies(model, path, out)
    with atomic_write(out) as file:
        file.write(content)
        for data, copy in copies:
            copy.parent.mkdir(parents=True, exist_ok=True)
            with data.open("rb") as source, atomic_write(copy) as sink:
                shutil.copyfileobj(source, sink, 1 << 20)


def _missing_copies(
    model: onnx.ModelProto, path: PathLike, out: PathLike
) -> list[tuple[Path, Path]]:
    """The external data that has yet to be copied, as pairs of source and target."""
    home, target = Path(path).absolute().parent, Path(out).absolute()
    missing = []
    for data in _external_files(model, path):
        copy = target.parent / data.relative_to(home)
        if copy == target:
            raise InputError(f"output must not have the name of external data, got {out}")
        if not copy.exists():
            missing.append((data, copy))
        elif not copy.samefile(data) and not filecmp.cmp(data, copy, shallow=False):
            raise InputError(f"external data must not replace another file, got {copy}")
    return missing


# Graphs -------------------------------------------------------------------------------------------


def opset_version(model: onnx.ModelProto) -> int:
    """The version of the standard operators; the one to add if the model imports none."""
    versions = [each.version for each in model.opset_import if each.domain in STANDARD_DOMAINS]
    return max(versions, default=13 if model.ir_version >= 7 else 9)


def walk(message: Message, kind: type[_Found]) -> Iterator[_Found]:
    """Yield every message of a kind, the message itself included; tensors are not entered.

    In this way a graph includes the graphs inside its nodes, such as the branches of an If.
    """
    if isinstance(message, kind):
        yield message
    if isinstance(message, onnx.TensorProto):
        return  # listing its fields would copy its data
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                yield from walk(part, kind)


def find_producers(graph: onnx.GraphProto) -> Producers:
    """The node that produces each tensor."""
    return {name: node for node in graph.node for name in node.output if name}


def ancestors(name: str, producers: Producers) -> set[str]:
    """Every tensor that this one depends on, itself included."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        tensor = waiting.pop()
        if tensor and tensor not in seen:
            seen.add(tensor)
            if tensor in producers:
                for node in walk(producers[tensor], onnx.NodeProto):
                    waiting += node.input
    return seen


# Rename -------------------------------------------------------------------------------------------


def redirect_readers(
    graph: onnx.GraphProto,
    old: str,
    new: str,
    chosen: Callable[[onnx.NodeProto], bool] = lambda _: True,
) -> None:
    """Make the chosen nodes that read tensor `old` read `new` instead."""
    for node in walk(graph, onnx.NodeProto):
        if chosen(node):
            _replace(node.input, old, new)


def rename_tensor(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Rename a tensor in the node that produces it and in all nodes that read it."""
    for node in graph.node:
        _replace(node.output, old, new)
    redirect_readers(graph, old, new)


def _replace(names: MutableSequence[str], old: str, new: str) -> None:
    for i, name in enumerate(names):
        if name == old:
            names[i] = new


# Types and shapes ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorType:
    """ONNX's number of the element type, and the sizes, None where unknown or free."""

    kind: int
    sizes: tuple[int | None, ...] | None


def declared_types(values: Iterable[onnx.ValueInfoProto]) -> dict[str, TensorType]:
    """The declared type of each tensor by name; the kind of sequences and maps is 0."""
    types = {}
    for value in values:
        tensor = value.type.tensor_type
        sizes = None
        if tensor.HasField("shape"):
            dims = tensor.shape.dim
            sizes = tuple(d.dim_value if d.HasField("dim_value") else None for d in dims)
        types[value.name] = TensorType(tensor.elem_type, sizes)
    return types


def infer_types(model: onnx.ModelProto) -> dict[str, TensorType]:
    """The inferred type of each tensor by name; sequences, maps and unknown types are left out."""
    try:
        known = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, RuntimeError):
        known = model.graph  # what the file declares itself
    types = declared_types([*known.value_info, *known.input, *known.output])
    types |= {t.name: TensorType(t.data_type, tuple(t.dims)) for t in known.initializer}
    types = {name: found for name, found in types.items() if found.kind}
    for node in model.graph.node:  # shape inference may not know the operators before a ZipMap
        name = node.input[0] if node.op_type == "ZipMap" else ""
        if name and (name not in types or types[name].sizes is None):
            labels = [onnx.helper.get_attribute_value(a) for a in node.attribute]
            classes = max(map(len, labels), default=0) or None
            types[name] = TensorType(onnx.TensorProto.FLOAT, (None, classes))
    return types
