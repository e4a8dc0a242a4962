"""Insert a temperature into a model's graph, record it there, and remove it again."""

import dataclasses
import importlib.metadata
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper

from tepid.errors import InputError
from tepid.onnx.files import (
    PathLike,
    check_model,
    check_output_path,
    read_model,
    strip_weights,
    write_model,
)
from tepid.onnx.graph import (
    FLOAT_TYPES,
    STANDARD_DOMAINS,
    ancestors,
    find_producers,
    infer_types,
    opset_version,
    redirect_readers,
    rename_tensor,
)
from tepid.onnx.heads import Head, Layout, choose_head, find_heads, find_layout
from tepid.temperature import Temperature
from tepid.validation import check_temperature

# The entry of the model's metadata that describes each temperature, as JSON.
_METADATA = "tepid"
_HALF_TYPES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
# The names of inserted nodes end in one of these.
_NODES = (
    "temperature", "smallest", "widen", "floor", "log", "divide", "turn", "activate", "return",
    "narrow",
)  # fmt: skip


def insert(
    model_path: PathLike,
    temperature: Temperature | float,
    out_path: PathLike,
    *,
    logits: str | None = None,
    class_axis: int | None = None,
    probabilities: bool = False,
    keep_logits: bool = False,
) -> Head:
    r"""Write a calibrated copy of a model, and return the head that was calibrated.

    Inputs and outputs keep their names. Outputs that were probabilities, or their logarithms,
    become calibrated. Outputs that were logits z become $\mathrm{softmax}(z / T)$, or $z / T$ with
    `keep_logits`. A temperature that is already in the model is replaced. External data is shared
    in the model's own folder and copied to any other.

    Probabilities p without logits, as in a forest, become $\mathrm{softmax}(\log(p) / T)$. Those
    below the smallest normal number are raised to it.

    Args:
        model_path: The model, of opset 7 or later.
        temperature: A fitted temperature, or a number.
        out_path: Another file, which ends in `.onnx`.
        logits: The name of an output or of a tensor, where the graph leaves a choice.
        class_axis: The axis of the classes, for more than two dimensions without a Softmax.
        probabilities: The output holds probabilities, where the graph does not say so.
        keep_logits: Return calibrated logits instead of probabilities.
    """
    check_output_path(model_path, out_path)
    value = check_temperature(float(temperature))
    model = read_model(model_path)
    head, layout = locate(
        model, model_path, logits=logits, class_axis=class_axis, probabilities=probabilities
    )
    _check_keep_logits(head, keep_logits=keep_logits)
    if isinstance(temperature, Temperature) and layout.classes is not None:
        temperature.check_classes(layout.classes)
    opset = opset_version(model)
    if not any(each.domain in STANDARD_DOMAINS for each in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", opset))
    _remove_nodes(model.graph, head.tensor)
    _add_nodes(model.graph, head, layout, value, opset=opset, keep_logits=keep_logits)
    _write_record(model, head, temperature)
    check_model(strip_weights(model, model_path), "the calibrated model")
    write_model(model, model_path, out_path)
    return head


def find(
    model_path: PathLike,
    *,
    logits: str | None = None,
    class_axis: int | None = None,
    probabilities: bool = False,
    keep_logits: bool = False,
) -> Head:
    """The head that `insert` would calibrate; raises where `insert` would."""
    model = read_model(model_path)
    head, _ = locate(
        model, model_path, logits=logits, class_axis=class_axis, probabilities=probabilities
    )
    _check_keep_logits(head, keep_logits=keep_logits)
    return head


def recorded(model_path: PathLike) -> dict[str, dict[str, Any]]:
    """The temperatures that `insert` put into a model, by the name of the divided tensor."""
    return _read_records(read_model(model_path))


def locate(
    model: onnx.ModelProto,
    path: PathLike,
    *,
    logits: str | None,
    class_axis: int | None,
    probabilities: bool,
) -> tuple[Head, Layout]:
    """The head that the caller means and its layout, in the graph without any temperature."""
    copy = strip_weights(model, path)
    check_model(copy, str(path))
    calibrated = _divided_tensors(copy.graph)
    if calibrated != set(_read_records(model)):
        raise InputError(
            f"{path} must be an original model or one as tepid wrote it, "
            "got one whose temperature was changed by something else"
        )
    remove_temperatures(copy.graph)
    types = infer_types(copy)
    heads = find_heads(copy.graph, types)
    head = choose_head(heads, logits, copy.graph, probabilities=probabilities)
    _check_divided_once(head.tensor, calibrated, copy.graph)
    return head, find_layout(head, types, copy.graph, opset_version(model), class_axis)


def remove_temperatures(graph: onnx.GraphProto) -> None:
    """Undo every `insert`."""
    for tensor in _divided_tensors(graph):
        _remove_nodes(graph, tensor)


def _check_divided_once(tensor: str, calibrated: set[str], graph: onnx.GraphProto) -> None:
    producers = find_producers(graph)
    for other in calibrated - {tensor}:
        if other in ancestors(tensor, producers) or tensor in ancestors(other, producers):
            raise InputError(
                f"logits must be divided once, got {tensor!r} where a temperature divides "
                f"{other!r} already"
            )


def _check_keep_logits(head: Head, *, keep_logits: bool) -> None:
    if keep_logits and head.form != "logits":
        ends = f"ends in {head.maker}" if head.form == "activated" else "gives probabilities"
        raise InputError(f"keep_logits must go with a model that gives logits, got one that {ends}")


# Record -------------------------------------------------------------------------------------------


def _read_records(model: onnx.ModelProto) -> dict[str, dict[str, Any]]:
    text = next((entry.value for entry in model.metadata_props if entry.key == _METADATA), "{}")
    try:
        records = json.loads(text)
    except (ValueError, RecursionError):
        records = None
    if not isinstance(records, dict) or not all(isinstance(r, dict) for r in records.values()):
        raise InputError(f"metadata {_METADATA!r} must be what tepid wrote, got {text[:80]!r}")
    return records


def _write_record(model: onnx.ModelProto, head: Head, temperature: Temperature | float) -> None:
    if isinstance(temperature, Temperature):
        record = dataclasses.replace(temperature, groups={}).as_dict()
    else:
        version = importlib.metadata.version("tepid")
        record = {"tepid": version, "temperature": float(temperature), "method": "given"}
    records = _read_records(model) | {head.tensor: record}
    for entry in [entry for entry in model.metadata_props if entry.key == _METADATA]:
        model.metadata_props.remove(entry)
    model.metadata_props.add(key=_METADATA, value=json.dumps(records))


# Nodes --------------------------------------------------------------------------------------------


class _Step(NamedTuple):
    """One inserted node: its name, operator, the constant that it reads, and its attributes."""

    name: str
    operator: str
    constant: str = ""
    attributes: dict[str, Any] = {}  # noqa: RUF012  # read, never changed


def _node_name(tensor: str, name: str) -> str:
    return f"tepid/{tensor}/{name}"


def _divided_tensors(graph: onnx.GraphProto) -> set[str]:
    """The tensors that a temperature divides."""
    start, end = _node_name("|", "divide").split("|")
    names = [node.name for node in graph.node]
    inserted = [name for name in names if name.startswith(start) and name.endswith(end)]
    return {name.removeprefix(start).removesuffix(end) for name in inserted}


def _remove_nodes(graph: onnx.GraphProto, tensor: str) -> None:
    """Undo `_add_nodes`; does nothing if there is no temperature."""
    inserted = {_node_name(tensor, name) for name in _NODES}
    for items in (graph.node, graph.initializer):
        for item in [item for item in items if item.name in inserted]:
            items.remove(item)
    rename_tensor(graph, _node_name(tensor, "raw"), tensor)
    redirect_readers(graph, _node_name(tensor, "calibrated"), tensor)


def _add_nodes(
    graph: onnx.GraphProto,
    head: Head,
    layout: Layout,
    temperature: float,
    *,
    opset: int,
    keep_logits: bool,
) -> None:
    """Insert the nodes that calibrate the head's tensor, and let its readers read the result."""
    start, end = head.tensor, _node_name(head.tensor, "calibrated")
    if head.readers == ():
        start, end = _node_name(head.tensor, "raw"), head.tensor
        rename_tensor(graph, head.tensor, start)
    else:
        readers = head.readers
        redirect_readers(
            graph,
            start,
            end,
            lambda node: readers is None or any(name in readers for name in node.output),
        )
    steps = list(_steps(head, layout, opset, keep_logits=keep_logits))
    nodes = [*_constants(head, layout, temperature), *_chain(steps, head.tensor, start, end)]
    producer = [i for i, node in enumerate(graph.node) if start in node.output]
    for i, node in enumerate(nodes, start=producer[0] + 1 if producer else 0):
        graph.node.insert(i, node)


def _steps(head: Head, layout: Layout, opset: int, *, keep_logits: bool) -> Iterator[_Step]:
    widened = head.form == "probabilities" and layout.kind in _HALF_TYPES
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
        # Before opset 13 Softmax merges all axes from its own on, so the classes must be last.
        order = list(range(layout.rank))
        order[layout.axis], order[-1] = order[-1], order[layout.axis]
        last = layout.axis == layout.rank - 1
        if not last:
            yield _Step("turn", "Transpose", attributes={"perm": order})
        yield _Step("activate", "Softmax", attributes={"axis": layout.rank - 1})
        if not last:
            yield _Step("return", "Transpose", attributes={"perm": order})


def _chain(steps: list[_Step], tensor: str, start: str, end: str) -> Iterator[onnx.NodeProto]:
    given = start
    for step in steps:
        result = end if step is steps[-1] else _node_name(tensor, f"{step.name}d")
        constants = [_node_name(tensor, step.constant)] if step.constant else []
        yield helper.make_node(
            step.operator,
            [given, *constants],
            [result],
            _node_name(tensor, step.name),
            **step.attributes,
        )
        given = result


def _constants(head: Head, layout: Layout, temperature: float) -> Iterator[onnx.NodeProto]:
    kind = layout.kind
    if head.form == "probabilities":
        kind = onnx.TensorProto.FLOAT if kind in _HALF_TYPES else kind
        smallest = float(np.finfo(FLOAT_TYPES[kind]).smallest_normal)
        yield _constant(head.tensor, "smallest", kind, smallest)
    yield _constant(head.tensor, "temperature", kind, temperature)


def _constant(tensor: str, name: str, kind: int, value: float) -> onnx.NodeProto:
    name = _node_name(tensor, name)
    with np.errstate(over="ignore", under="ignore"):
        stored = helper.make_tensor(name, kind, [], [value])
        rounded = float(onnx.numpy_helper.to_array(stored))
    if not 0 < rounded < float("inf"):
        number = FLOAT_TYPES[kind]
        raise InputError(f"temperature must be a number that {number} holds, got {value}")
    return helper.make_node("Constant", [], [name], name, value=stored)
