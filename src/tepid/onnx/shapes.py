"""What ONNX infers of each tensor: the type of its numbers, and its sizes where they are known."""

from dataclasses import dataclass

import onnx

FLOATS = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.DOUBLE: "float64",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.BFLOAT16: "bfloat16",
}


@dataclass(frozen=True)
class Tensor:
    """The number that ONNX gives a type, and the sizes, None where unknown or free."""

    kind: int
    sizes: tuple[int | None, ...] | None


def inferred(copy: onnx.ModelProto) -> dict[str, Tensor]:
    """Every tensor that something is known of, by name; what is no tensor is left out."""
    try:
        known = onnx.shape_inference.infer_shapes(copy, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, RuntimeError):
        known = copy.graph  # what the file states itself
    values = [*known.value_info, *known.input, *known.output]
    tensors = {value.name: _tensor(value.type.tensor_type) for value in values}
    tensors |= {t.name: Tensor(t.data_type, tuple(t.dims)) for t in known.initializer}
    tensors = {name: tensor for name, tensor in tensors.items() if tensor.kind}
    return tensors | _mapped(copy.graph, tensors)


def _mapped(graph: onnx.GraphProto, known: dict[str, Tensor]) -> dict[str, Tensor]:
    """What ZipMap says of the tensors that it reads, where nothing else does."""
    found = {}
    for node in graph.node:
        if node.op_type == "ZipMap" and (
            node.input[0] not in known or known[node.input[0]].sizes is None
        ):
            named = [onnx.helper.get_attribute_value(a) for a in node.attribute]
            classes = max(map(len, named), default=0) or None
            found[node.input[0]] = Tensor(onnx.TensorProto.FLOAT, (None, classes))
    return found


def _tensor(stated: onnx.TypeProto.Tensor) -> Tensor:
    if not stated.HasField("shape"):
        return Tensor(stated.elem_type, None)
    sizes = [size.dim_value if size.HasField("dim_value") else None for size in stated.shape.dim]
    return Tensor(stated.elem_type, tuple(sizes))
