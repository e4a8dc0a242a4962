"""Run a model with onnxruntime: inputs in batches, logits as arrays (m, k)."""

import contextlib
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tepid import validation
from tepid.errors import InputError, RowError, require
from tepid.onnx.heads import Head, Layout
from tepid.onnx.insertion import locate, remove_temperatures
from tepid.onnx.model import PathLike, TensorType, declared_types
from tepid.sources import array_files, paths
from tepid.validation import Array

_EXTERNAL_DATA_FOLDER = "session.model_external_initializers_file_folder_path"
_LOG_FATAL_ONLY = 4
_MOST_ROWS = 256
_MOST_BYTES = 8 << 20

# The inputs of a model by name.
_Inputs = dict[str, TensorType]


def run(
    model_path: PathLike,
    data: Any,
    *,
    logits: str | None = None,
    class_axis: int | None = None,
    probabilities: bool = False,
    multilabel: bool = False,
    batch: int | None = None,
    threads: int | None = None,
) -> Iterator[Array]:
    """Yield the logits of all rows of `data` in batches (m, k), computed on the CPU.

    If the model returns probabilities, these are their logarithms. A temperature that is already
    in the model is left out. Each call runs the model again. A fit reads its logits several times,
    so keep the batches in a list or a file.

    Args:
        model_path: The model.
        data: An array, a mapping of arrays by the name of the input, a `.npy` or `.npz` file of
            them, or a folder of such files, which are read in the order of their names.
        logits: As in `insert`.
        class_axis: As in `insert`.
        probabilities: As in `insert`.
        multilabel: Each column is a label of its own, whose Sigmoid the model may have.
        batch: The number of rows at once, by default at most 256 and 8 MB. A model with a fixed
            batch size is given that.
        threads: The number of threads.
    """
    model, head, layout = locate(
        model_path,
        logits=logits,
        class_axis=class_axis,
        probabilities=probabilities,
        multilabel=multilabel,
    )
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = declared_types(value for value in model.graph.input if value.name not in stored)
    if not inputs:
        raise InputError("model must take an input, got one that takes none")
    if batch is not None and batch < 1:
        raise InputError(f"batch must be at least 1, got {batch}")
    session = _open_session(model, model_path, head, layout, threads)
    feeds = _read_feeds(data, inputs, batch)
    known = logits is not None or multilabel
    return _run_session(session, feeds, head, layout, known=known)


# Session ------------------------------------------------------------------------------------------


def _open_session(
    model: onnx.ModelProto, path: PathLike, head: Head, layout: Layout, threads: int | None
) -> Any:
    """An onnxruntime session whose only output is the head's tensor."""
    onnxruntime = require("onnxruntime", "onnx", "running a model")
    remove_temperatures(model.graph)
    kind, name = layout.kind, head.tensor
    if kind == onnx.TensorProto.BFLOAT16:  # NumPy has no bfloat16
        kind, name = onnx.TensorProto.FLOAT, "tepid/logits"
        model.graph.node.append(helper.make_node("Cast", [head.tensor], [name], to=kind))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(name, kind, None))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _LOG_FATAL_ONLY
    options.intra_op_num_threads = threads or 0
    options.add_session_config_entry(_EXTERNAL_DATA_FOLDER, str(Path(path).absolute().parent))
    content = model.SerializeToString()
    with _translate_errors(path):
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


@contextlib.contextmanager
def _translate_errors(path: PathLike) -> Iterator[None]:
    """Raise onnxruntime's errors as `InputError` of one line."""
    try:
        yield
    except Exception as error:
        if "onnxruntime" not in type(error).__module__:
            raise
        reason = str(error).strip().splitlines()[0].rpartition(" : ")[2][:300]
        raise InputError(f"{path} must run with onnxruntime, got: {reason}") from None


def _run_session(
    session: Any,
    feeds: Iterator[tuple[dict[str, Array], int]],
    head: Head,
    layout: Layout,
    *,
    known: bool,
) -> Iterator[Array]:
    """Yield the logits of each batch; raises for probabilities, unless they are known not to be."""
    start = 0
    for feed, rows in feeds:
        with _translate_errors("the model"):
            (given,) = session.run(None, feed)
        padded = len(next(iter(feed.values())))
        if given.ndim == 0 or len(given) != padded:
            got = f"shape {given.shape} for {padded} rows"
            raise InputError(f"logits must have one entry for each row of the input, got {got}")
        z = layout.rows(given[:rows])
        if head.form == "probabilities":
            try:
                z = validation.logits_of(z)
            except RowError as error:
                raise error.moved(start) from None
        elif (
            not known
            and not start
            and head.form == "logits"
            and z.shape[1] > 1
            and validation.look_like_probabilities(z)
        ):
            raise InputError(
                "logits must not be probabilities, got rows that are not negative and sum to one; "
                "--probabilities says that they are meant as such, --logits NAME that they are not"
            )
        yield z
        start += len(z)
    if not start:
        raise InputError("data must have at least one row, got none")


# Inputs -------------------------------------------------------------------------------------------


def _read_feeds(
    data: Any, inputs: _Inputs, rows: int | None
) -> Iterator[tuple[dict[str, Array], int]]:
    """Yield the inputs of each batch and its number of rows; further rows are padding."""
    fixed = [each.sizes[0] for each in inputs.values() if each.sizes and each.sizes[0]]
    for where, given in _read_arrays(data, inputs):
        arrays = {
            name: _check_input(given[name], each, f"input {name!r}{where}")
            for name, each in inputs.items()
        }
        counts = {name: len(array) for name, array in arrays.items()}
        count = next(iter(counts.values()))
        if set(counts.values()) != {count}:
            got = ", ".join(f"{count} for {name!r}" for name, count in counts.items())
            raise InputError(f"inputs{where} must have equally many rows, got {got}")
        size = fixed[0] if fixed else rows or _batch_size(arrays)
        for start in range(0, count, size):
            stop = min(start + size, count)
            chosen = np.arange(start, start + size if fixed else stop)
            chosen = np.minimum(chosen, count - 1)  # the last row pads a batch of fixed size
            feed = {
                name: np.require(array[chosen], _dtype_of(inputs[name]), ["C"])
                for name, array in arrays.items()
            }
            yield feed, stop - start


def _batch_size(arrays: dict[str, Array]) -> int:
    row = sum(array.dtype.itemsize * math.prod(array.shape[1:]) for array in arrays.values())
    return max(1, min(_MOST_ROWS, _MOST_BYTES // max(row, 1)))


def _dtype_of(declared: TensorType) -> np.dtype[Any]:
    """The dtype of an input; one of objects if it is no array of numbers."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(declared.kind) if declared.kind else object)


def _check_input(given: Any, declared: TensorType, name: str) -> Array:
    """The array; raises unless its shape and kind of number are those of the input."""
    wanted = _dtype_of(declared)
    if wanted.kind not in "fiub":
        raise InputError(f"{name} must be an array of numbers, got a model that takes {wanted}")
    array = np.asarray(validation.as_array(given, name))
    if array.dtype.kind not in ("iu" if wanted.kind in "iu" else wanted.kind):
        raise InputError(f"{name} must be {wanted}, got {array.dtype}")
    sizes = (None, *(declared.sizes or ())[1:])
    free = declared.sizes is None and array.ndim > 0
    fits = len(sizes) == array.ndim and all(
        s in (None, n) for s, n in zip(sizes, array.shape, strict=True)
    )
    if not fits and not free:
        shape = ", ".join("n" if s is None else str(s) for s in sizes)
        raise InputError(f"{name} must have shape ({shape}), got {array.shape}")
    return array


def _read_arrays(data: Any, inputs: _Inputs) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the arrays by input, file by file, each with words for messages that name the file."""
    if isinstance(data, Mapping):
        missing = [name for name in inputs if name not in data]
        if missing:
            names = ", ".join(map(str, data)) or "none"
            raise InputError(f"data must have the inputs {', '.join(missing)}, got {names}")
        yield "", data
    elif not isinstance(data, (str, os.PathLike)):
        if len(inputs) > 1:
            raise InputError(f"data must name the inputs {', '.join(inputs)}, got one array")
        yield "", dict.fromkeys(inputs, data)
    elif Path(data).is_dir():
        found = sorted(p for p in Path(data).iterdir() if p.suffix.lower() in (".npy", ".npz"))
        if not found:
            raise InputError(f"data must be a folder of .npy or .npz files, got none in {data}")
        for file in found:
            yield f" of {file.name}", _read_file(file, inputs)
    else:
        yield f" of {Path(data).name}", _read_file(Path(data), inputs)


def _read_file(path: Path, inputs: _Inputs) -> dict[str, Array]:
    named, member = paths.split_member(path)
    file = Path(named)
    if file.suffix.lower() not in (".npy", ".npz"):
        raise InputError(f"data must end in .npy or .npz or be a folder of such, got {file.name}")
    if len(inputs) == 1:
        return {name: array_files.read_array(path, name, "data") for name in inputs}
    if member or file.suffix.lower() == ".npy":
        raise InputError(f"{file.name} must have the members {', '.join(inputs)}, got one array")
    return {name: array_files.read_array(f"{file}#{name}", name, "data") for name in inputs}
