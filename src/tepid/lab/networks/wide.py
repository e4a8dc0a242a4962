"""Wide residual networks of Zagoruyko and Komodakis (2016); WRN-28-10 has 36.5 M weights."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from tepid.errors import InputError


class Wide(nn.Module):
    """A block in which normalisation and ReLU come before each of its two convolutions."""

    def __init__(self, width: int, wider: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.norm_first = nn.BatchNorm2d(width)
        self.first = nn.Conv2d(width, wider, 3, stride=stride, padding=1, bias=False)
        self.norm_second = nn.BatchNorm2d(wider)
        self.dropout = nn.Dropout(dropout)
        self.second = nn.Conv2d(wider, wider, 3, padding=1, bias=False)
        self.shortcut = (
            None if width == wider else nn.Conv2d(width, wider, 1, stride=stride, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        """The block's features."""
        ready = torch.relu(self.norm_first(x))
        shortcut = x if self.shortcut is None else self.shortcut(ready)
        inner = torch.relu(self.norm_second(self.first(ready)))
        return self.second(self.dropout(inner)) + shortcut


def wide_resnet(depth: int, width: int, classes: int, dropout: float = 0.0) -> nn.Sequential:
    """Three groups of blocks, `width` times as wide as 16, 32 and 64 channels.

    The paper of these networks counts the convolutions of the shortcuts, 6n + 4; the name
    WideResNet-32 counts as He et al. do, 6n + 2, and is five blocks a group. Both are taken.
    """
    blocks = (depth - 2) // 6
    if depth % 6 not in (2, 4) or blocks < 1 or width < 1:
        raise InputError(
            f"depth must be 6n + 2 or 6n + 4 and width positive, got {depth} and {width}"
        )
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1, bias=False)]
    for group, (before, after) in enumerate(pairwise((16, *(w * width for w in (16, 32, 64))))):
        layers.append(Wide(before, after, 2 if group else 1, dropout))
        layers += [Wide(after, after, 1, dropout) for _ in range(blocks - 1)]
    layers += [nn.BatchNorm2d(64 * width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(64 * width, classes))
