"""Skin lesions as an application: calibrate a trained network without labels, and report on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tepid import metrics, protocol, report
from tepid.arrays import Int64
from tepid.errors import InputError
from tepid.lab.sets import LogitSet, open_run
from tepid.methods import from_logits
from tepid.reliability import Reliability
from tepid.temperature import Temperature

NOTICE = (
    "Not a medical device: research software that nobody has validated for diagnosis. "
    "Show any lesion that worries you to a doctor."
)
CALIBRATION, REPORT = "calibration.json", "report.html"
FRACTION = 0.2  # of the test set calibrates, as in the paper
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
    """A temperature on rows that it was not fitted to; ECE is a fraction, as the paper has it."""

    temperature: float
    nll: float
    ece: float


def named(classes: Sequence[str]) -> list[str]:
    """The challenge's short names in full; another name stays as it is.

    >>> named(["MEL", "nv", "wart"])
    ['Melanoma', 'Melanocytic nevus', 'wart']
    """
    return [_NAMES.get(name.lower(), name) for name in classes]


def parts(rows: int, seed: int = 0) -> tuple[Int64, Int64]:
    """The rows of the test set that calibrate and those that are reported on, drawn without labels.

    >>> [len(part) for part in parts(4006)]
    [801, 3205]
    """
    return protocol.split(rows, round(FRACTION * rows), seed, 0)


def calibrate(run: Path, seed: int = 0) -> Temperature:
    """The temperature of UTS from the run's logits, saved beside them; labels are not opened."""
    logits = np.load(open_run(run).logits, mmap_mode="r", allow_pickle=False)
    inside, _ = parts(len(logits), seed)
    if not len(inside):
        raise InputError(f"run must have at least 3 test rows, got {len(logits)}")
    found = from_logits(logits[inside])
    found.save(run / CALIBRATION)
    return found


def score(run: LogitSet, temperature: Temperature, seed: int = 0) -> tuple[Scores, Scores]:
    """NLL and ECE at T = 1 and at the temperature, on the rows that are reported on."""
    z, y = run.read()
    _, outside = parts(len(z), seed)
    z, y = z[outside], y[outside]

    def scored(value: float) -> Scores:
        summary = Reliability.of_logits(z, y, temperature=value)
        return Scores(value, metrics.nll(summary), metrics.ece(summary))

    return scored(1.0), scored(temperature.value)


def write_report(
    run: Path, temperature: Temperature, images: Any, classes: Sequence[str], seed: int = 0
) -> Path:
    """Write the report on the rows that were not calibrated on, with a gallery of their images.

    `images` are uint8 (n, h, w, 3), one for each row of the run's logits.
    """
    z, y = open_run(run).read()
    if len(images) != len(z):
        raise InputError(f"images must be one for each of {len(z)} test rows, got {len(images)}")
    _, outside = parts(len(z), seed)
    report.write(
        run / REPORT,
        z[outside],
        labels=y[outside],
        temperatures={"uts": temperature},
        names=named(classes),
        images=images[outside],
        title="Skin lesions, calibrated without labels. Not a medical device",
    )
    return run / REPORT
