"""Insert a temperature into a model's graph, record it there, and remove it again."""

import dataclasses
import importlib.metadata
import json
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tepid.errors import InputError
from tepid.onnx.heads import Head, Layout, choose_head, find_heads, find_layout
from tepid.onnx.model import (
    FLOAT_TYPES,
    STANDARD_DOMAINS,
    PathLike,
    ancestors,
    check_model,
    check_output_path,
    find_producers,
    infer_types,
    opset_version,
    read_model,
    redirect_readers,
    rename_tensor,
    strip_weights,
    write_model,
)
from tepid.temperature import Temperature
from tepid.validation import check_temperature

# The entry of the model's metadata that describes each temperature, as JSON.
_METADATA = "tepid"
_HALF_TYPES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


def insert(
    model_path: PathLike,
    temperature: Temperature | float,
    out_path: PathLike,
    *,
    logits: str | None = None,
    class_axis: int | None = None,
    probabilities: bool = False,
    multilabel: bool = False,
    keep_logits: bool = False,
) -> Head:
    r"""Write a calibrated copy of a model, and return the head that was calibrated.

    Inputs and outputs keep their names. Outputs that were probabilities, or their logarithms,
    become calibrated. Outputs that were logits z become $\mathrm{softmax}(z / T)$, or $z / T$ with
    `keep_logits`. A temperature that is already in the model is replaced. External data is shared
    in the model's own folder and copied to any other.

    Probabilities p without logits, as in a forest, become $\mathrm{softmax}(\log(p) / T)$. Those
    below the smallest normal number are raised to it.

    A multi-label temperature divides the logits before the Sigmoid of the model, each label by its
    own T if it has one. Outputs that were logits become their sigmoids.

    Args:
        model_path: The model, of opset 7 or later.
        temperature: A fitted temperature, or a number.
        out_path: Another file, which ends in `.onnx`.
        logits: The name of an output or of a tensor, where the graph leaves a choice.
        class_axis: The axis of the classes, for more than two dimensions without a Softmax.
        probabilities: The output holds probabilities, where the graph does not say so.
        multilabel: Each column is a label of its own. A fitted temperature says so itself.
        keep_logits: Return calibrated logits instead of probabilities.
    """
    check_output_path(model_path, out_path)
    value = check_temperature(float(temperature))
    model, head, layout = locate(
        model_path,
        logits=logits,
        class_axis=class_axis,
        probabilities=probabilities,
        multilabel=multilabel or bool(getattr(temperature, "label_names", ())),
        keep_logits=keep_logits,
    )
    values = [value]
    if isinstance(temperature, Temperature):
        _check_fits(temperature, layout)
        values = list(temperature.per_label) if temperature.groups and layout.multilabel else values
    opset = opset_version(model)
    if not any(each.domain in STANDARD_DOMAINS for each in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", opset))
    _remove_nodes(model.graph, head.tensor)
    nodes = _make_nodes(head, layout, values, opset, keep_logits=keep_logits)
    _add_nodes(model.graph, head, nodes)
    _write_record(model, head, temperature)
    check_model(strip_weights(model, model_path), "the calibrated model")
    write_model(model, model_path, out_path)
    return head


def _check_fits(temperature: Temperature, layout: Layout) -> None:
    """Raise unless a temperature is of the model's classes or labels."""
    if layout.multilabel:
        labels = len(temperature.label_names)
        if not labels:
            raise InputError("temperature must be a multi-label one with multilabel, got another")
        if layout.classes not in (None, labels):
            raise InputError(
                f"logits must have the {labels} labels of the calibration, got {layout.classes}"
            )
    elif layout.classes is not None:
        temperature.check_classes(layout.classes)


def find(
    model_path: PathLike,
    *,
    logits: str | None = None,
    class_axis: int | None = None,
    probabilities: bool = False,
    multilabel: bool = False,
    keep_logits: bool = False,
) -> Head:
    """The head that `insert` would calibrate; raises where `insert` would."""
    _, head, _ = locate(
        model_path,
        logits=logits,
        class_axis=class_axis,
        probabilities=probabilities,
        multilabel=multilabel,
        keep_logits=keep_logits,
    )
    return head


def recorded(model_path: PathLike) -> dict[str, dict[str, Any]]:
    """The temperatures that `insert` put into a model, by the name of the divided tensor."""
    return _read_records(read_model(model_path))


def locate(
    path: PathLike,
    *,
    logits: str | None,
    class_axis: int | None,
    probabilities: bool,
    multilabel: bool = False,
    keep_logits: bool = False,
) -> tuple[onnx.ModelProto, Head, Layout]:
    """The model, the head that the caller means, and its layout without any temperature."""
    model = read_model(path)
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
    if keep_logits and head.form != "logits":
        ends = f"ends in {head.maker}" if head.form == "activated" else "gives probabilities"
        raise InputError(f"keep_logits must go with a model that gives logits, got one that {ends}")
    _check_divided_once(head.tensor, calibrated, copy.graph)
    opset = opset_version(model)
    layout = find_layout(head, types, copy.graph, opset, class_axis, multilabel=multilabel)
    return model, head, layout


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
        # A model does not know the group of a row, but it does know the label of a column.
        groups = temperature.groups if temperature.label_names else {}
        record = dataclasses.replace(temperature, groups=groups).as_dict()
    else:
        version = importlib.metadata.version("tepid")
        record = {"tepid": version, "temperature": float(temperature), "method": "given"}
    records = _read_records(model) | {head.tensor: record}
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    helper.set_model_props(model, metadata | {_METADATA: json.dumps(records)})


# Nodes --------------------------------------------------------------------------------------------


# Inserted nodes and constants are called `tepid/TENSOR/STEP`.


def _node_name(tensor: str, step: str) -> str:
    return f"tepid/{tensor}/{step}"


def _divided_tensors(graph: onnx.GraphProto) -> set[str]:
    """The tensors that a temperature divides."""
    places = [node.name.rpartition("/") for node in graph.node]
    return {
        place.removeprefix("tepid/")
        for place, _, step in places
        if place.startswith("tepid/") and step == "divide"
    }


def _remove_nodes(graph: onnx.GraphProto, tensor: str) -> None:
    """Undo `_add_nodes`; does nothing if there is no temperature."""
    for items in (graph.node, graph.initializer):
        for item in [each for each in items if each.name.rpartition("/")[0] == f"tepid/{tensor}"]:
            items.remove(item)
    rename_tensor(graph, _node_name(tensor, "raw"), tensor)
    redirect_readers(graph, _node_name(tensor, "calibrated"), tensor)


def _ends(head: Head) -> tuple[str, str]:
    """The tensors with which the chain of inserted nodes starts and ends."""
    if head.readers == ():  # the tensor leaves the model, under its own name
        return _node_name(head.tensor, "raw"), head.tensor
    return head.tensor, _node_name(head.tensor, "calibrated")


def _add_nodes(graph: onnx.GraphProto, head: Head, nodes: list[onnx.NodeProto]) -> None:
    """Insert the nodes of `_make_nodes`, and let the readers of the tensor read the result."""
    start, end = _ends(head)
    readers = head.readers
    if readers == ():
        rename_tensor(graph, end, start)
    else:
        redirect_readers(
            graph,
            start,
            end,
            lambda node: readers is None or any(name in readers for name in node.output),
        )
    producer = [i for i, node in enumerate(graph.node) if start in node.output]
    for i, node in enumerate(nodes, start=producer[0] + 1 if producer else 0):
        graph.node.insert(i, node)


def _make_nodes(
    head: Head, layout: Layout, temperatures: list[float], opset: int, *, keep_logits: bool
) -> list[onnx.NodeProto]:
    """Constants, and a chain of nodes of which each reads what the one before it gives.

    There is one temperature, or one for each label.
    """
    start, end = _ends(head)
    probabilities = head.form == "probabilities"
    widened = probabilities and layout.kind in _HALF_TYPES
    kind = onnx.TensorProto.FLOAT if widened else layout.kind
    constants: list[onnx.NodeProto] = []
    chain: list[onnx.NodeProto] = []

    def constant(step: str, *values: float, shape: tuple[int, ...] = ()) -> str:
        name = _node_name(head.tensor, step)
        constants.append(_constant(name, kind, values, shape))
        return name

    def add(step: str, operator: str, *others: str, **attributes: Any) -> None:
        name = _node_name(head.tensor, step)
        given = chain[-1].output[0] if chain else start
        node = helper.make_node(operator, [given, *others], [f"{name}d"], name, **attributes)
        chain.append(node)

    if widened:
        add("widen", "Cast", to=kind)
    if probabilities:
        smallest = float(np.finfo(FLOAT_TYPES[kind]).smallest_normal)
        add("floor", "Max", constant("smallest", smallest))
        add("log", "Log")
    each = (len(temperatures), *[1] * layout.trailing) if len(temperatures) > 1 else ()
    add("divide", "Div", constant("temperature", *temperatures, shape=each))
    if head.form != "activated" and not keep_logits:
        for step, operator, attributes in _activation(layout, opset):
            add(step, operator, **attributes)
    if widened:
        add("narrow", "Cast", to=layout.kind)
    chain[-1].output[0] = end
    return [*constants, *chain]


def _activation(layout: Layout, opset: int) -> list[tuple[str, str, dict[str, Any]]]:
    """The name, operator and attributes of each node that makes probabilities of logits."""
    if layout.binary or layout.multilabel:
        return [("activate", "Sigmoid", {})]
    if opset >= 13 or layout.axis + 1 == layout.rank:
        return [("activate", "Softmax", {"axis": layout.axis})]
    if layout.rank is None:
        raise InputError("logits must have a known number of dimensions, got none before opset 13")
    # Before opset 13 Softmax merges all axes from its own on, so the classes must be last.
    order = list(range(layout.rank))
    order[layout.axis], order[-1] = order[-1], order[layout.axis]
    return [
        ("turn", "Transpose", {"perm": order}),
        ("activate", "Softmax", {"axis": layout.rank - 1}),
        ("return", "Transpose", {"perm": order}),
    ]


def _constant(
    name: str, kind: int, values: tuple[float, ...], shape: tuple[int, ...]
) -> onnx.NodeProto:
    with np.errstate(over="ignore", under="ignore"):
        stored = helper.make_tensor(name, kind, shape, values)
        rounded = onnx.numpy_helper.to_array(stored).astype(np.float64).reshape(-1)
    for value, held in zip(values, rounded, strict=True):
        if not 0 < held < np.inf:
            number = FLOAT_TYPES[kind]
            raise InputError(f"temperature must be a number that {number} holds, got {value}")
    return helper.make_node("Constant", [], [name], name, value=stored)
