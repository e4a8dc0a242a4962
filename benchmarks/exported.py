"""Whether a calibrated ONNX file gives what `tepid apply` gives, for `resnet20.py`.

The network is exported by torch, each temperature is put into that file by `tepid onnx`, and
onnxruntime runs it over every image. The other side is `tepid apply` on the logits of the network
itself, and on those that onnxruntime gives before any temperature: the two runtimes round the
logits differently, and only the second leaves the temperature alone to differ.
"""

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

BATCH = 250


def exported(model: Any, images: Any, logits: Any, folder: Path) -> dict[str, Any]:
    """The network as a file in the folder, with what `agreement` holds its successors against."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter is the one that needs no other package
        torch.onnx.export(
            model,
            (images[:2],),
            str(folder / "network.onnx"),
            dynamo=False,
            input_names=["images"],
            output_names=["scores"],
            dynamic_axes={"images": {0: "n"}, "scores": {0: "n"}},
        )
    own = _run(folder / "network.onnx", images)
    np.save(folder / "torch.npy", logits)
    np.save(folder / "own.npy", own)
    return {"images": len(images), "logits_differ": float(np.abs(own - logits).max())}


def agreement(calibration: Any, images: Any, folder: Path) -> dict[str, Any]:
    """The largest differences of probabilities, over all images and classes, for one temperature.

    `onnx` is against `tepid apply` on the logits of the network in torch, `onnx_own` on those of
    the exported file.
    """
    saved, model = folder / "calibration.json", folder / "calibrated.onnx"
    calibration.save(saved)
    _tepid("onnx", folder / "network.onnx", "--calibration", saved, "-o", model)
    deployed = _run(model, images)
    found = {}
    for name, given in {"onnx": "torch", "onnx_own": "own"}.items():
        _tepid("apply", saved, folder / f"{given}.npy", "-o", folder / "applied.npy")
        applied = np.load(folder / "applied.npy")
        found[name] = float(np.abs(deployed - applied).max())
    return found


def fitted(images: Any, folder: Path) -> float:
    """T of UTS by the one command from a model file to a calibrated model file."""
    np.save(folder / "images.npy", images.numpy())
    whole = ("onnx", folder / "network.onnx", "--data", folder / "images.npy", "--json")
    said = json.loads(_tepid(*whole, "-o", folder / "fitted.onnx"))
    return float(said["calibration"]["temperature"])


def _run(path: Path, images: Any) -> Any:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    parts = [session.run(None, {"images": part.numpy()})[0] for part in images.split(BATCH)]
    return np.concatenate(parts)


def _tepid(*arguments: Any) -> str:
    command = [sys.executable, "-m", "tepid", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
