"""tepid: `temperature_scaling`, and the result is callable on logits."""

from pathlib import Path
from typing import Any

import tepid


def fit(z: Any, y: Any, weights: Any) -> tepid.Temperature:
    """Fit with labels."""
    return tepid.temperature_scaling(z, y, sample_weight=weights)


def predict(model: tepid.Temperature, z: Any) -> Any:
    """Return probabilities."""
    return model(z)


def save_and_load(model: tepid.Temperature, path: Path) -> tepid.Temperature:
    """Use `Temperature.save` and `tepid.load`."""
    model.save(path.with_suffix(".json"))
    return tepid.load(path.with_suffix(".json"))


def notice(model: tepid.Temperature) -> str:
    """Return the warnings that the result carries and prints."""
    return " ".join(model.warnings)
