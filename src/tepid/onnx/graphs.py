"""Walking an ONNX graph: who makes a tensor, who reads it, and what lies above it."""

from collections.abc import Callable, Iterator, MutableSequence

import onnx

Makers = dict[str, onnx.NodeProto]


def makers(graph: onnx.GraphProto) -> Makers:
    """The node that makes each tensor; inputs and initializers have none."""
    return {name: node for node in graph.node for name in node.output if name}


def bodies(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and every graph inside its nodes, such as the branches of an If."""
    yield graph
    for node in graph.node:
        yield from inner(node)


def inner(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Every graph inside a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from bodies(attribute.g)
        for graph in attribute.graphs:
            yield from bodies(graph)


def tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every stored tensor: initializers and constants, those inside of nodes too."""
    for body in bodies(graph):
        yield from body.initializer
        for node in body.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors


def words(graph: onnx.GraphProto) -> Iterator[str | bytes]:
    """Every name in the graph; what is no text comes as bytes."""
    for tensor in tensors(graph):
        yield from (word for entry in tensor.external_data for word in (entry.key, entry.value))
    for body in bodies(graph):
        yield body.name
        for value in (*body.input, *body.output, *body.value_info, *body.initializer):
            yield value.name
        for node in body.node:
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
            yield from (attribute.name for attribute in node.attribute)


def above(name: str, made: Makers) -> set[str]:
    """Every tensor that this one depends on, itself included."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        tensor = waiting.pop()
        if tensor and tensor not in seen:
            seen.add(tensor)
            if tensor in made:
                waiting += reads(made[tensor])
    return seen


def reads(node: onnx.NodeProto) -> list[str]:
    """What a node reads, also from within its own graphs."""
    return [*node.input, *(name for body in inner(node) for n in body.node for name in n.input)]


def reread(
    graph: onnx.GraphProto,
    old: str,
    new: str,
    chosen: Callable[[onnx.NodeProto], bool] = lambda _: True,
) -> None:
    """Let the chosen readers of one tensor read another."""
    for body in bodies(graph):
        for node in body.node:
            if chosen(node):
                _swap(node.input, old, new)


def rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Another name for a tensor, where it is made and wherever it is read."""
    for node in graph.node:
        _swap(node.output, old, new)
    reread(graph, old, new)


def _swap(names: MutableSequence[str], old: str, new: str) -> None:
    for i, name in enumerate(names):
        if name == old:
            names[i] = new
