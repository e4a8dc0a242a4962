"""Where the classes are in a head's tensor, and its rows as tepid takes them."""

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import onnx

from tepid.arrays import Array
from tepid.errors import InputError
from tepid.onnx.heads import Head
from tepid.onnx.shapes import FLOATS, Tensor


@dataclass(frozen=True)
class Layout:
    """The type of the numbers, the class axis, and the number of classes where it is known.

    `merged` says that all axes from the class axis on are one, as Softmax had it before opset 13.
    `rank` is None where it is not known.
    """

    kind: int
    rank: int | None
    axis: int
    classes: int | None
    merged: bool = False
    binary: bool = False

    def rows(self, z: Array) -> Array:
        """One row of logits for each place that is classified."""
        if z.ndim == 1:
            return z[:, None]
        if self.merged:
            return z.reshape(math.prod(z.shape[: self.axis]), -1)
        z = np.moveaxis(z, self.axis, -1)
        return np.ascontiguousarray(z).reshape(-1, z.shape[-1])


def layout_of(
    head: Head,
    known: dict[str, Tensor],
    graph: onnx.GraphProto,
    opset: int,
    class_axis: int | None,
) -> Layout:
    """The layout that the model's own Softmax says, or its shape, or the caller."""
    tensor = known.get(head.tensor)
    if tensor is None or tensor.kind not in FLOATS:
        got = "one unknown" if tensor is None else onnx.TensorProto.DataType.Name(tensor.kind)
        raise InputError(f"logits {head.tensor!r} must be of a floating-point type, got {got}")
    rank = None if tensor.sizes is None else len(tensor.sizes)
    if rank == 0:
        raise InputError(
            f"logits {head.tensor!r} must have one row per sample, got a single number"
        )
    softmax = _softmax(head, graph)
    if softmax is None:
        layout = Layout(tensor.kind, rank, _stated(head, rank, class_axis), None)
    else:
        if class_axis is not None:
            raise InputError(f"class_axis must be left to the model's Softmax, got {class_axis}")
        layout = _of_softmax(softmax, tensor.kind, rank, opset)
    layout = _counted(layout, tensor)
    _check_binary(head, layout)
    return layout


def _softmax(head: Head, graph: onnx.GraphProto) -> onnx.NodeProto | None:
    """The Softmax that reads the tensor."""
    softmaxes = [node for node in graph.node if node.op_type in ("Softmax", "LogSoftmax")]
    for node in softmaxes:
        meant = head.readers is None or any(made in head.readers for made in node.output)
        if meant and head.tensor in node.input[:1] and node.domain in ("", "ai.onnx"):
            return node
    return None


def _of_softmax(node: onnx.NodeProto, kind: int, rank: int | None, opset: int) -> Layout:
    axis = next((a.i for a in node.attribute if a.name == "axis"), 1 if opset < 13 else -1)
    if rank is not None:
        axis %= rank
    merged = opset < 13 and axis not in (-1, (rank or 0) - 1)
    return Layout(kind, rank, axis, None, merged)


def _stated(head: Head, rank: int | None, class_axis: int | None) -> int:
    if class_axis is None and rank in (1, 2):
        return rank - 1
    if class_axis is None:
        got = "an unknown number" if rank is None else str(rank)
        raise InputError(
            f"logits {head.tensor!r} must have two dimensions, or class_axis (--class-axis) must "
            f"say where the classes are, got {got}"
        )
    if rank is not None and not -rank <= class_axis < rank:
        raise InputError(f"class_axis must be an axis of {rank} dimensions, got {class_axis}")
    return class_axis if rank is None else class_axis % rank


def _counted(layout: Layout, tensor: Tensor) -> Layout:
    if tensor.sizes is None:
        return layout
    if layout.rank == 1:
        return dataclasses.replace(layout, classes=2, binary=True)
    sizes = tensor.sizes[layout.axis :] if layout.merged else (tensor.sizes[layout.axis],)
    if any(size is None for size in sizes):
        return layout
    count = math.prod(size or 0 for size in sizes)
    return dataclasses.replace(layout, classes=max(count, 2), binary=count == 1)


def _check_binary(head: Head, layout: Layout) -> None:
    if head.maker == "Sigmoid" and head.form == "activated" and not layout.binary:
        got = "an unknown number" if layout.classes is None else f"{layout.classes}"
        raise InputError(
            f"output {head.output!r} must choose between classes, got a Sigmoid for each of "
            f"{got} of columns, which may all be true"
        )
    if layout.binary and head.form == "probabilities":
        raise InputError(
            f"probabilities {head.tensor!r} must have a column for each class, got one column"
        )
    softmax = head.form == "activated" and head.maker in ("Softmax", "LogSoftmax")
    if layout.binary and softmax:
        raise InputError(f"Softmax of {head.tensor!r} must be over classes, got one column")
