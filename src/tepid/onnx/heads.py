"""Find a classifier's logits in its graph: which tensor they are, and its class axis."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx

from tepid.errors import InputError
from tepid.onnx.model import FLOAT_TYPES, STANDARD_DOMAINS, Producers, TensorType, find_producers
from tepid.validation import Array

Form = Literal["logits", "activated", "probabilities", "unclear"]
_ACTIVATIONS = ("Softmax", "LogSoftmax", "Sigmoid")
# These operators do not change what a number means.
_TRANSPARENT = (
    "Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Log", "ZipMap",
    "QuantizeLinear", "DequantizeLinear", "Dropout",
)  # fmt: skip
# Layers with weights. Their output may be any number, whatever their input is.
_WEIGHTED = (
    "Gemm", "MatMul", "Conv", "ConvTranspose", "Einsum", "MatMulInteger", "ConvInteger",
    "QLinearMatMul", "QLinearConv", "QGemm", "FusedMatMul", "FusedGemm", "FusedConv", "RNN", "GRU",
    "LSTM",
)  # fmt: skip
# After the last layer with weights these may turn logits into probabilities.
_BOUNDED = (*_ACTIVATIONS, "HardSigmoid", "Exp", "Hardmax", "If", "Loop", "Scan", "SequenceAt")


@dataclass(frozen=True)
class Head:
    """A tensor that a temperature can divide, and what the model does with it.

    Attributes:
        tensor: The name of the tensor.
        output: The model's output that it leads to.
        form: "logits" that leave the model unchanged, logits that are "activated" by the model's
            own softmax, "probabilities", or "unclear".
        readers: Outputs of the nodes that are to read the calibrated tensor. Empty if the tensor
            itself leaves the model, None if every node that reads it is meant.
        maker: The operator that produces `output`.
        origin: The tensor that this operator produces or, if it is an activation, reads.
    """

    tensor: str
    output: str
    form: Form
    readers: tuple[str, ...] | None = ()
    maker: str = ""
    origin: str = ""


def find_heads(graph: onnx.GraphProto, types: dict[str, TensorType]) -> list[Head]:
    """One head for each output that may be a classifier's."""
    producers = find_producers(graph)
    heads: dict[tuple[str, bool], Head] = {}
    for output in graph.output:
        head = _head_of_output(output, producers, types)
        if head is not None:
            key = (head.tensor, head.form == "activated")
            if key in heads:  # probabilities and their logarithms
                both = (*(heads[key].readers or ()), *(head.readers or ()))
                head = dataclasses.replace(heads[key], readers=both)
            heads[key] = head
    activated = {head.tensor for head in heads.values() if head.form == "activated"}
    return [h for h in heads.values() if h.form == "activated" or h.origin not in activated]


def _head_of_output(
    output: onnx.ValueInfoProto, producers: Producers, types: dict[str, TensorType]
) -> Head | None:
    """Follow an output upwards to the operator that makes its numbers; None if it is no float."""
    tensor = origin = output.name
    readers: tuple[str, ...] = ()
    while origin in producers and _is_transparent(producers[origin]):
        node = producers[origin]
        if node.op_type == "ZipMap":
            tensor, readers = node.input[0], (origin,)
        if node.op_type == "Cast" and not _may_be_float(node.input[0], types):
            return None  # a label as a number
        origin = node.input[0]
    if not readers and output.type.WhichOneof("value") != "tensor_type":
        return None
    if tensor not in producers or not _may_be_float(tensor, types):
        return None
    maker = _skip_pairing(producers.get(origin), producers)
    if maker is None:
        return Head(tensor, output.name, "logits", readers, "the model's input", origin)
    if maker.op_type in _ACTIVATIONS and maker.domain in STANDARD_DOMAINS:
        logits = maker.input[0]
        return Head(logits, output.name, "activated", (maker.output[0],), maker.op_type, logits)
    return Head(tensor, output.name, _form_of(origin, producers), readers, maker.op_type, origin)


def _is_transparent(node: onnx.NodeProto) -> bool:
    return node.op_type in _TRANSPARENT and node.domain in (*STANDARD_DOMAINS, "ai.onnx.ml")


def _may_be_float(tensor: str, types: dict[str, TensorType]) -> bool:
    return tensor not in types or types[tensor].kind in FLOAT_TYPES


def _skip_pairing(node: onnx.NodeProto | None, producers: Producers) -> onnx.NodeProto | None:
    """The Sigmoid under a binary pair (1 - p, p); any other node itself."""
    if node is None or node.op_type != "Concat" or len(node.input) != 2:
        return node
    rest, one = (producers.get(name) for name in node.input)
    if rest is None or one is None or (rest.op_type, one.op_type) != ("Sub", "Sigmoid"):
        return node
    return one if rest.input[1] == one.output[0] else node


def _form_of(name: str, producers: Producers) -> Form:
    if producers[name].domain == "ai.onnx.ml":
        return _form_of_classical(producers[name])
    waiting, seen = [name], set()
    while waiting:
        tensor = waiting.pop()
        if tensor in producers and tensor not in seen:
            seen.add(tensor)
            node = producers[tensor]
            if node.op_type in _WEIGHTED and node.domain in (*STANDARD_DOMAINS, "com.microsoft"):
                continue
            if node.op_type in _BOUNDED or node.domain not in STANDARD_DOMAINS:
                return "unclear"
            waiting += node.input
    return "logits"


def _form_of_classical(node: onnx.NodeProto) -> Form:
    """What a classifier of ONNX's machine learning operators returns."""
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "LinearClassifier":
        transform = attributes.get("post_transform", b"NONE")
        return "logits" if transform == b"NONE" else "probabilities"
    is_probability = {
        "TreeEnsembleClassifier": True,
        "SVMClassifier": bool(attributes.get("prob_a")),
        "Normalizer": attributes.get("norm") == b"L1",
    }
    return "probabilities" if is_probability.get(node.op_type) else "unclear"


def choose_head(
    heads: list[Head], logits: str | None, graph: onnx.GraphProto, *, probabilities: bool
) -> Head:
    """The head that the caller means; raises where the graph leaves a choice."""
    if logits is not None:
        head = _named_head(heads, logits, graph)
    elif len(heads) == 1:
        head = heads[0]
    elif heads:
        raise InputError(f"logits must be named, as --logits NAME, got several: {_list(heads)}")
    else:
        raise InputError("model must have an output of floating-point numbers, got none")
    if probabilities and head.form != "activated":
        return dataclasses.replace(head, form="probabilities")
    if head.form == "unclear" and logits is None:
        raise InputError(
            f"output {head.output!r} must be logits or end in Softmax, got one made by "
            f"{head.maker}; --probabilities says that it holds probabilities, --logits NAME which "
            "tensor holds logits"
        )
    return dataclasses.replace(head, form="logits") if head.form == "unclear" else head


def _named_head(heads: list[Head], name: str, graph: onnx.GraphProto) -> Head:
    for head in heads:
        if name in (head.tensor, head.output):
            return head
    if name not in find_producers(graph) or name in {output.name for output in graph.output}:
        known = _list(heads) or "no candidate"
        raise InputError(f"logits must name a tensor of the model, got {name!r} beside {known}")
    return Head(name, "", "activated", None, "nodes of its own", name)


def _list(heads: list[Head]) -> str:
    described = []
    for head in heads:
        activated = f" ({head.maker} of output {head.output!r})"
        place = activated if head.form == "activated" else "" if head.readers else " (output)"
        described.append(f"{head.tensor!r}{place}")
    return ", ".join(described)


# Class axis ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """The element type, class axis and number of classes of a head's tensor.

    `merged` means that all axes from the class axis on are one, as in Softmax before opset 13.
    `rank` and `classes` are None where they are not known. `binary` means one logit per row,
    `multilabel` that each column is a label of its own.
    """

    kind: int
    rank: int | None
    axis: int
    classes: int | None
    merged: bool = False
    binary: bool = False
    multilabel: bool = False

    @property
    def trailing(self) -> int:
        """The number of axes after that of the classes."""
        if self.rank is None and self.axis >= 0:
            raise InputError(
                f"class_axis must be counted from the end, as -1, where the number of dimensions "
                f"is not known, got {self.axis}"
            )
        return (self.rank or 0) - 1 - self.axis if self.axis >= 0 else -1 - self.axis

    def rows(self, z: Array) -> Array:
        """The logits as (n, k), one row for each position that is classified."""
        if z.ndim == 1:
            return z[:, None]
        if self.merged:
            return z.reshape(math.prod(z.shape[: self.axis]), -1)
        z = np.moveaxis(z, self.axis, -1)
        return np.ascontiguousarray(z).reshape(-1, z.shape[-1])


def find_layout(
    head: Head,
    types: dict[str, TensorType],
    graph: onnx.GraphProto,
    opset: int,
    class_axis: int | None,
    *,
    multilabel: bool = False,
) -> Layout:
    """The layout according to the model's own Softmax, to the shape, or to the caller."""
    found = types.get(head.tensor)
    if found is None or found.kind not in FLOAT_TYPES:
        known = onnx.TensorProto.DataType
        got = "one unknown" if found is None else f"number {found.kind}"
        if found is not None and found.kind in known.values():
            got = known.Name(found.kind)
        raise InputError(f"logits {head.tensor!r} must be of a floating-point type, got {got}")
    rank = None if found.sizes is None else len(found.sizes)
    if rank == 0:
        raise InputError(
            f"logits {head.tensor!r} must have one row per sample, got a single number"
        )
    softmax = _find_softmax(head, graph)
    axis = _find_axis(head, softmax, rank, opset, class_axis)
    merged = softmax is not None and opset < 13 and axis not in (-1, (rank or 0) - 1)
    count = _count_classes(found.sizes, axis, merged=merged)
    if multilabel:
        _check_multilabel(head, softmax, count)
        return Layout(found.kind, rank, axis, count, multilabel=True)
    if head.maker == "Sigmoid" and head.form == "activated" and count != 1:
        raise InputError(
            f"output {head.output!r} must choose between classes, got a Sigmoid for each of "
            f"{count or 'an unknown number of'} columns, which may all be true; for labels of "
            "their own use multilabel=True (--multilabel) or a multi-label temperature"
        )
    if count == 1 and (head.form == "probabilities" or softmax is not None):
        raise InputError(f"{head.tensor!r} must have a column for each class, got one column")
    classes = None if count is None else max(count, 2)
    return Layout(found.kind, rank, axis, classes, merged, binary=count == 1)


def _check_multilabel(head: Head, softmax: onnx.NodeProto | None, count: int | None) -> None:
    """Raise unless each column may be a label of its own."""
    if softmax is not None:
        raise InputError(
            f"multilabel must go with logits or a Sigmoid, got {softmax.op_type}, which chooses "
            "between classes"
        )
    if head.form == "probabilities":
        raise InputError(
            f"multilabel must go with logits or a Sigmoid, got probabilities made by {head.maker}"
        )
    if count == 1:
        raise InputError(
            f"{head.tensor!r} must have a column for each label with multilabel, got one column; "
            "without multilabel it is the logit of a binary classifier"
        )


def _find_softmax(head: Head, graph: onnx.GraphProto) -> onnx.NodeProto | None:
    """The Softmax that reads the head's tensor."""
    for node in graph.node:
        softmax = node.op_type in ("Softmax", "LogSoftmax") and node.domain in STANDARD_DOMAINS
        meant = head.readers is None or any(name in head.readers for name in node.output)
        if softmax and meant and head.tensor in node.input[:1]:
            return node
    return None


def _find_axis(
    head: Head,
    softmax: onnx.NodeProto | None,
    rank: int | None,
    opset: int,
    class_axis: int | None,
) -> int:
    if softmax is not None:
        if class_axis is not None:
            raise InputError(f"class_axis must be left to the model's Softmax, got {class_axis}")
        default = 1 if opset < 13 else -1
        class_axis = next((a.i for a in softmax.attribute if a.name == "axis"), default)
    elif class_axis is None:
        if rank not in (1, 2):
            got = "an unknown number" if rank is None else str(rank)
            raise InputError(
                f"logits {head.tensor!r} must have two dimensions, or class_axis (--class-axis) "
                f"must say where the classes are, got {got}"
            )
        class_axis = -1
    if rank is None:
        return class_axis
    if not -rank <= class_axis < rank:
        raise InputError(f"class_axis must be an axis of {rank} dimensions, got {class_axis}")
    return class_axis % rank


def _count_classes(sizes: tuple[int | None, ...] | None, axis: int, *, merged: bool) -> int | None:
    """The number of columns; None if it is not known."""
    if sizes is None or len(sizes) == 1:
        return None if sizes is None else 1
    of_classes = sizes[axis:] if merged else (sizes[axis],)
    known = [size for size in of_classes if size is not None]
    return math.prod(known) if len(known) == len(of_classes) else None
