"""What a training changes: the weights, and the memory of its optimiser."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from tepid.lab import networks
from tepid.lab.job import Job


@dataclass(frozen=True)
class Parts:
    """The network, as it is and as the processes share it, its optimiser and its loss scaler."""

    network: nn.Module
    shared: nn.Module
    optimiser: Any
    scaler: Any

    def state(self) -> dict[str, Any]:
        """All that has to be saved."""
        return {
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "scaler": self.scaler.state_dict(),
        }


def begun(job: Job, stored: dict[str, Any] | None, *, download: bool) -> Parts:
    """The parts at the beginning, or as a checkpoint has them."""
    torch.manual_seed(job.seed)
    recipe = job.recipe
    if stored is not None:  # its weights need not be fetched again
        recipe = dataclasses.replace(recipe, pretrained=False)
    network = _in_turn(
        job,
        lambda: networks.build(
            recipe, len(job.data.names), job.data.train.pixels.shape[1], download=download
        ),
    )
    network = network.to(job.place.device, memory_format=torch.channels_last)
    scaler = torch.amp.GradScaler("cuda", enabled=recipe.amp and job.place.device.type == "cuda")
    optimiser = _optimiser(job, network)
    if stored is not None:
        network.load_state_dict(stored["network"])
        optimiser.load_state_dict(stored["optimiser"])
        scaler.load_state_dict(stored["scaler"])
    return Parts(network, job.place.shared(network), optimiser, scaler)


def _in_turn(job: Job, made: Any) -> Any:
    """What the first process makes before the others, which then find fetched weights on disk."""
    if job.place.processes == 1:
        return made()
    network = made() if job.place.leads else None
    dist.barrier()
    return network if job.place.leads else made()


def _optimiser(job: Job, network: nn.Module) -> Any:
    recipe, weights = job.recipe, network.parameters()
    if recipe.optimiser == "adam":
        return torch.optim.Adam(weights, recipe.rate, weight_decay=recipe.weight_decay)
    return torch.optim.SGD(
        weights,
        recipe.rate,
        momentum=recipe.momentum,
        nesterov=recipe.nesterov,
        weight_decay=recipe.weight_decay,
    )
