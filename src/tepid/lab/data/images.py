"""Images with labels, held in memory as bytes: the largest set of the paper has 1.5 GB."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True)
class Images:
    """Pixels (n, channels, height, width) as bytes, and the class of each image."""

    pixels: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def first(self, rows: int) -> "Images":
        """The first so many images, all of them by 0."""
        return self if not rows else Images(self.pixels[:rows], self.labels[:rows])

    def to(self, device: Any) -> "Images":
        """The same on another device."""
        return Images(self.pixels.to(device), self.labels.to(device))


@dataclass(frozen=True)
class Data:
    """A training set and a test set; `rows` are the test set's places in what both were cut from.

    `checked` says whether the files had the checksums that were published for them.
    """

    train: Images
    test: Images
    names: tuple[str, ...]
    rows: Any = None
    checked: bool = False

    def first(self, train: int, test: int) -> "Data":
        """The same with so many images of each set, all of them by 0."""
        return replace(self, train=self.train.first(train), test=self.test.first(test))


def images(pixels: Any, labels: Any) -> Images:
    """Images from arrays (n, height, width, channels), or without the last where it is one."""
    given = torch.from_numpy(np.ascontiguousarray(pixels))
    given = given[:, None] if given.ndim == 3 else given.permute(0, 3, 1, 2)
    return Images(given.contiguous(), torch.from_numpy(np.asarray(labels, dtype=np.int64)))


def scaling(kind: str, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and deviation (channels, 1, 1) that bytes are normalised by.

    `channels` are those of the given training pixels, `imagenet` those of ImageNet, and `unit` only
    divides by 255.
    """
    channels = pixels.shape[1]
    if kind == "imagenet":
        mean, deviation = (255 * torch.tensor(values) for values in IMAGENET)
    elif kind == "channels":
        # By counting bytes: exact, and without a copy of the pixels as numbers.
        counts = torch.stack([torch.bincount(p.flatten(), minlength=256) for p in pixels.unbind(1)])
        share, value = counts.double() / counts.sum(1, keepdim=True), torch.arange(256.0).double()
        mean = share @ value
        deviation = ((share @ value**2) - mean**2).clamp(min=1).sqrt()
    else:
        mean, deviation = torch.zeros(channels), torch.full((channels,), 255.0)
    return mean.float().reshape(-1, 1, 1), deviation.float().reshape(-1, 1, 1)
