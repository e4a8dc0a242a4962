"""ResNet-20 on CIFAR-10, calibrated in PyTorch without labels: `results/resnet20.json`.

`python benchmarks/resnet20.py FOLDER_OF_WEIGHTS FOLDER_OF_IMAGES` runs the network (see `cifar.py`)
over 2000 unlabeled test images, fixes T by each exact method, and scores the other 8000. The
labels of the 2000 are used by the last row alone. Each T is then put into an ONNX file of the
network, which must give the probabilities of `tepid apply` on all 10,000 (see `exported.py`).
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import cifar
import exported
import numpy as np
import record
import torch

import tepid

FIT, SEED, SPLITS = 2000, 0, 10
HEADER = ("evidence", "T", "ECE, %", "NLL", "mean confidence, %", "ONNX file differs by")


def calibrations(model: Any, images: Any, labels: Any) -> dict[str, Any]:
    """The network calibrated by each exact method; only the last sees labels."""
    with torch.no_grad():
        logits = torch.cat([model(batch) for batch in images.split(250)]).numpy()
    found = {
        "none, UTS": tepid.uts(logits),
        "its published accuracy, .9173": tepid.match_accuracy(logits, 0.9173),
        "labels": tepid.temperature_scaling(logits, labels),
    }
    return {name: tepid.torch.Calibrated(model, t) for name, t in found.items()}


def scored(name: str, temperature: float, logits: Any, labels: Any) -> dict[str, Any]:
    """What a temperature is worth on rows it was not found on."""
    p = tepid.Temperature(temperature, name, samples=FIT, classes=10, implied_accuracy=1.0)(logits)
    return {
        "evidence": name,
        "temperature": temperature,
        "ece": 100 * tepid.metrics.ece(labels, p),
        "nll": tepid.metrics.nll(labels, p),
        "confidence": 100 * tepid.metrics.confidence(labels, p),
    }


def spread(logits: Any) -> dict[str, float]:
    """How far T of UTS moves with the 2000 rows."""
    draws = [np.random.default_rng(s).permutation(len(logits))[:FIT] for s in range(SPLITS)]
    found = [tepid.uts(logits[rows]).value for rows in draws]
    return {"splits": SPLITS, "mean": float(np.mean(found)), "sd": float(np.std(found, ddof=1))}


def rows_of(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """The table's cells."""
    return [
        (
            row["evidence"],
            f"{row['temperature']:.3f}",
            f"{row['ece']:.2f}",
            f"{row['nll']:.3f}",
            f"{row['confidence']:.1f}",
            f"{row['onnx']:.1e}" if "onnx" in row else "",
        )
        for row in result["rows"]
    ]


def deployed(
    model: Any, images: Any, fit: Any, logits: Any, found: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """How the exported network agrees with torch, and by evidence how each calibrated file does."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        about = exported.exported(model, images, logits, folder)
        about["fitted_temperature"] = exported.fitted(images[fit], folder)
        each = {k: exported.agreement(c.calibration, images, folder) for k, c in found.items()}
    return about, each


def main() -> None:
    """Measure and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    parser.add_argument("images", type=Path)
    args = parser.parse_args()
    command = "python benchmarks/resnet20.py FOLDER_OF_WEIGHTS FOLDER_OF_IMAGES"
    packages = ("tepid", "numpy", "numba", "torch", "onnx", "onnxruntime")
    about = record.circumstances(command, SEED, torch.get_num_threads(), packages)
    model = cifar.network(args.weights)
    images, labels = cifar.test_set(args.images)
    order = np.random.default_rng(SEED).permutation(len(images))
    fit, score = order[:FIT], order[FIT:]
    calibrated = calibrations(model, images[fit], labels[fit])
    with torch.no_grad():
        logits = torch.cat([model(batch) for batch in images.split(250)]).numpy()
    found = {"uncalibrated": 1.0} | {k: c.calibration.value for k, c in calibrated.items()}
    rows = {name: scored(name, t, logits[score], labels[score]) for name, t in found.items()}
    onnx, differences = deployed(model, images, fit, logits, calibrated)
    figures = {
        "fitted": FIT,
        "scored": len(score),
        "accuracy": float((logits.argmax(axis=1) == labels).mean()),
        "rows": [row | differences.get(name, {}) for name, row in rows.items()],
        "uts": spread(logits) | {"all": tepid.uts(logits).value},
        "onnx": onnx,
    }
    text = record.preamble("ResNet-20 on CIFAR-10", about)
    text += f"\n{record.table(HEADER, rows_of(figures))}\n"
    record.write("resnet20", about | figures, text)
    print(text, figures["uts"], figures["onnx"])


if __name__ == "__main__":
    main()
