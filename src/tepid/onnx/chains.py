"""The nodes that calibrate a tensor, threaded into a graph under names that say whose they are."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper

from tepid.errors import InputError
from tepid.onnx import graphs
from tepid.onnx.heads import Head
from tepid.onnx.layouts import Layout
from tepid.onnx.shapes import FLOATS

_HALVES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
_PARTS = (
    "temperature", "smallest", "widen", "floor", "log", "divide", "turn", "activate", "return",
    "narrow",
)  # fmt: skip


class _Step(NamedTuple):
    """An operator, the part of the chain that it is, a constant it reads, and its attributes."""

    part: str
    operator: str
    constant: str = ""
    attributes: dict[str, Any] = {}  # noqa: RUF012  # read, never changed


def _name(tensor: str, part: str) -> str:
    return f"tepid/{tensor}/{part}"


def divided(graph: onnx.GraphProto) -> set[str]:
    """The tensors that a temperature divides already."""
    start, end = _name("|", "divide").split("|")
    names = [node.name for node in graph.node]
    ours = [name for name in names if name.startswith(start) and name.endswith(end)]
    return {name.removeprefix(start).removesuffix(end) for name in ours}


def take_out(graph: onnx.GraphProto, tensor: str) -> None:
    """The graph as it was before `put_in`; as it is where there was none."""
    ours = {_name(tensor, part) for part in _PARTS}
    for part in (graph.node, graph.initializer):
        for mine in [item for item in part if item.name in ours]:
            part.remove(mine)
    graphs.rename(graph, _name(tensor, "raw"), tensor)
    graphs.reread(graph, _name(tensor, "calibrated"), tensor)


def put_in(
    graph: onnx.GraphProto,
    head: Head,
    layout: Layout,
    temperature: float,
    *,
    opset: int,
    keep_logits: bool,
) -> None:
    """Give those who read the head's tensor, or the model's output, the calibrated one."""
    start, end = head.tensor, _name(head.tensor, "calibrated")
    if head.readers == ():
        start, end = _name(head.tensor, "raw"), head.tensor
        graphs.rename(graph, head.tensor, start)
    else:
        readers = head.readers
        graphs.reread(
            graph,
            start,
            end,
            lambda node: readers is None or any(made in readers for made in node.output),
        )
    steps = list(_steps(head, layout, opset, keep_logits=keep_logits))
    nodes = [*_constants(head, layout, temperature), *_threaded(steps, head.tensor, start, end)]
    made = [i for i, node in enumerate(graph.node) if start in node.output]
    for i, node in enumerate(nodes, start=made[0] + 1 if made else 0):
        graph.node.insert(i, node)


def _steps(head: Head, layout: Layout, opset: int, *, keep_logits: bool) -> Iterator[_Step]:
    widened = head.form == "probabilities" and layout.kind in _HALVES
    if widened:
        yield _Step("widen", "Cast", attributes={"to": onnx.TensorProto.FLOAT})
    if head.form == "probabilities":
        yield _Step("floor", "Max", "smallest")
        yield _Step("log", "Log")
    yield _Step("divide", "Div", "temperature")
    if head.form != "activated" and not keep_logits:
        yield from _activation(layout, opset)
    if widened:
        yield _Step("narrow", "Cast", attributes={"to": layout.kind})


def _activation(layout: Layout, opset: int) -> Iterator[_Step]:
    if layout.binary:
        yield _Step("activate", "Sigmoid")
    elif opset >= 13:
        yield _Step("activate", "Softmax", attributes={"axis": layout.axis})
    elif layout.rank is None:
        raise InputError("logits must have a known number of dimensions, got none before opset 13")
    else:
        # Softmax took all axes from this one on for one, so the classes go to the end and back.
        turned = list(range(layout.rank))
        turned[layout.axis], turned[-1] = turned[-1], turned[layout.axis]
        turn = {"perm": turned}
        last = layout.axis == layout.rank - 1
        yield from () if last else (_Step("turn", "Transpose", attributes=turn),)
        yield _Step("activate", "Softmax", attributes={"axis": layout.rank - 1})
        yield from () if last else (_Step("return", "Transpose", attributes=turn),)


def _threaded(steps: list[_Step], tensor: str, start: str, end: str) -> Iterator[onnx.NodeProto]:
    given = start
    for step in steps:
        gives = end if step is steps[-1] else _name(tensor, f"{step.part}d")
        constants = [_name(tensor, step.constant)] if step.constant else []
        yield helper.make_node(
            step.operator,
            [given, *constants],
            [gives],
            _name(tensor, step.part),
            **step.attributes,
        )
        given = gives


def _constants(head: Head, layout: Layout, temperature: float) -> Iterator[onnx.NodeProto]:
    kind = layout.kind
    if head.form == "probabilities":
        kind = onnx.TensorProto.FLOAT if kind in _HALVES else kind
        smallest = float(np.finfo(FLOATS[kind]).smallest_normal)
        yield _constant(head.tensor, "smallest", kind, smallest)
    yield _constant(head.tensor, "temperature", kind, temperature)


def _constant(tensor: str, part: str, kind: int, value: float) -> onnx.NodeProto:
    name = _name(tensor, part)
    with np.errstate(over="ignore", under="ignore"):
        stored = helper.make_tensor(name, kind, [], [value])
        kept = float(onnx.numpy_helper.to_array(stored))
    if not 0 < kept < float("inf"):
        raise InputError(f"temperature must be a number that {FLOATS[kind]} holds, got {value}")
    return helper.make_node("Constant", [], [name], name, value=stored)
