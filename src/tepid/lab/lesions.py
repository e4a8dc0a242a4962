"""The skin-lesion application: calibrate a trained network without labels, and report on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tepid import comparison, metrics, report
from tepid.errors import InputError
from tepid.lab.sets import LogitSet, open_run
from tepid.methods import uts
from tepid.summaries.reliability import Reliability
from tepid.temperature import Temperature
from tepid.validation import Array, Int64

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
