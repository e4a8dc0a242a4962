"""probmetrics: `TemperatureScalingCalibrator` on `CategoricalLogits`, as in its README."""

from typing import Any

import torch
from probmetrics.calibrators import TemperatureScalingCalibrator
from probmetrics.distributions import CategoricalLogits

from adapters import pickle_and_load, refuse_weights

save_and_load = pickle_and_load


def fit(z: Any, y: Any, weights: Any) -> TemperatureScalingCalibrator:
    """Fit with labels."""
    refuse_weights(weights)
    model = TemperatureScalingCalibrator()
    model.fit_torch(CategoricalLogits(torch.from_numpy(z)), torch.from_numpy(y))
    return model


def predict(model: TemperatureScalingCalibrator, z: Any) -> Any:
    """Return probabilities."""
    return model.predict_proba_torch(CategoricalLogits(torch.from_numpy(z))).get_probs().numpy()
