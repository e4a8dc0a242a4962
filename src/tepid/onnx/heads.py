"""Where a classifier's logits are in its graph, and what the model makes of them."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import onnx

from tepid.errors import InputError
from tepid.onnx import graphs
from tepid.onnx.shapes import FLOATS, Tensor

Form = Literal["logits", "activated", "probabilities", "unclear"]
_ACTIVATIONS = ("Softmax", "LogSoftmax", "Sigmoid")
# Each number keeps its meaning on its way through these.
_TRANSPARENT = (
    "Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Log", "ZipMap",
    "QuantizeLinear", "DequantizeLinear", "Dropout",
)  # fmt: skip
# Above a layer with weights nothing says what comes out of it, below it nothing may be bounded.
_WEIGHTED = (
    "Gemm", "MatMul", "Conv", "ConvTranspose", "Einsum", "MatMulInteger", "ConvInteger",
    "QLinearMatMul", "QLinearConv", "QGemm", "FusedMatMul", "FusedGemm", "FusedConv", "RNN", "GRU",
    "LSTM",
)  # fmt: skip
_BOUNDED = (*_ACTIVATIONS, "HardSigmoid", "Exp", "Hardmax", "If", "Loop", "Scan", "SequenceAt")
_STANDARD = ("", "ai.onnx")


@dataclass(frozen=True)
class Head:
    """A tensor that a temperature can divide, and what the model makes of it.

    `form` says what the tensor is: "logits" that leave the model as they are, logits that are
    "activated" by a softmax of the model's own, "probabilities", or "unclear". `readers` name what
    is made by the nodes that are to read the calibrated tensor: none where it leaves the model
    itself, and None where every node is to. `maker` is the operator that `output` comes from, and
    `origin` the tensor that it makes or, of an activation, reads.
    """

    tensor: str
    output: str
    form: Form
    readers: tuple[str, ...] | None = ()
    maker: str = ""
    origin: str = ""


def candidates(graph: onnx.GraphProto, known: dict[str, Tensor]) -> list[Head]:
    """One head for each output that may be a classifier's."""
    made = graphs.makers(graph)
    heads: dict[tuple[str, bool], Head] = {}
    for output in graph.output:
        head = _head(output, made, known)
        if head is not None:
            key = (head.tensor, head.form == "activated")
            if key in heads:  # probabilities and their logarithms
                both = (*(heads[key].readers or ()), *(head.readers or ()))
                head = dataclasses.replace(heads[key], readers=both)
            heads[key] = head
    activated = {head.tensor for head in heads.values() if head.form == "activated"}
    return [h for h in heads.values() if h.form == "activated" or h.origin not in activated]


def _head(
    output: onnx.ValueInfoProto, made: graphs.Makers, known: dict[str, Tensor]
) -> Head | None:
    tensor, readers, origin = _origin(output.name, made, known)
    if not readers and output.type.WhichOneof("value") != "tensor_type":
        return None
    if tensor not in made or not _may_be_float(tensor, known) or not origin:
        return None
    node = _paired(made.get(origin), made)
    if node is not None and node.op_type in _ACTIVATIONS and node.domain in _STANDARD:
        z = node.input[0]
        return Head(z, output.name, "activated", (node.output[0],), node.op_type, z)
    maker = "the model's input" if node is None else node.op_type
    return Head(tensor, output.name, _form(origin, made), readers, maker, origin)


def _origin(
    name: str, made: graphs.Makers, known: dict[str, Tensor]
) -> tuple[str, tuple[str, ...], str]:
    """The tensor to calibrate, who is to read it, and where its numbers come from."""
    tensor = name
    readers: tuple[str, ...] = ()
    while name in made and _is_transparent(made[name]):
        node = made[name]
        if node.op_type == "ZipMap":
            tensor, readers = node.input[0], (name,)
        if node.op_type == "Cast" and not _may_be_float(node.input[0], known):
            return tensor, readers, ""  # a label, as a number
        name = node.input[0]
    return tensor, readers, name


def _is_transparent(node: onnx.NodeProto) -> bool:
    return node.op_type in _TRANSPARENT and node.domain in (*_STANDARD, "ai.onnx.ml")


def _may_be_float(tensor: str, known: dict[str, Tensor]) -> bool:
    return tensor not in known or known[tensor].kind in FLOATS


def _paired(node: onnx.NodeProto | None, made: graphs.Makers) -> onnx.NodeProto | None:
    """The Sigmoid under (1 - p, p), as two columns are made of one; else the node itself."""
    if node is None or node.op_type != "Concat" or len(node.input) != 2:
        return node
    rest, one = (made.get(name) for name in node.input)
    if rest is None or one is None or (rest.op_type, one.op_type) != ("Sub", "Sigmoid"):
        return node
    return one if rest.input[1] == one.output[0] else node


def _form(name: str, made: graphs.Makers) -> Form:
    node = made.get(name)
    if node is not None and node.domain == "ai.onnx.ml":
        return _classical(node)
    waiting, seen = [name], set()
    while waiting:
        tensor = waiting.pop()
        if tensor in made and tensor not in seen:
            seen.add(tensor)
            node = made[tensor]
            if node.op_type in _WEIGHTED and node.domain in (*_STANDARD, "com.microsoft"):
                continue
            if node.op_type in _BOUNDED or node.domain not in _STANDARD:
                return "unclear"
            waiting += list(node.input)
    return "logits"


def _classical(node: onnx.NodeProto) -> Form:
    """What a classifier of ONNX's machine learning operators gives."""
    stated = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    after = stated.get("post_transform", b"NONE")
    if node.op_type == "LinearClassifier":
        return "logits" if after == b"NONE" else "probabilities"
    is_probability = {
        "TreeEnsembleClassifier": True,
        "SVMClassifier": bool(stated.get("prob_a")),
        "Normalizer": stated.get("norm") == b"L1",
    }
    return "probabilities" if is_probability.get(node.op_type) else "unclear"


def choose(
    heads: list[Head], logits: str | None, graph: onnx.GraphProto, *, probabilities: bool
) -> Head:
    """The head that is meant; what cannot be known is asked for."""
    head = _only(heads) if logits is None else _named(heads, logits, graph)
    if probabilities and head.form != "activated":
        return dataclasses.replace(head, form="probabilities")
    if head.form == "unclear" and logits is None:
        raise InputError(
            f"output {head.output!r} must be logits or end in Softmax, got one made by "
            f"{head.maker}; --probabilities says that it holds probabilities, --logits NAME which "
            "tensor holds logits"
        )
    return dataclasses.replace(head, form="logits") if head.form == "unclear" else head


def _only(heads: list[Head]) -> Head:
    if not heads:
        raise InputError("model must have an output of floating-point numbers, got none")
    if len(heads) > 1:
        names = ", ".join(_described(head) for head in heads)
        raise InputError(f"logits must be named, as --logits NAME, got several: {names}")
    return heads[0]


def _described(head: Head) -> str:
    if head.form == "activated":
        return f"{head.tensor!r} ({head.maker} of output {head.output!r})"
    return f"{head.tensor!r} (output)" if not head.readers else f"{head.tensor!r}"


def _named(heads: list[Head], name: str, graph: onnx.GraphProto) -> Head:
    for head in heads:
        if name in (head.tensor, head.output):
            return head
    made = graphs.makers(graph)
    if name not in made or name in {output.name for output in graph.output}:
        names = ", ".join(_described(head) for head in heads) or "no candidate"
        raise InputError(f"logits must name a tensor of the model, got {name!r} beside {names}")
    return Head(name, "", "activated", None, "nodes of its own", name)
