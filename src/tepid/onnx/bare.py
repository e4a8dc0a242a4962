"""A model without the values of its large tensors: quick to copy, check and infer shapes of."""

import math
from pathlib import Path

import onnx

from tepid.errors import InputError
from tepid.onnx import graphs
from tepid.onnx.files import PathLike, first_line

# Tensors up to this size may be shapes and axes, without which no shape can be inferred.
_SMALL = 1 << 16


def bare(model: onnx.ModelProto, path: PathLike) -> onnx.ModelProto:
    """A copy in which every large tensor is an input, and what is external is here or an input."""
    copy = onnx.ModelProto(ir_version=model.ir_version)
    copy.opset_import.extend(model.opset_import)
    copy.functions.extend(model.functions)
    copy.graph.name = model.graph.name
    for field in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(copy.graph, field).extend(getattr(model.graph, field))
    folder = str(Path(path).absolute().parent)
    for tensor in graphs.tensors(copy.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor.CopyFrom(_here(tensor, folder))
    _give_initializers(copy.graph, model.graph, folder)
    return copy


def _give_initializers(copy: onnx.GraphProto, graph: onnx.GraphProto, folder: str) -> None:
    stated = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if 8 * math.prod(tensor.dims) <= _SMALL:
            copy.initializer.append(_here(tensor, folder))
        elif tensor.name not in stated:
            value = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            copy.input.append(value)


def _here(tensor: onnx.TensorProto, folder: str) -> onnx.TensorProto:
    """The tensor with its values in it."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return tensor
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    try:
        onnx.external_data_helper.load_external_data_for_tensor(copy, folder)
    except (ValueError, OSError, onnx.checker.ValidationError) as error:
        said = first_line(error)
        raise InputError(f"external data must hold {tensor.name}, got {said}") from None
    copy.data_location = onnx.TensorProto.DEFAULT
    del copy.external_data[:]
    return copy


def check(copy: onnx.ModelProto, name: str) -> None:
    """Refuse a bare copy that ONNX's own checker refuses."""
    try:
        onnx.checker.check_model(copy)
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must be a valid ONNX model, got: {first_line(error)}") from None
