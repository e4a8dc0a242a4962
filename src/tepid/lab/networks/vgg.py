"""VGG-16 of Simonyan and Zisserman (2015) in the form that is trained on CIFAR: 14.7 M parameters.

Thirteen convolutions with batch normalisation and, since five poolings leave one pixel of 32, one
linear layer in the place of three.
"""

from torch import nn

_STAGES = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))


def vgg16(classes: int) -> nn.Sequential:
    """The network for images of 32 pixels and three channels."""
    layers: list[nn.Module] = []
    before = 3
    for convolutions, width in _STAGES:
        for _ in range(convolutions):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            before = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before, classes))
