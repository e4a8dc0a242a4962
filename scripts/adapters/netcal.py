"""netcal: `netcal.scaling.TemperatureScaling` on probabilities, as in its README.

The probabilities of two classes are one column, that of the second class.
"""

from pathlib import Path
from typing import Any

import numpy as np
from netcal.scaling import TemperatureScaling

from adapters import refuse_weights

TAKES_PROBABILITIES = True


def fit(p: Any, y: Any, weights: Any) -> TemperatureScaling:
    """Fit with labels."""
    refuse_weights(weights)
    model = TemperatureScaling()
    model.fit(p[:, 1] if p.shape[1] == 2 else p, y)
    return model


def predict(model: TemperatureScaling, p: Any) -> Any:
    """Return probabilities."""
    if p.shape[1] > 2:
        return model.transform(p)
    second = np.asarray(model.transform(p[:, 1])).reshape(-1)
    return np.stack([1 - second, second], axis=1)


def save_and_load(model: TemperatureScaling, path: Path) -> TemperatureScaling:
    """Use `save_model` and `load_model`."""
    model.save_model(str(path))
    return TemperatureScaling().load_model(str(path))
