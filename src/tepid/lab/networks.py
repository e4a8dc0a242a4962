"""The seven networks of the paper's tables, from plain layers, as their own papers define them."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise ImportError("tepid.lab.networks needs PyTorch: pip install 'tepid[lab]'") from None

from tepid.errors import InputError
from tepid.lab.datasets import import_torchvision
from tepid.lab.recipe import Recipe
from tepid.validation import Float32

_DENSE_BLOCKS = 3
_ROWS = 500  # of a forward pass without gradients
_VGG_STAGES = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))


def build(recipe: Recipe, classes: int, channels: int, *, download: bool = False) -> nn.Module:
    """The network of a recipe with initial weights.

    ImageNet weights must be in torchvision's cache, unless `download` allows to fetch them.
    """
    depth, width, dropout = recipe.depth, recipe.width, recipe.dropout
    builders: dict[str, Callable[[], nn.Module]] = {
        "densenet": lambda: densenet(depth, width, classes, dropout),
        "densenet-bc": lambda: densenet(depth, width, classes, dropout, compressed=True),
        "lenet5": lambda: lenet5(classes, channels),
        "resnet": lambda: resnet(depth, classes, channels),
        "resnet152": lambda: resnet152(classes, pretrained=recipe.pretrained, download=download),
        "vgg16": lambda: vgg16(classes),
        "wide-resnet": lambda: wide_resnet(depth, width, classes, dropout),
    }
    if recipe.network not in builders:
        raise InputError(f"network must be one of {', '.join(builders)}, got {recipe.network}")
    network = builders[recipe.network]()
    if recipe.network not in ("lenet5", "resnet152"):  # these keep PyTorch's initialization
        network.apply(_initialize)
    return network


def run_network(network: nn.Module, pixels: Tensor, mean: Tensor, deviation: Tensor) -> Float32:
    """The logits (n, classes) of images given as bytes, without dropout."""
    network.eval()
    parts = (((part.float() - mean) / deviation) for part in pixels.split(_ROWS))
    with torch.inference_mode():
        logits = [network(part.contiguous(memory_format=torch.channels_last)) for part in parts]
    return np.asarray(torch.cat(logits).float().cpu())


def _initialize(layer: nn.Module) -> None:
    """The initialization of He et al. (2015), which all of these papers use; biases are zero."""
    if isinstance(layer, nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    if isinstance(layer, nn.Linear):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
    if isinstance(layer, nn.Conv2d | nn.Linear) and layer.bias is not None:
        nn.init.zeros_(layer.bias)


def lenet5(classes: int, channels: int = 1) -> nn.Sequential:
    """LeNet-5 of LeCun, Bottou, Bengio and Haffner (1998): 61,706 parameters for ten classes.

    Two convolutions and three linear layers, for images of 28 pixels padded to 32. Layers and
    widths are as published; ReLU, maximum pooling and linear outputs replace the scaled tanh, the
    trained subsampling and the RBF outputs.
    """
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 5 * 5, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, classes),
    )


def vgg16(classes: int) -> nn.Sequential:
    """VGG-16 of Simonyan and Zisserman (2015) in the form that is trained on CIFAR: 14.7 M weights.

    Thirteen convolutions with batch normalization, for images of 32 pixels and three channels.
    Five poolings leave one pixel of 32, so one linear layer replaces three.
    """
    layers: list[nn.Module] = []
    before = 3
    for convolutions, width in _VGG_STAGES:
        for _ in range(convolutions):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            before = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before, classes))


def resnet(depth: int, classes: int, channels: int = 3) -> nn.Sequential:
    """A residual network for small images: He et al. (2016), section 4.2; ResNet-110 has 1.7 M.

    Depth 6n + 2: n blocks each of 16, 32 and 64 channels, for any image size.
    """
    blocks, rest = divmod(depth - 2, 6)
    if rest or blocks < 1:
        raise InputError(f"depth must be 6n + 2 for a residual network, got {depth}")
    layers = [nn.Conv2d(channels, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    for width, wider in pairwise((16, 16, 32, 64)):
        layers.append(Residual(width, wider, wider // width))
        layers += [Residual(wider, wider, 1) for _ in range(blocks - 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


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


def wide_resnet(depth: int, width: int, classes: int, dropout: float = 0.0) -> nn.Sequential:
    """A wide residual network of Zagoruyko and Komodakis (2016); WRN-28-10 has 36.5 M weights.

    Three groups of blocks, `width` times as wide as 16, 32 and 64 channels. Their paper counts
    the convolutions of the shortcuts, depth 6n + 4; the name WideResNet-32 counts as He et al. do,
    6n + 2, with five blocks per group. Both are accepted.
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


class Wide(nn.Module):
    """A block in which normalization and ReLU come before each of its two convolutions."""

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


def densenet(
    depth: int, growth: int, classes: int, dropout: float = 0.0, *, compressed: bool = False
) -> nn.Sequential:
    """DenseNet-40 and DenseNet-BC-100 (k = 12) of Huang et al. (2017).

    Three dense blocks of 3n + 4 layers in all; `compressed` is the paper's BC.

    BC puts a 1×1 convolution of 4k channels before each layer, which halves their number, keeps
    half of the channels between the blocks, and starts with 2k channels, not 16.
    """
    layers, rest = divmod(depth - 4, _DENSE_BLOCKS * (2 if compressed else 1))
    if rest or layers < 1 or growth < 1:
        multiple = "6n + 4" if compressed else "3n + 4"
        raise InputError(f"depth must be {multiple} and width positive, got {depth} and {growth}")
    width = 2 * growth if compressed else 16
    steps: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1, bias=False)]
    for stage in range(_DENSE_BLOCKS):
        if stage:
            kept = width // 2 if compressed else width
            steps += [*_activated_convolution(width, kept, 1), nn.Dropout(dropout), nn.AvgPool2d(2)]
            width = kept
        for _ in range(layers):
            steps.append(Dense(width, growth, dropout, bottleneck=compressed))
            width += growth
    steps += [nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*steps, nn.Linear(width, classes))


class Dense(nn.Module):
    """A layer that appends `growth` channels to its input."""

    def __init__(self, width: int, growth: int, dropout: float, *, bottleneck: bool) -> None:
        super().__init__()
        steps: list[nn.Module] = []
        if bottleneck:
            steps += [*_activated_convolution(width, 4 * growth, 1), nn.Dropout(dropout)]
            width = 4 * growth
        self.layers = nn.Sequential(
            *steps, *_activated_convolution(width, growth, 3), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        """The input followed by the new channels."""
        return torch.cat((x, self.layers(x)), dim=1)


def _activated_convolution(width: int, wider: int, size: int) -> list[nn.Module]:
    convolution = nn.Conv2d(width, wider, size, padding=size // 2, bias=False)
    return [nn.BatchNorm2d(width), nn.ReLU(), convolution]


def resnet152(classes: int, *, pretrained: bool, download: bool = False) -> nn.Module:
    """The ResNet-152 of torchvision with a new last layer; 60.2 M weights for 1000 classes.

    `pretrained` starts from the ImageNet weights in torchvision's cache; `download` fetches them.
    """
    models = import_torchvision("models")
    weights = models.ResNet152_Weights.IMAGENET1K_V1 if pretrained else None
    if weights is not None and not download:
        cached = Path(torch.hub.get_dir(), "checkpoints", Path(weights.url).name)
        if not cached.is_file():
            raise InputError(f"weights of ImageNet must be at {cached}, or --download, got neither")
    network = models.resnet152(weights=weights)
    network.fc = nn.Linear(network.fc.in_features, classes)
    return network
