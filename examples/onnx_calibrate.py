"""Calibrate an ONNX model from unlabeled inputs and its accuracy on a small sample.

    python examples/onnx_calibrate.py

The model is a naive Bayes classifier of five classes. Its input holds every measurement three
times, and it treats the copies as independent, so its logits are three times too large. It is
written to a temporary folder as an ONNX file and then calibrated like any other model.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import tepid

CLASSES, MEASURED, COPIES = 5, 8, 3


def draw(rng, means, rows):
    """Inputs (rows, 24) and their labels."""
    labels = rng.integers(CLASSES, size=rows)
    measured = means[labels] + rng.normal(size=(rows, MEASURED))
    return np.tile(measured, COPIES).astype(np.float32), labels


def write_model(path, means):
    """Logits x·m − ½|m|² for each class; the model's input is `x`, its output `scores`."""
    weights = np.tile(means, COPIES).T.astype(np.float32)
    bias = (-0.5 * (weights**2).sum(axis=0)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "weights", "bias"], ["scores"])],
        "naive_bayes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", COPIES * MEASURED])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", CLASSES])],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(bias, "bias")],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def main(folder):
    """Write, calibrate and run the model."""
    rng = np.random.default_rng(0)
    means = 0.6 * rng.normal(size=(CLASSES, MEASURED))
    write_model(folder / "model.onnx", means)
    inputs, _ = draw(rng, means, 5000)  # without labels
    checked, answers = draw(rng, means, 400)  # a labeled sample

    logits = np.concatenate(list(tepid.onnx.run(folder / "model.onnx", checked)))
    right = int((logits.argmax(axis=1) == answers).sum())

    batches = list(tepid.onnx.run(folder / "model.onnx", inputs))
    temperature = tepid.calibrate(batches, accuracy=tepid.Counted(right, len(answers)))
    tepid.onnx.insert(folder / "model.onnx", temperature, folder / "calibrated.onnx")
    say(f"{right} of {len(answers)} predictions are correct; the true temperature is {COPIES}.")
    say(str(temperature))

    session = onnxruntime.InferenceSession(
        folder / "calibrated.onnx", providers=["CPUExecutionProvider"]
    )
    new, labels = draw(rng, means, 5000)
    (after,) = session.run(["scores"], {"x": new})
    logits = np.concatenate(list(tepid.onnx.run(folder / "model.onnx", new)))
    before = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    for name, p in (("before", before), ("after", after)):
        say(f"ECE {name}: {100 * tepid.metrics.ece(labels, p):.1f} %")


def say(line):
    """Print."""
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))
