"""One process, or the several of `torchrun`, each with its own device and its share of a batch."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn


@dataclass(frozen=True)
class Place:
    """Which of how many processes this is, and the device that it computes on."""

    rank: int
    processes: int
    device: Any

    @property
    def leads(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def own(self, rows: Any) -> Any:
        """This process's share of a batch; shares are equal, so up to so many rows are left out."""
        return rows[: len(rows) // self.processes * self.processes][self.rank :: self.processes]

    def total(self, values: Any) -> Any:
        """The sum over all processes."""
        if self.processes > 1:
            dist.all_reduce(values)
        return values

    def shared(self, network: nn.Module) -> nn.Module:
        """The network whose gradients are the mean over all processes."""
        if self.processes == 1:
            return network
        devices = [self.device] if self.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(network, device_ids=devices)


@contextlib.contextmanager
def placed() -> Iterator[Place]:
    """This process among those that `torchrun` started, or alone."""
    several = int(os.environ.get("WORLD_SIZE", "1"))
    device = _device(int(os.environ.get("LOCAL_RANK", "0")))
    if several == 1:
        yield Place(0, 1, device)
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Place(dist.get_rank(), several, device)
    finally:
        dist.destroy_process_group()


def _device(number: int) -> Any:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(number)
    return torch.device("cuda", number)
