"""Run a model with onnxruntime: inputs in batches, logits as arrays (m, k)."""

import contextlib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tepid import validation
from tepid.errors import InputError, RowError, require
from tepid.onnx.files import PathLike, read_model
from tepid.onnx.heads import Head, Layout
from tepid.onnx.insertion import locate, remove_temperatures
from tepid.sources import array_files, paths
from tepid.validation import Array

_EXTERNAL_DATA_FOLDER = "session.model_external_initializers_file_folder_path"
_LOG_FATAL_ONLY = 4
# Rows of probabilities may sum to one within this.
_SUM_TOLERANCE = 1e-3
_MOST_ROWS = 256
_MOST_BYTES = 8 << 20
_DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    **{
        f"tensor({name})": name
        for name in (
            "float16", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
            "uint64",
        )
    },
}  # fmt: skip


def run(
    model_path: PathLike,
    data: Any,
    *,
    logits: str | None = None,
    class_axis: int | None = None,
    probabilities: bool = False,
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
        batch: The number of rows at once, by default at most 256 and 8 MB. A model with a fixed
            batch size is given that.
        threads: The number of threads.
    """
    model = read_model(model_path)
    head, layout = locate(
        model, model_path, logits=logits, class_axis=class_axis, probabilities=probabilities
    )
    session = _open_session(model, model_path, head, layout, threads)
    feeds = _read_feeds(data, _declared_inputs(session), batch)
    outputs = _run_session(session, feeds, layout)
    if head.form == "probabilities":
        return _take_logarithms(outputs)
    return _refuse_probabilities(outputs) if head.form == "logits" and logits is None else outputs


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
    session: Any, feeds: Iterator[tuple[dict[str, Array], int]], layout: Layout
) -> Iterator[Array]:
    rows = 0
    for feed, rows in feeds:
        with _translate_errors("the model"):
            (z,) = session.run(None, feed)
        padded = len(next(iter(feed.values())))
        if z.ndim == 0 or len(z) != padded:
            got = f"shape {z.shape} for {padded} rows"
            raise InputError(f"logits must have one entry for each row of the input, got {got}")
        yield layout.rows(z[:rows])
    if not rows:
        raise InputError("data must have at least one row, got none")


def _take_logarithms(batches: Iterator[Array]) -> Iterator[Array]:
    start = 0
    for batch in batches:
        try:
            yield validation.logits_of(batch)
        except RowError as error:
            raise error.moved(start) from None
        start += len(batch)


def _refuse_probabilities(batches: Iterator[Array]) -> Iterator[Array]:
    """Raise if the first batch looks like probabilities; the caller has not named the tensor."""
    for i, z in enumerate(batches):
        several = i == 0 and z.shape[1] > 1
        if several and (z >= 0).all() and (np.abs(z.sum(axis=1) - 1) < _SUM_TOLERANCE).all():
            raise InputError(
                "logits must not be probabilities, got rows that are not negative and sum to one; "
                "--probabilities says that they are meant as such, --logits NAME that they are not"
            )
        yield z


# Inputs -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Input:
    """An input's name, its type as onnxruntime writes it, and its sizes, None where free."""

    name: str
    kind: str
    sizes: tuple[int | None, ...]

    def check(self, given: Any, where: str) -> Array:
        """The array; raises unless shape and kind of number are those of the input."""
        name = f"input {self.name!r}{where}"
        if self.kind not in _DTYPES:
            raise InputError(
                f"{name} must be an array of numbers, got a model that takes {self.kind}"
            )
        array = np.asarray(validation.as_array(given, name))
        wanted = np.dtype(_DTYPES[self.kind])
        kinds = "iu" if wanted.kind in "iu" else wanted.kind
        if array.dtype.kind not in kinds:
            raise InputError(f"{name} must be {wanted}, got {array.dtype}")
        sizes = list(zip(self.sizes[1:], array.shape[1:], strict=False))
        fits = array.ndim == len(self.sizes) and all(s in (None, n) for s, n in sizes)
        if not fits or array.ndim == 0:
            shape = ", ".join("n" if s is None else str(s) for s in (None, *self.sizes[1:]))
            raise InputError(f"{name} must have shape ({shape}), got {array.shape}")
        return array


def _declared_inputs(session: Any) -> dict[str, _Input]:
    return {
        each.name: _Input(
            each.name, each.type, tuple(s if isinstance(s, int) else None for s in each.shape)
        )
        for each in session.get_inputs()
    }


def _read_feeds(
    data: Any, inputs: dict[str, _Input], rows: int | None
) -> Iterator[tuple[dict[str, Array], int]]:
    """Yield the inputs of each batch and its number of rows; further rows are padding."""
    if rows is not None and rows < 1:
        raise InputError(f"batch must be at least 1, got {rows}")
    fixed = [each.sizes[0] for each in inputs.values() if each.sizes and each.sizes[0]]
    for where, arrays in _read_arrays(data, inputs):
        whole = {name: each.check(arrays[name], where) for name, each in inputs.items()}
        count = _count_rows(whole, where)
        size = int(fixed[0] or 1) if fixed else rows or _batch_size(whole, count)
        for start in range(0, count, size):
            stop = min(start + size, count)
            chosen = np.arange(start, start + size if fixed else stop)
            chosen = np.minimum(chosen, count - 1)  # the last row pads a batch of fixed size
            feed = {
                name: np.require(array[chosen], _DTYPES[inputs[name].kind], ["C"])
                for name, array in whole.items()
            }
            yield feed, stop - start


def _count_rows(arrays: dict[str, Array], where: str) -> int:
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) != 1:
        got = ", ".join(f"{count} for {name!r}" for name, count in counts.items())
        raise InputError(f"inputs{where} must have equally many rows, got {got}")
    return next(iter(counts.values()))


def _batch_size(arrays: dict[str, Array], count: int) -> int:
    row = sum(array.dtype.itemsize * math.prod(array.shape[1:]) for array in arrays.values())
    return max(1, min(_MOST_ROWS, count, _MOST_BYTES // max(row, 1)))


def _read_arrays(data: Any, inputs: dict[str, _Input]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the arrays by input, file by file, each with words for messages that name the file."""
    if not inputs:
        raise InputError("model must take an input, got one that takes none")
    if not isinstance(data, (str, os.PathLike)):
        yield "", _by_input(data, inputs)
        return
    path = Path(data)
    if not path.is_dir():
        yield f" of {path.name}", _open_file(path, inputs)
        return
    found = sorted(p for p in path.iterdir() if p.suffix.lower() in (".npy", ".npz"))
    if not found:
        raise InputError(f"data must be a folder of .npy or .npz files, got none in {path}")
    for file in found:
        yield f" of {file.name}", _open_file(file, inputs)


def _by_input(data: Any, inputs: dict[str, _Input]) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        if len(inputs) > 1:
            raise InputError(f"data must name the inputs {', '.join(inputs)}, got one array")
        return dict.fromkeys(inputs, data)
    missing = [name for name in inputs if name not in data]
    if missing:
        names = ", ".join(map(str, data)) or "none"
        raise InputError(f"data must have the inputs {', '.join(missing)}, got {names}")
    return data


def _open_file(path: Path, inputs: dict[str, _Input]) -> Mapping[str, Array]:
    named, member = paths.split_member(path)
    file = Path(named)
    if file.suffix.lower() not in (".npy", ".npz"):
        raise InputError(f"data must end in .npy or .npz or be a folder of such, got {file.name}")
    if len(inputs) > 1 and (member or file.suffix.lower() == ".npy"):
        raise InputError(f"{file.name} must have the members {', '.join(inputs)}, got one array")
    if len(inputs) == 1:
        name = next(iter(inputs))
        return {name: array_files.read_array(path, name, "data")}
    return {name: array_files.read_array(f"{file}#{name}", name, "data") for name in inputs}
