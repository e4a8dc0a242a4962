"""The folder of a run: write and resume a training, load it again, and predict.

A folder holds logits and labels, weights, and a record of how they came about. `run.json` is
written last, so that a folder which has it is finished.
"""

import contextlib
import dataclasses
import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise ImportError("tepid.lab.runs needs PyTorch: pip install 'tepid[lab]'") from None

from tepid.errors import InputError
from tepid.lab import datasets, lesions, networks
from tepid.lab.images import as_images
from tepid.lab.recipe import Recipe, build
from tepid.lab.sets import RUN, read_run
from tepid.store import atomic_write
from tepid.temperature import load
from tepid.validation import Array, Float32

CHECKPOINT, WEIGHTS = "checkpoint.pt", "weights.pt"
_ROWS = 500  # of a forward pass without gradients


def save(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values atomically."""
    with atomic_write(path) as file:
        torch.save(state, file)


def checkpoint(run: Path, config: dict[str, Any], device: torch.device) -> dict[str, Any] | None:
    """The checkpoint of an interrupted run of the same config, or None."""
    path = run / CHECKPOINT
    if not path.exists():
        return None
    stored: dict[str, Any] = torch.load(path, weights_only=True, map_location=device)
    _refuse_other(run, stored["config"], config)
    return stored


def finished(run: Path, config: dict[str, Any]) -> dict[str, Any] | None:
    """The record of a finished run of the same config, or None."""
    if not (run / RUN).exists():
        return None
    record = read_run(run)
    _refuse_other(run, record["config"], config)
    return record


def write(
    run: Path, arrays: dict[str, Array], weights: dict[str, Tensor], record: dict[str, Any]
) -> None:
    """Finish a run: write its arrays, weights and record, and remove the checkpoint."""
    for name, array in arrays.items():
        with atomic_write(run / f"{name}.npy") as file:
            np.save(file, array, allow_pickle=False)
    save(run / WEIGHTS, weights)
    with atomic_write(run / RUN) as file:
        file.write((json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())
    (run / CHECKPOINT).unlink(missing_ok=True)


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that a training uses."""
    found = {"python": platform.python_version()}
    for name in ("tepid", "torch", "torchvision", "numpy"):
        with contextlib.suppress(PackageNotFoundError):  # torchvision is optional
            found[name] = version(name)
    return found


def _refuse_other(run: Path, stored: dict[str, Any], config: dict[str, Any]) -> None:
    for key in sorted(stored.keys() | config.keys()):
        if stored.get(key) != config.get(key):
            raise InputError(
                f"{run} must be a new folder or a run of the same recipe, got {key} = "
                f"{config.get(key)!r} where it has {stored.get(key)!r}"
            )


@dataclass(frozen=True)
class Prediction:
    """An image with the probability of each class, calibrated and uncalibrated."""

    image: Path
    probabilities: dict[str, float]
    uncalibrated: dict[str, float]


def read_recipe(run: Path) -> Recipe:
    """The recipe of a finished run, with the settings that replaced its own."""
    config = read_run(run).get("config")
    if not isinstance(config, dict):
        raise InputError(f"run.json must have a config, got none in {run}")
    fields = {field.name for field in dataclasses.fields(Recipe)}
    known = {key: value for key, value in config.items() if key in fields}
    return build(known, f"run {run}")


def read_test_images(run: Path, path: Path) -> tuple[Array, list[str]]:
    """The images (n, height, width, channels) that a run was tested on, and its classes' names."""
    recipe, seed = read_recipe(run), int(read_run(run)["seed"])
    data = datasets.read(recipe, path, seed, download=False, checked=True)
    labels = np.load(run / "labels.npy", allow_pickle=False)
    if not np.array_equal(labels, data.test.labels.numpy()):
        raise InputError(f"data must be those that {run} was trained on, got others in {path}")
    return data.test.pixels.permute(0, 2, 3, 1).numpy(), lesions.full_names(data.names)


def predict(run: Path, images: Sequence[Path]) -> list[Prediction]:
    """The probabilities of the lesions for each photograph, at the run's temperature."""
    about, recipe = read_run(run), read_recipe(run)
    if recipe.data != "isic":
        raise InputError(f"run must be of skin lesions, got one of {recipe.data}")
    if not (run / lesions.CALIBRATION).is_file():
        raise InputError(
            f"run must have {lesions.CALIBRATION}, which tepid lab isic writes, got none"
        )
    temperature = load(run / lesions.CALIBRATION)
    names = lesions.full_names(about["classes"])
    logits = _logits(run, recipe, about, [_photograph(path, recipe.size) for path in images])
    before = dataclasses.replace(temperature, value=1.0, groups={})
    shares = (
        [dict(zip(names, map(float, row), strict=True)) for row in t(logits)]
        for t in (temperature, before)
    )
    return [Prediction(*of) for of in zip(images, *shares, strict=True)]


def _photograph(path: Path, size: int) -> Array:
    try:
        return datasets.read_photograph(path, size)
    except OSError as error:
        raise InputError(f"image must be a picture file, got {path} ({error})") from None


def _logits(run: Path, recipe: Recipe, about: dict[str, Any], pixels: list[Array]) -> Array:
    images = as_images(np.stack(pixels), np.zeros(len(pixels))).pixels
    plain = dataclasses.replace(recipe, pretrained=False)  # the run has its weights
    network = networks.build(plain, len(about["classes"]), images.shape[1])
    network.load_state_dict(torch.load(run / WEIGHTS, weights_only=True, map_location="cpu"))
    mean, deviation = (torch.tensor(about[key]).reshape(-1, 1, 1) for key in ("mean", "deviation"))
    return run_network(network, images, mean, deviation)


def run_network(network: nn.Module, pixels: Tensor, mean: Tensor, deviation: Tensor) -> Float32:
    """The logits (n, classes) of images given as bytes, without dropout."""
    network.eval()
    parts = (((part.float() - mean) / deviation) for part in pixels.split(_ROWS))
    with torch.inference_mode():
        logits = [network(part.contiguous(memory_format=torch.channels_last)) for part in parts]
    return np.asarray(torch.cat(logits).float().cpu())
