"""lightning-uq-box: `TempScaling`, fitted by one epoch of a `Trainer`."""

import logging
from typing import Any

import torch
from lightning import Trainer
from lightning_uq_box.uq_methods import TempScaling
from torch.utils.data import DataLoader, Dataset

from adapters import pickle_and_load, refuse_weights

save_and_load = pickle_and_load
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Logits(torch.nn.Linear):
    """A model whose inputs are its logits; the package reads the number of classes of a layer."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002  # the name in torch
        """Return the logits."""
        return input


class Rows(Dataset[Any]):
    """Rows in the form that the package expects."""

    def __init__(self, z: Any, y: Any) -> None:
        self.z, self.y = torch.from_numpy(z), torch.from_numpy(y)

    def __len__(self) -> int:
        return len(self.z)

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        return {"input": self.z[row], "target": self.y[row]}


def fit(z: Any, y: Any, weights: Any) -> TempScaling:
    """Fit with labels."""
    refuse_weights(weights)
    model = TempScaling(Logits(z.shape[1], z.shape[1]))
    trainer = Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(Rows(z, y), batch_size=1024))
    model.trainer = None  # a trainer is not part of the fitted model
    return model


def predict(model: TempScaling, z: Any) -> Any:
    """Return probabilities."""
    return model.predict_step(torch.from_numpy(z))["pred"].softmax(dim=1).numpy()
