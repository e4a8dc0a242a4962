"""What is said to the log, under the name `tepid`."""

import logging

from tepid.temperature import Temperature

_log = logging.getLogger("tepid")


def doubts(calibration: Temperature) -> None:
    """Say as one warning whatever speaks against a temperature."""
    if calibration.warnings or calibration.status != "ok":
        _log.warning("%s: %s", _found(calibration), " ".join(calibration.warnings))


def settled(calibration: Temperature, used: float) -> None:
    """Say that a warm-up has ended, and what speaks against its temperature."""
    _log.info(
        "%s from the first %d rows; T = %.4g is used from here on",
        _found(calibration),
        calibration.samples,
        used,
    )
    doubts(calibration)


def left_out(rows: int) -> None:
    """Say that rows of a warm-up could not be used."""
    _log.warning("%d rows were left out of the warm-up: their logits are not finite", rows)


def _found(calibration: Temperature) -> str:
    return f"T = {calibration.value:.4g} ({calibration.method}, {calibration.status})"
