"""The logits that a model gives, batch after batch, from inputs without labels."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tepid import arrays
from tepid.arrays import Array
from tepid.errors import InputError, RowError
from tepid.onnx import batches, chains, files, inserting
from tepid.onnx.heads import Head
from tepid.onnx.layouts import Layout

_FOLDER = "session.model_external_initializers_file_folder_path"
_SILENT = 4
# What the sums of a row of probabilities may miss one by.
_NEARLY = 1e-3


def run(
    model_path: files.PathLike,
    data: Any,
    *,
    logits: str | None = None,
    class_axis: int | None = None,
    probabilities: bool = False,
    batch: int | None = None,
    threads: int | None = None,
) -> Iterator[Array]:
    """The logits of all rows of `data`, as blocks (m, k), with onnxruntime on the processor.

    Where the model gives probabilities, these are their logarithms. A temperature that is in the
    model already is left out. Each call runs the model afresh: to fit, keep the blocks in a list or
    a file, because a fit reads its logits several times.

    Args:
        model_path: The model.
        data: An array, a mapping of arrays by the name of the input, a `.npy` or `.npz` file of
            such, or a folder of them, which are read in the order of their names.
        logits: As in `insert`; so are `class_axis` and `probabilities`.
        class_axis: See there.
        probabilities: See there.
        batch: How many rows at once, by default at most 256 and 8 MB; a model that takes batches of
            one size gets those.
        threads: How many threads.
    """
    model = files.read(model_path)
    head, layout = inserting.located(
        model, model_path, logits=logits, class_axis=class_axis, probabilities=probabilities
    )
    session = _session(model, model_path, head, layout, threads)
    ready = batches.batches(data, _inputs(session), batch)
    blocks = _blocks(session, ready, layout)
    if head.form == "probabilities":
        return _logarithms(blocks)
    return _not_probabilities(blocks) if head.form == "logits" and logits is None else blocks


def _session(
    model: onnx.ModelProto, path: files.PathLike, head: Head, layout: Layout, threads: int | None
) -> Any:
    """A session whose one output is the head's tensor."""
    try:
        import onnxruntime  # noqa: PLC0415  # inserting does without
    except ImportError:
        raise InputError(
            "running a model must have onnxruntime, got none; pip install 'tepid[onnx]' brings it"
        ) from None
    for tensor in chains.divided(model.graph):
        chains.take_out(model.graph, tensor)
    kind, name = layout.kind, head.tensor
    if kind == onnx.TensorProto.BFLOAT16:  # which NumPy does not know
        kind, name = onnx.TensorProto.FLOAT, "tepid/logits"
        model.graph.node.append(helper.make_node("Cast", [head.tensor], [name], to=kind))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(name, kind, None))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SILENT
    options.intra_op_num_threads = threads or 0
    options.add_session_config_entry(_FOLDER, str(Path(path).absolute().parent))
    content = model.SerializeToString()
    with _told(path):
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


@contextlib.contextmanager
def _told(path: files.PathLike) -> Iterator[None]:
    """What onnxruntime says against a model or its inputs, as one sentence."""
    try:
        yield
    except Exception as error:
        if "onnxruntime" not in type(error).__module__:
            raise
        said = str(error).strip().splitlines()[0].rpartition(" : ")[2][:300]
        raise InputError(f"{path} must run with onnxruntime, got: {said}") from None


def _inputs(session: Any) -> dict[str, batches.Input]:
    return {
        given.name: batches.Input(
            given.name, given.type, tuple(s if isinstance(s, int) else None for s in given.shape)
        )
        for given in session.get_inputs()
    }


def _blocks(
    session: Any, ready: Iterator[tuple[dict[str, Array], int]], layout: Layout
) -> Iterator[Array]:
    rows = 0
    for feed, rows in ready:
        with _told("the model"):
            (z,) = session.run(None, feed)
        padded = len(next(iter(feed.values())))
        if z.ndim == 0 or len(z) != padded:
            got = f"shape {z.shape} for {padded} rows"
            raise InputError(f"logits must have one entry for each row of the input, got {got}")
        yield layout.rows(z[:rows])
    if not rows:
        raise InputError("data must have at least one row, got none")


def _logarithms(blocks: Iterator[Array]) -> Iterator[Array]:
    start = 0
    for block in blocks:
        try:
            yield arrays.logits_of(block)
        except RowError as error:
            raise error.moved(start) from None
        start += len(block)


def _not_probabilities(blocks: Iterator[Array]) -> Iterator[Array]:
    """Refuse numbers that are no logits by their looks, unless the caller has named them."""
    for i, block in enumerate(blocks):
        several = i == 0 and block.shape[1] > 1
        if several and (block >= 0).all() and (np.abs(block.sum(axis=1) - 1) < _NEARLY).all():
            raise InputError(
                "logits must not be probabilities, got rows that are not negative and sum to one; "
                "--probabilities says that they are meant as such, --logits NAME that they are not"
            )
        yield block
