"""The division by T, put into a model's graph, recorded there, and taken out again."""

import dataclasses
import importlib.metadata
import json
from typing import Any

import onnx

from tepid.arrays import check_temperature
from tepid.errors import InputError
from tepid.onnx import chains, files, graphs, heads, layouts, shapes
from tepid.onnx.bare import bare, check
from tepid.onnx.heads import Head
from tepid.onnx.layouts import Layout
from tepid.temperature import Temperature

_KEY = "tepid"


def insert(
    model_path: files.PathLike,
    temperature: Temperature | float,
    out_path: files.PathLike,
    *,
    logits: str | None = None,
    class_axis: int | None = None,
    probabilities: bool = False,
    keep_logits: bool = False,
) -> Head:
    r"""The head that was calibrated, of a model that is written as a file of its own.

    The names of inputs and outputs stay. What gave probabilities, or their logarithms, gives
    calibrated ones; what gave logits z gives $\mathrm{softmax}(z / T)$, or $z / T$ with
    `keep_logits`. A model that has a temperature already gets the new one in its place. External
    data is shared in the model's own folder and copied to another.

    Probabilities p, where no logits are to be had as in a forest, become
    $\mathrm{softmax}(\log(p) / T)$; those below the smallest normal number count as that.

    Args:
        model_path: The model, of opset 7 or later.
        temperature: What a method of tepid returned, or a number.
        out_path: Another file, which ends in `.onnx`.
        logits: The name of an output or of a tensor, where the graph leaves a choice.
        class_axis: Where the classes are, for more than two dimensions without a Softmax.
        probabilities: Say that the output holds probabilities, where the graph does not.
        keep_logits: Give calibrated logits in the place of probabilities.
    """
    files.check_target(model_path, out_path)
    value = check_temperature(float(temperature))
    model = files.read(model_path)
    head, layout = located(
        model, model_path, logits=logits, class_axis=class_axis, probabilities=probabilities
    )
    _check_keeping(head, keep_logits=keep_logits)
    if isinstance(temperature, Temperature) and layout.classes is not None:
        temperature.check_classes(layout.classes)
    chains.take_out(model.graph, head.tensor)
    if not any(given.domain in ("", "ai.onnx") for given in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid("", files.opset(model)))
    chains.put_in(
        model.graph, head, layout, value, opset=files.opset(model), keep_logits=keep_logits
    )
    _record(model, head, temperature)
    check(bare(model, model_path), "the calibrated model")
    files.write(model, model_path, out_path)
    return head


def find(
    model_path: files.PathLike,
    *,
    logits: str | None = None,
    class_axis: int | None = None,
    probabilities: bool = False,
    keep_logits: bool = False,
) -> Head:
    """The head that `insert` would calibrate, or its refusal."""
    model = files.read(model_path)
    head, _ = located(
        model, model_path, logits=logits, class_axis=class_axis, probabilities=probabilities
    )
    _check_keeping(head, keep_logits=keep_logits)
    return head


def recorded(model_path: files.PathLike) -> dict[str, dict[str, Any]]:
    """What `insert` noted in a model of each temperature, by the name of the tensor it divides."""
    return _records(files.read(model_path))


def located(
    model: onnx.ModelProto,
    path: files.PathLike,
    *,
    logits: str | None,
    class_axis: int | None,
    probabilities: bool,
) -> tuple[Head, Layout]:
    """The head that is meant, as the graph was before any temperature came into it."""
    copy = bare(model, path)
    check(copy, str(path))
    there = chains.divided(copy.graph)
    if there != set(_records(model)):
        raise InputError(
            f"{path} must be an original model or one as tepid wrote it, "
            "got one whose temperature was changed by something else"
        )
    for tensor in there:
        chains.take_out(copy.graph, tensor)
    known = shapes.inferred(copy)
    found = heads.candidates(copy.graph, known)
    head = heads.choose(found, logits, copy.graph, probabilities=probabilities)
    _check_once(head.tensor, there, copy.graph)
    layout = layouts.layout_of(head, known, copy.graph, files.opset(model), class_axis)
    return head, layout


def _check_once(tensor: str, there: set[str], graph: onnx.GraphProto) -> None:
    made = graphs.makers(graph)
    for other in there - {tensor}:
        if other in graphs.above(tensor, made) or tensor in graphs.above(other, made):
            raise InputError(
                f"logits must be divided once, got {tensor!r} where a temperature divides "
                f"{other!r} already"
            )


def _check_keeping(head: Head, *, keep_logits: bool) -> None:
    if keep_logits and head.form != "logits":
        ends = f"ends in {head.maker}" if head.form == "activated" else "gives probabilities"
        raise InputError(f"keep_logits must go with a model that gives logits, got one that {ends}")


def _records(model: onnx.ModelProto) -> dict[str, dict[str, Any]]:
    text = next((entry.value for entry in model.metadata_props if entry.key == _KEY), "{}")
    try:
        records = json.loads(text)
    except (ValueError, RecursionError):
        records = None
    if not isinstance(records, dict) or not all(isinstance(r, dict) for r in records.values()):
        raise InputError(f"metadata {_KEY!r} must be what tepid wrote, got {text[:80]!r}")
    return records


def _record(model: onnx.ModelProto, head: Head, temperature: Temperature | float) -> None:
    if isinstance(temperature, Temperature):
        said = dataclasses.replace(temperature, groups={}).as_dict()
    else:
        version = importlib.metadata.version("tepid")
        said = {"tepid": version, "temperature": float(temperature), "method": "given"}
    records = _records(model) | {head.tensor: said}
    for entry in [entry for entry in model.metadata_props if entry.key == _KEY]:
        model.metadata_props.remove(entry)
    model.metadata_props.add(key=_KEY, value=json.dumps(records))
