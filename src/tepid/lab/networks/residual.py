"""Residual networks for small images: He et al. (2016), section 4.2; ResNet-110 is of 1.7 M."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from tepid.errors import InputError


class Residual(nn.Module):
    """Two convolutions beside a shortcut that drops pixels and pads channels with zeros (A)."""

    def __init__(self, width: int, wider: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, wider, 3, stride=stride, padding=1, bias=False)
        self.norm_first = nn.BatchNorm2d(wider)
        self.second = nn.Conv2d(wider, wider, 3, padding=1, bias=False)
        self.norm_second = nn.BatchNorm2d(wider)
        self.stride, self.padding = stride, (wider - width) // 2

    def forward(self, x: Tensor) -> Tensor:
        """The block's features."""
        shortcut = x
        if self.stride > 1:
            shortcut = x[:, :, :: self.stride, :: self.stride]
            shortcut = nn.functional.pad(shortcut, (0, 0, 0, 0, self.padding, self.padding))
        inner = torch.relu(self.norm_first(self.first(x)))
        return torch.relu(self.norm_second(self.second(inner)) + shortcut)


def resnet(depth: int, classes: int, channels: int = 3) -> nn.Sequential:
    """The network of depth 6n + 2: n blocks each of 16, 32 and 64 channels, for any image size."""
    blocks, rest = divmod(depth - 2, 6)
    if rest or blocks < 1:
        raise InputError(f"depth must be 6n + 2 for a residual network, got {depth}")
    layers = [nn.Conv2d(channels, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    for width, wider in pairwise((16, 16, 32, 64)):
        layers.append(Residual(width, wider, wider // width))
        layers += [Residual(wider, wider, 1) for _ in range(blocks - 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))
