"""What one training is of: everything that stays as it is while the weights change."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from tepid.lab.data import Data
from tepid.lab.data.images import scaling
from tepid.lab.processes import Place
from tepid.lab.recipe import Recipe


@dataclass(frozen=True)
class Job:
    """A recipe with its data on a device, a seed, a folder, and what normalises the pixels."""

    recipe: Recipe
    data: Data
    run: Path
    seed: int
    place: Place
    mean: Tensor
    deviation: Tensor

    @property
    def config(self) -> dict[str, Any]:
        """What decides the weights, as JSON has it: two runs that agree in it are the same run."""
        recipe = json.loads(json.dumps(dataclasses.asdict(self.recipe)))
        rows = {"train": len(self.data.train), "test": len(self.data.test)}
        return {**recipe, "seed": self.seed, "processes": self.place.processes, "rows": rows}

    def normalised(self, pixels: Tensor) -> Tensor:
        """Bytes as the network takes them."""
        return (pixels.float() - self.mean) / self.deviation


def job(recipe: Recipe, data: Data, run: Path, seed: int, place: Place) -> Job:
    """The job, with its data moved to the device of this process."""
    mean, deviation = (
        part.to(place.device) for part in scaling(recipe.normalise, data.train.pixels)
    )
    moved = dataclasses.replace(
        data, train=data.train.to(place.device), test=data.test.to(place.device)
    )
    return Job(recipe, moved, run, seed, place, mean, deviation)
