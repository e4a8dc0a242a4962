"""ONNX graphs: walk, rename and inspect their nodes and tensors."""

from collections.abc import Callable, Iterable, Iterator, MutableSequence
from dataclasses import dataclass
from typing import Any

import onnx
from google.protobuf.message import Message

# The node that produces each tensor; inputs and initializers have none.
Producers = dict[str, onnx.NodeProto]
STANDARD_DOMAINS = ("", "ai.onnx")
FLOAT_TYPES = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.DOUBLE: "float64",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.BFLOAT16: "bfloat16",
}


def opset_version(model: onnx.ModelProto) -> int:
    """The version of the standard operators; the one to add if the model imports none."""
    versions = [each.version for each in model.opset_import if each.domain in STANDARD_DOMAINS]
    return max(versions, default=13 if model.ir_version >= 7 else 9)


# Walk ---------------------------------------------------------------------------------------------


def walk(message: Any, kind: Any) -> Iterator[Any]:
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
