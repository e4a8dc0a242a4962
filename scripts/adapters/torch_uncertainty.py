"""torch-uncertainty: `TemperatureScaler` without a model, on a loader of logits."""

from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset
from torch_uncertainty.post_processing import TemperatureScaler

from adapters import pickle_and_load, refuse_weights

save_and_load = pickle_and_load


def fit(z: Any, y: Any, weights: Any) -> TemperatureScaler:
    """Fit with labels."""
    refuse_weights(weights)
    data = TensorDataset(torch.from_numpy(z), torch.from_numpy(y))
    model = TemperatureScaler()
    model.fit(DataLoader(data, batch_size=4096), progress=False)
    return model


def predict(model: TemperatureScaler, z: Any) -> Any:
    """Return probabilities."""
    return model(torch.from_numpy(z)).softmax(dim=1).numpy()
