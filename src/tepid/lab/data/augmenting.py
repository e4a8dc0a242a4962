"""What is done to a batch of training images at random, drawn from PyTorch's own generator."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tepid.errors import InputError

_MARGIN = 4
_DEGREES = 12.5


def augmented(batch: Tensor, steps: tuple[str, ...]) -> Tensor:
    """A batch (n, channels, height, width) after the named steps, in their order.

    The numbers are drawn on the processor, so that every device sees the same images.
    """
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "flip": lambda x: _mirrored(x, 3),
        "flip-vertical": lambda x: _mirrored(x, 2),
        "rotate": _rotated,
        "crop": lambda x: _cropped(x, "constant"),
        "crop-reflect": lambda x: _cropped(x, "reflect"),
    }
    for step in steps:
        if step not in ways:
            raise InputError(f"augment must be of {', '.join(ways)}, got {step}")
        batch = ways[step](batch)
    return batch


def _chosen(batch: Tensor) -> Tensor:
    """Half of the images, as a mask that broadcasts over them."""
    return (torch.rand(len(batch)) < 0.5).to(batch.device).reshape(-1, 1, 1, 1)


def _mirrored(batch: Tensor, axis: int) -> Tensor:
    return torch.where(_chosen(batch), batch.flip(axis), batch)


def _cropped(batch: Tensor, mode: str) -> Tensor:
    """Images cut at a random place out of themselves with four pixels more on each side."""
    count, channels, height, width = batch.shape
    padded = nn.functional.pad(batch, (_MARGIN,) * 4, mode=mode)
    corners = torch.randint(2 * _MARGIN + 1, (2, count, 1)).to(batch.device)
    down = (corners[0] + torch.arange(height, device=batch.device)).reshape(count, 1, height, 1)
    across = (corners[1] + torch.arange(width, device=batch.device)).reshape(count, 1, 1, width)
    image = torch.arange(count, device=batch.device).reshape(-1, 1, 1, 1)
    return padded[image, torch.arange(channels, device=batch.device)[:, None, None], down, across]


def _rotated(batch: Tensor) -> Tensor:
    """Half of the images turned by up to 12.5 degrees to either side; what comes in is the mean."""
    angles = (2 * torch.rand(len(batch)) - 1) * math.radians(_DEGREES)
    sine, cosine, none = angles.sin(), angles.cos(), torch.zeros(len(batch))
    turns = torch.stack([cosine, -sine, none, sine, cosine, none], dim=1).reshape(-1, 2, 3)
    grid = nn.functional.affine_grid(turns.to(batch.device), list(batch.shape), align_corners=False)
    turned = nn.functional.grid_sample(batch, grid, align_corners=False)
    return torch.where(_chosen(batch), turned, batch)
