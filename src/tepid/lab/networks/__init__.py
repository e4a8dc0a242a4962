"""The networks of the paper's tables, as their own papers define them, from plain layers."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from tepid.errors import InputError
from tepid.lab.networks.dense import densenet
from tepid.lab.networks.lenet import lenet5
from tepid.lab.networks.residual import resnet
from tepid.lab.networks.vgg import vgg16
from tepid.lab.networks.wide import wide_resnet
from tepid.lab.recipe import Recipe
from tepid.lab.vision import torchvision

__all__ = ["build", "densenet", "lenet5", "resnet", "resnet152", "vgg16", "wide_resnet"]


def build(recipe: Recipe, classes: int, channels: int, *, download: bool = False) -> nn.Module:
    """The network of a recipe, with weights to begin with, for so many classes and channels.

    Weights of ImageNet must lie in torchvision's cache unless they may be fetched.
    """
    makers = _makers(recipe, classes, channels, download=download)
    if recipe.network not in makers:
        raise InputError(f"network must be one of {', '.join(makers)}, got {recipe.network}")
    network = makers[recipe.network]()
    if recipe.network not in ("lenet5", "resnet152"):  # these begin as PyTorch has them begin
        network.apply(_begin)
    return network


def resnet152(classes: int, *, pretrained: bool, download: bool = False) -> nn.Module:
    """The ResNet-152 of torchvision with a new last layer, and with ImageNet's weights if wanted.

    60.2 M weights for 1000 classes. Those of ImageNet lie in torchvision's cache, or are fetched
    if that is allowed.
    """
    models = torchvision("models")
    weights = models.ResNet152_Weights.IMAGENET1K_V1 if pretrained else None
    if weights is not None and not download:
        cached = Path(torch.hub.get_dir(), "checkpoints", Path(weights.url).name)
        if not cached.is_file():
            raise InputError(f"weights of ImageNet must be at {cached}, or --download, got neither")
    network = models.resnet152(weights=weights)
    network.fc = nn.Linear(network.fc.in_features, classes)
    return network


def _makers(
    recipe: Recipe, classes: int, channels: int, *, download: bool
) -> dict[str, Callable[[], nn.Module]]:
    """What makes each network that a recipe can name."""
    depth, width, dropout = recipe.depth, recipe.width, recipe.dropout
    return {
        "densenet": lambda: densenet(depth, width, classes, dropout),
        "densenet-bc": lambda: densenet(depth, width, classes, dropout, compressed=True),
        "lenet5": lambda: lenet5(classes, channels),
        "resnet": lambda: resnet(depth, classes, channels),
        "resnet152": lambda: resnet152(classes, pretrained=recipe.pretrained, download=download),
        "vgg16": lambda: vgg16(classes),
        "wide-resnet": lambda: wide_resnet(depth, width, classes, dropout),
    }


def _begin(layer: nn.Module) -> None:
    """The beginning of He et al. (2015), which all of these papers use; no bias to begin with."""
    if isinstance(layer, nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    if isinstance(layer, nn.Linear):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
    if isinstance(layer, nn.Conv2d | nn.Linear) and layer.bias is not None:
        nn.init.zeros_(layer.bias)
