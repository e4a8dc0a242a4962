"""CIFAR-10 and 100, SVHN, MNIST and Fashion-MNIST, as torchvision keeps and checks them."""

from pathlib import Path
from typing import Any

import numpy as np

from tepid.errors import InputError
from tepid.lab.data.images import Data, Images, images
from tepid.lab.vision import torchvision

_CLASSES = {
    "cifar10": "CIFAR10",
    "cifar100": "CIFAR100",
    "svhn": "SVHN",
    "mnist": "MNIST",
    "fashion-mnist": "FashionMNIST",
}


def read(name: str, folder: Path, *, download: bool, checked: bool) -> Data:
    """A published set from the folder that torchvision keeps it in; nothing is fetched unasked.

    Its files must have the checksums that torchvision knows, unless `checked` is False. The trap:
    those of CIFAR are pickles, which run what they like; unchecked ones must be your own.
    MNIST and Fashion-MNIST have checksums for what is fetched and none for the files it becomes.
    """
    if name not in _CLASSES:
        raise InputError(f"data must be {', '.join(_CLASSES)} or isic, got {name}")
    kind = getattr(torchvision("datasets"), _CLASSES[name])
    kind = kind if checked else _unchecked(kind)
    parts = ({"split": s} for s in ("train", "test")) if name == "svhn" else _flags()
    try:
        train, test = (kind(folder, download=download, **part) for part in parts)
    except RuntimeError as error:
        raise InputError(f"{folder} must have the files of {name}, got: {error}") from None
    names = tuple(getattr(train, "classes", map(str, range(10))))
    checked = checked and (download or "mnist" not in name)
    return Data(_images(train), _images(test), names, checked=checked)


def _flags() -> Any:
    return ({"train": train} for train in (True, False))


def _unchecked(kind: Any) -> Any:
    """The same reader, to which any file of the right name is good enough."""
    lists: dict[str, Any] = {
        name: [[file, None] for file, _ in getattr(kind, name)]
        for name in ("train_list", "test_list")
        if hasattr(kind, name)
    }
    if hasattr(kind, "meta"):
        lists["meta"] = kind.meta | {"md5": None}
    if hasattr(kind, "split_list"):
        splits = kind.split_list.items()
        lists["split_list"] = {split: [*where, None] for split, (*where, _) in splits}
    return type(kind.__name__, (kind,), lists)


def _images(read: Any) -> Images:
    pixels = np.asarray(read.data)
    if hasattr(read, "labels") and hasattr(read, "split"):  # SVHN has its channels first
        return images(pixels.transpose(0, 2, 3, 1), read.labels)
    return images(pixels, read.targets)
