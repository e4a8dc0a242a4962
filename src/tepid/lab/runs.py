"""Finished runs, and the skin-lesion application: calibrate without labels, report, predict.

What needs PyTorch imports it when it is called.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tepid import comparison, metrics, report
from tepid.errors import InputError
from tepid.lab.recipe import Recipe, build
from tepid.lab.sets import WEIGHTS, LogitSet, open_run, read_run
from tepid.methods import uts
from tepid.summaries.reliability import Reliability
from tepid.temperature import Temperature, load
from tepid.validation import Array, Float32, Int64

NOTICE = (
    "Not a medical device: research software that nobody has validated for diagnosis. "
    "Show any lesion that worries you to a doctor."
)
CALIBRATION, REPORT = "calibration.json", "report.html"
FRACTION = 0.2  # of the test set is used to calibrate, as in the paper
_NAMES = {
    "akiec": "Actinic keratosis or Bowen's disease",
    "bcc": "Basal cell carcinoma",
    "bkl": "Benign keratosis",
    "df": "Dermatofibroma",
    "mel": "Melanoma",
    "nv": "Melanocytic nevus",
    "vasc": "Vascular lesion",
}


@dataclass(frozen=True)
class Scores:
    """NLL and ECE at a temperature, on rows that it was not fitted to; ECE is a fraction."""

    temperature: float
    nll: float
    ece: float


def full_names(classes: Sequence[str]) -> list[str]:
    """The challenge's short names in full; another name stays as it is.

    >>> full_names(["MEL", "nv", "wart"])
    ['Melanoma', 'Melanocytic nevus', 'wart']
    """
    return [_NAMES.get(name.lower(), name) for name in classes]


def split_rows(rows: int) -> tuple[Int64, Int64]:
    """The rows of the test set to calibrate on and to report on, drawn without labels.

    >>> [len(part) for part in split_rows(4006)]
    [801, 3205]
    """
    return comparison.split(rows, round(FRACTION * rows), 0, 0)


def calibrate(run: Path) -> Temperature:
    """The UTS temperature of the run's logits, saved beside them; labels are not opened."""
    logits = np.load(open_run(run).logits, mmap_mode="r", allow_pickle=False)
    inside, _ = split_rows(len(logits))
    if not len(inside):
        raise InputError(f"run must have at least 3 test rows, got {len(logits)}")
    found = uts(logits[inside])
    found.save(run / CALIBRATION)
    return found


def score(run: LogitSet, temperature: Temperature) -> tuple[Scores, Scores]:
    """NLL and ECE at T = 1 and at the temperature, on the rows to report on."""
    z, y = run.read()
    _, outside = split_rows(len(z))

    def scored(value: float) -> Scores:
        summary = Reliability.of_logits(z[outside], y[outside], temperature=value)
        return Scores(value, metrics.nll(summary), metrics.ece(summary))

    return scored(1.0), scored(temperature.value)


def write_report(
    run: Path, temperature: Temperature, images: Array, classes: Sequence[str]
) -> Path:
    """Write the report on the rows not used to calibrate, with a gallery of their images.

    `images` are uint8 (n, h, w, 3), one for each row of the run's logits.
    """
    z, y = open_run(run).read()
    if len(images) != len(z):
        raise InputError(f"images must be one for each of {len(z)} test rows, got {len(images)}")
    _, outside = split_rows(len(z))
    report.write(
        run / REPORT,
        z[outside],
        labels=y[outside],
        temperatures={"uts": temperature},
        names=full_names(classes),
        images=images[outside],
        title="Skin lesions, calibrated without labels. Not a medical device",
    )
    return run / REPORT


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
    from tepid.lab import datasets  # noqa: PLC0415  # PyTorch

    recipe, seed = read_recipe(run), int(read_run(run)["seed"])
    data = datasets.read(recipe, path, seed, download=False, checked=True)
    labels = np.load(run / "labels.npy", allow_pickle=False)
    if not np.array_equal(labels, data.test.labels.numpy()):
        raise InputError(f"data must be those that {run} was trained on, got others in {path}")
    return data.test.pixels.permute(0, 2, 3, 1).numpy(), full_names(data.names)


def predict(run: Path, images: Sequence[Path]) -> list[Prediction]:
    """The probabilities of the lesions for each photograph, at the run's temperature."""
    about, recipe = read_run(run), read_recipe(run)
    if recipe.data != "isic":
        raise InputError(f"run must be of skin lesions, got one of {recipe.data}")
    if not (run / CALIBRATION).is_file():
        raise InputError(f"run must have {CALIBRATION}, which tepid lab isic writes, got none")
    temperature = load(run / CALIBRATION)
    names = full_names(about["classes"])
    logits = _logits(run, recipe, about, images)
    before = dataclasses.replace(temperature, value=1.0, groups={})
    shares = (
        [dict(zip(names, map(float, row), strict=True)) for row in t(logits)]
        for t in (temperature, before)
    )
    return [Prediction(*of) for of in zip(images, *shares, strict=True)]


def _logits(run: Path, recipe: Recipe, about: dict[str, Any], images: Sequence[Path]) -> Float32:
    import torch  # noqa: PLC0415  # an extra

    from tepid.lab import datasets, networks  # noqa: PLC0415  # PyTorch

    pixels = [datasets.read_photograph(path, recipe.size) for path in images]
    plain = dataclasses.replace(recipe, pretrained=False)  # the run has its weights
    network = networks.build(plain, len(about["classes"]), channels=3)
    network.load_state_dict(torch.load(run / WEIGHTS, weights_only=True, map_location="cpu"))
    mean, deviation = (torch.tensor(about[key]).reshape(-1, 1, 1) for key in ("mean", "deviation"))
    shown = datasets.as_images(np.stack(pixels), np.zeros(len(pixels))).pixels
    return networks.run_network(network, shown, mean, deviation)
