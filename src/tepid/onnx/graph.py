"""ONNX graphs: walk, rename and inspect their nodes and tensors."""

from collections.abc import Callable, Iterator, MutableSequence
from dataclasses import dataclass

import onnx

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


def find_producers(graph: onnx.GraphProto) -> Producers:
    """The node that produces each tensor."""
    return {name: node for node in graph.node for name in node.output if name}


def walk_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield the graph and every graph inside its nodes, such as the branches of an If."""
    yield graph
    for node in graph.node:
        yield from nested_graphs(node)


def nested_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield every graph inside a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from walk_graphs(attribute.g)
        for graph in attribute.graphs:
            yield from walk_graphs(graph)


def stored_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield every initializer and every constant, including those of nested graphs."""
    for body in walk_graphs(graph):
        yield from body.initializer
        for node in body.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors


def all_names(graph: onnx.GraphProto) -> Iterator[str | bytes]:
    """Yield every name in the graph; names that are not valid UTF-8 come as bytes."""
    for tensor in stored_tensors(graph):
        yield from (word for entry in tensor.external_data for word in (entry.key, entry.value))
    for body in walk_graphs(graph):
        yield body.name
        for value in (*body.input, *body.output, *body.value_info, *body.initializer):
            yield value.name
        for node in body.node:
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
            yield from (attribute.name for attribute in node.attribute)


def ancestors(name: str, producers: Producers) -> set[str]:
    """Every tensor that this one depends on, itself included."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        tensor = waiting.pop()
        if tensor and tensor not in seen:
            seen.add(tensor)
            if tensor in producers:
                waiting += _read_tensors(producers[tensor])
    return seen


def _read_tensors(node: onnx.NodeProto) -> list[str]:
    """The tensors that a node reads, directly or in its nested graphs."""
    nested = (name for body in nested_graphs(node) for inner in body.node for name in inner.input)
    return [*node.input, *nested]


# Rename -------------------------------------------------------------------------------------------


def redirect_readers(
    graph: onnx.GraphProto,
    old: str,
    new: str,
    chosen: Callable[[onnx.NodeProto], bool] = lambda _: True,
) -> None:
    """Make the chosen nodes that read tensor `old` read `new` instead."""
    for body in walk_graphs(graph):
        for node in body.node:
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


def infer_types(model: onnx.ModelProto) -> dict[str, TensorType]:
    """The inferred type of each tensor by name; sequences, maps and unknown types are left out."""
    try:
        known = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, RuntimeError):
        known = model.graph  # what the file declares itself
    values = [*known.value_info, *known.input, *known.output]
    types = {value.name: _tensor_type(value.type.tensor_type) for value in values}
    types |= {t.name: TensorType(t.data_type, tuple(t.dims)) for t in known.initializer}
    types = {name: found for name, found in types.items() if found.kind}
    return types | _zipmap_types(model.graph, types)


def _zipmap_types(graph: onnx.GraphProto, known: dict[str, TensorType]) -> dict[str, TensorType]:
    """The types of the inputs of ZipMap nodes that shape inference does not know."""
    found = {}
    for node in graph.node:
        if node.op_type == "ZipMap" and (
            node.input[0] not in known or known[node.input[0]].sizes is None
        ):
            labels = [onnx.helper.get_attribute_value(a) for a in node.attribute]
            classes = max(map(len, labels), default=0) or None
            found[node.input[0]] = TensorType(onnx.TensorProto.FLOAT, (None, classes))
    return found


def _tensor_type(declared: onnx.TypeProto.Tensor) -> TensorType:
    if not declared.HasField("shape"):
        return TensorType(declared.elem_type, None)
    sizes = [size.dim_value if size.HasField("dim_value") else None for size in declared.shape.dim]
    return TensorType(declared.elem_type, tuple(sizes))
