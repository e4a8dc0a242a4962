"""A finished run, loaded again: its recipe, its network, and what it says of an image."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tepid.arrays import Array
from tepid.errors import InputError
from tepid.lab import networks, runs, skin
from tepid.lab.data import Data, read
from tepid.lab.data.lesions import photograph
from tepid.lab.recipe import Recipe
from tepid.lab.sets import read_run
from tepid.lab.typed import typed
from tepid.temperature import load


@dataclass(frozen=True)
class Prediction:
    """An image with the probability of each class, calibrated and as the network had it."""

    image: Path
    probabilities: dict[str, float]
    uncalibrated: dict[str, float]

    @property
    def ranked(self) -> list[tuple[str, float, float]]:
        """Every class with both probabilities, the likeliest first."""
        order = sorted(self.probabilities, key=lambda name: -self.probabilities[name])
        return [(name, self.probabilities[name], self.uncalibrated[name]) for name in order]


def recipe_of(run: Path) -> Recipe:
    """The recipe that a finished run was trained by, with what was set in the place of its own."""
    config = read_run(run).get("config")
    if not isinstance(config, dict):
        raise InputError(f"run.json must have a config, got none in {run}")
    fields = {field.name for field in dataclasses.fields(Recipe)}
    known = {key: value for key, value in config.items() if key in fields}
    return typed(Recipe, known, f"run {run}")


def data_of(run: Path, path: Path) -> Data:
    """The images that a finished run was trained and tested on, in the same order."""
    data = read(recipe_of(run), path, int(read_run(run)["seed"]), download=False, checked=True)
    labels = np.load(run / "labels.npy", allow_pickle=False)
    if not np.array_equal(labels, data.test.labels.numpy()):
        raise InputError(f"data must be those that {run} was trained on, got others in {path}")
    return data


def predict(run: Path, images: Sequence[Path]) -> list[Prediction]:
    """The probabilities of the lesions for each photograph, at the run's own temperature."""
    about, recipe = read_run(run), recipe_of(run)
    if recipe.data != "isic":
        raise InputError(f"run must be of skin lesions, got one of {recipe.data}")
    if not (run / skin.CALIBRATION).is_file():
        raise InputError(f"run must have {skin.CALIBRATION}, which tepid lab isic writes, got none")
    temperature = load(run / skin.CALIBRATION)
    names = skin.named(about["classes"])
    pixels = np.stack([_photograph(path, recipe.size) for path in images])
    logits = _logits(run, recipe, about, torch.from_numpy(pixels).permute(0, 3, 1, 2))
    before = dataclasses.replace(temperature, value=1.0, groups={})(logits)
    pairs = zip(images, temperature(logits), before, strict=True)
    return [Prediction(path, _named(names, p), _named(names, q)) for path, p, q in pairs]


def _named(names: list[str], shares: Array) -> dict[str, float]:
    return dict(zip(names, map(float, shares), strict=True))


def _photograph(path: Path, size: int) -> Array:
    try:
        pixels: Array = photograph(path, size)
    except OSError as error:
        raise InputError(f"image must be a picture file, got {path} ({error})") from None
    return pixels


def _logits(run: Path, recipe: Recipe, about: dict[str, Any], pixels: Tensor) -> Array:
    plain = dataclasses.replace(recipe, pretrained=False)  # its weights are the run's
    network = networks.build(plain, len(about["classes"]), pixels.shape[1])
    network.load_state_dict(torch.load(run / runs.WEIGHTS, weights_only=True, map_location="cpu"))
    network.eval()
    mean, deviation = (torch.tensor(about[key]).reshape(-1, 1, 1) for key in ("mean", "deviation"))
    with torch.inference_mode():
        logits: Array = network((pixels.float() - mean) / deviation).float().numpy()
    return logits
