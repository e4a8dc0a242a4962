"""Labeled images in memory: normalization and random augmentation.

Pixels are held as bytes; the largest set of the paper takes 1.5 GB.
"""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise ImportError("tepid.lab.images needs PyTorch: pip install 'tepid[lab]'") from None

from tepid.errors import InputError
from tepid.validation import Array, Int64

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_MARGIN = 4
_DEGREES = 12.5


@dataclass(frozen=True)
class Images:
    """Pixels (n, channels, height, width) as bytes, and the class of each image."""

    pixels: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def first(self, rows: int) -> "Images":
        """The first `rows` images; 0 means all."""
        return self if not rows else Images(self.pixels[:rows], self.labels[:rows])

    def to(self, device: torch.device) -> "Images":
        """The same on another device."""
        return Images(self.pixels.to(device), self.labels.to(device))


@dataclass(frozen=True)
class Data:
    """A training set and a test set, with the names of the classes.

    `rows` are the test set's positions in the set that both were split from. `checked` tells
    whether the files had their published checksums.
    """

    train: Images
    test: Images
    names: tuple[str, ...]
    rows: Int64 | None = None
    checked: bool = False


def as_images(pixels: Array, labels: ArrayLike) -> Images:
    """Images from arrays (n, height, width, channels), or without the last where it is one."""
    given = torch.from_numpy(np.ascontiguousarray(pixels))
    given = given[:, None] if given.ndim == 3 else given.permute(0, 3, 1, 2)
    return Images(given.contiguous(), torch.from_numpy(np.asarray(labels, dtype=np.int64)))


def normalization(kind: str, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and standard deviation (channels, 1, 1) that bytes are normalized by.

    `channels` computes them from the given training pixels, `imagenet` uses those of ImageNet, and
    `unit` only divides by 255.
    """
    channels = pixels.shape[1]
    if kind == "imagenet":
        mean, deviation = (255 * torch.tensor(values) for values in IMAGENET)
    elif kind == "channels":
        # From counts of the byte values: exact, without a copy of the pixels in floating point.
        counts = torch.stack([torch.bincount(p.flatten(), minlength=256) for p in pixels.unbind(1)])
        share, value = counts.double() / counts.sum(1, keepdim=True), torch.arange(256.0).double()
        mean = share @ value
        deviation = ((share @ value**2) - mean**2).clamp(min=1).sqrt()
    else:
        mean, deviation = torch.zeros(channels), torch.full((channels,), 255.0)
    return mean.float().reshape(-1, 1, 1), deviation.float().reshape(-1, 1, 1)


def augment(batch: Tensor, steps: tuple[str, ...]) -> Tensor:
    """A batch (n, channels, height, width) after the named random steps, in their order.

    The random numbers come from PyTorch's CPU generator, so that every device sees the same
    images.
    """
    for step in steps:
        if step not in _STEPS:
            raise InputError(f"augment must be of {', '.join(_STEPS)}, got {step}")
        batch = _STEPS[step](batch)
    return batch


def _random_half(batch: Tensor) -> Tensor:
    """A mask of about half of the images, which broadcasts over them."""
    return (torch.rand(len(batch)) < 0.5).to(batch.device).reshape(-1, 1, 1, 1)


def _flip(batch: Tensor, axis: int) -> Tensor:
    return torch.where(_random_half(batch), batch.flip(axis), batch)


def _crop(batch: Tensor, mode: str) -> Tensor:
    """Pad by four pixels on each side and cut the original size at a random position."""
    count, channels, height, width = batch.shape
    padded = nn.functional.pad(batch, (_MARGIN,) * 4, mode=mode)
    corners = torch.randint(2 * _MARGIN + 1, (2, count, 1)).to(batch.device)
    down = (corners[0] + torch.arange(height, device=batch.device)).reshape(count, 1, height, 1)
    across = (corners[1] + torch.arange(width, device=batch.device)).reshape(count, 1, 1, width)
    image = torch.arange(count, device=batch.device).reshape(-1, 1, 1, 1)
    return padded[image, torch.arange(channels, device=batch.device)[:, None, None], down, across]


def _rotate(batch: Tensor) -> Tensor:
    """Rotate half of the images by up to 12.5 degrees either way; new pixels are zero, the mean."""
    angles = (2 * torch.rand(len(batch)) - 1) * math.radians(_DEGREES)
    sine, cosine, none = angles.sin(), angles.cos(), torch.zeros(len(batch))
    turns = torch.stack([cosine, -sine, none, sine, cosine, none], dim=1).reshape(-1, 2, 3)
    grid = nn.functional.affine_grid(turns.to(batch.device), list(batch.shape), align_corners=False)
    turned = nn.functional.grid_sample(batch, grid, align_corners=False)
    return torch.where(_random_half(batch), turned, batch)


_STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "flip": lambda x: _flip(x, 3),
    "flip-vertical": lambda x: _flip(x, 2),
    "rotate": _rotate,
    "crop": lambda x: _crop(x, "constant"),
    "crop-reflect": lambda x: _crop(x, "reflect"),
}


def import_torchvision(module: str) -> Any:
    """A module of torchvision, which most data sets and one network need."""
    try:
        return importlib.import_module(f"torchvision.{module}")
    except ImportError:
        raise InputError(
            "this recipe must have torchvision, got none; pip install 'tepid[lab]' brings it"
        ) from None
    except RuntimeError as error:  # a build for another PyTorch
        raise InputError(f"torchvision must fit the PyTorch beside it, got: {error}") from None
