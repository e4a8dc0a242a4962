"""Densely connected networks of Huang et al. (2017): DenseNet-40 and DenseNet-BC-100, k = 12."""

import torch
from torch import Tensor, nn

from tepid.errors import InputError

_STAGES = 3


class Dense(nn.Module):
    """A layer that adds `growth` channels to those that it was given."""

    def __init__(self, width: int, growth: int, dropout: float, *, bottleneck: bool) -> None:
        super().__init__()
        steps: list[nn.Module] = []
        if bottleneck:
            steps += [*_activated(width, 4 * growth, 1), nn.Dropout(dropout)]
            width = 4 * growth
        self.layers = nn.Sequential(*steps, *_activated(width, growth, 3), nn.Dropout(dropout))

    def forward(self, x: Tensor) -> Tensor:
        """What was given, and the new channels behind it."""
        return torch.cat((x, self.layers(x)), dim=1)


def densenet(
    depth: int, growth: int, classes: int, dropout: float = 0.0, *, compressed: bool = False
) -> nn.Sequential:
    """Three dense blocks of 3n + 4 layers in all; `compressed` is the paper's BC.

    BC puts a 1×1 convolution of 4k channels before each layer, which halves their number, keeps
    half of the channels between the blocks, and begins with 2k channels, not 16.
    """
    layers, rest = divmod(depth - 4, _STAGES * (2 if compressed else 1))
    if rest or layers < 1 or growth < 1:
        multiple = "6n + 4" if compressed else "3n + 4"
        raise InputError(f"depth must be {multiple} and width positive, got {depth} and {growth}")
    width = 2 * growth if compressed else 16
    steps: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1, bias=False)]
    for stage in range(_STAGES):
        if stage:
            kept = width // 2 if compressed else width
            steps += [*_activated(width, kept, 1), nn.Dropout(dropout), nn.AvgPool2d(2)]
            width = kept
        for _ in range(layers):
            steps.append(Dense(width, growth, dropout, bottleneck=compressed))
            width += growth
    steps += [nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*steps, nn.Linear(width, classes))


def _activated(width: int, wider: int, size: int) -> list[nn.Module]:
    convolution = nn.Conv2d(width, wider, size, padding=size // 2, bias=False)
    return [nn.BatchNorm2d(width), nn.ReLU(), convolution]
