"""LeNet-5 of LeCun, Bottou, Bengio and Haffner (1998): 61,706 parameters for ten classes."""

from torch import nn


def lenet5(classes: int, channels: int = 1) -> nn.Sequential:
    """Two convolutions and three linear layers, for images of 28 pixels padded to 32.

    The layers and widths are those of 1998; the scaled tanh, the trained subsampling and the RBF
    outputs of then are today's ReLU, maximum pooling and linear outputs.
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
