"""The data sets of the paper's tables, read from the files that their authors publish.

CIFAR-10 and 100, SVHN, MNIST and Fashion-MNIST are read and checked by torchvision. ISIC 2018,
task 3 (HAM10000), photographs of seven kinds of skin lesions, is read here. Images are held in
memory as bytes, and normalized and augmented in batches; the largest set takes 1.5 GB.
"""

import csv
import dataclasses
import importlib
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise ImportError("tepid.lab.datasets needs PyTorch: pip install 'tepid[lab]'") from None

from tepid import validation
from tepid.errors import InputError, reading
from tepid.lab.recipe import Recipe
from tepid.sources import array_files
from tepid.validation import Array, Int64

_CLASSES = {
    "cifar10": "CIFAR10",
    "cifar100": "CIFAR100",
    "svhn": "SVHN",
    "mnist": "MNIST",
    "fashion-mnist": "FashionMNIST",
}
_TRUTH = "*GroundTruth.csv"
_GROUPS = "*LesionGroupings.csv"
_TEST_FRACTION = 0.4  # the paper trains on 60 % and calibrates and reports on the rest
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_MARGIN = 4
_DEGREES = 12.5


@dataclass(frozen=True)
class Images:
    """Pixels (n, channels, height, width) as bytes, and the class of each image."""

    pixels: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def first(self, rows: int) -> "Images":
        """The first `rows` images; 0 means all."""
        return self if not rows else Images(self.pixels[:rows], self.labels[:rows])

    def to(self, device: torch.device) -> "Images":
        """The same on another device."""
        return Images(self.pixels.to(device), self.labels.to(device))


@dataclass(frozen=True)
class Data:
    """A training set and a test set, with the names of the classes.

    `rows` are the test set's positions in the set that both were split from. `checked` tells
    whether the files had their published checksums.
    """

    train: Images
    test: Images
    names: tuple[str, ...]
    rows: Int64 | None = None
    checked: bool = False


def as_images(pixels: Array, labels: ArrayLike) -> Images:
    """Images from arrays (n, height, width, channels), or without the last where it is one."""
    given = torch.from_numpy(np.ascontiguousarray(pixels))
    given = given[:, None] if given.ndim == 3 else given.permute(0, 3, 1, 2)
    return Images(given.contiguous(), torch.from_numpy(np.asarray(labels, dtype=np.int64)))


def read(recipe: Recipe, path: Path, seed: int, *, download: bool, checked: bool) -> Data:
    """The training and test set of a recipe, cut to its `train_rows` and `test_rows`."""
    if recipe.data == "isic":
        return read_lesions(path, recipe, seed)
    data = read_torchvision(recipe.data, path, download=download, checked=checked)
    train, test = data.train.first(recipe.train_rows), data.test.first(recipe.test_rows)
    return dataclasses.replace(data, train=train, test=test)


def read_torchvision(name: str, folder: Path, *, download: bool, checked: bool) -> Data:
    """A published set from the folder in which torchvision keeps it; fetched only if `download`.

    The files must have the checksums that torchvision knows, unless `checked` is False. The trap:
    those of CIFAR are pickles, which can run any code; use unchecked files only if you wrote them.
    MNIST and Fashion-MNIST have checksums for the download and none for the unpacked files.
    """
    if name not in _CLASSES:
        raise InputError(f"data must be {', '.join(_CLASSES)} or isic, got {name}")
    kind = getattr(import_torchvision("datasets"), _CLASSES[name])
    kind = kind if checked else _unchecked(kind)
    parts: list[dict[str, Any]] = [{"train": True}, {"train": False}]
    if name == "svhn":
        parts = [{"split": "train"}, {"split": "test"}]
    try:
        train, test = (kind(folder, download=download, **part) for part in parts)
    except RuntimeError as error:
        raise InputError(f"{folder} must have the files of {name}, got: {error}") from None
    names = tuple(getattr(train, "classes", map(str, range(10))))
    checked = checked and (download or "mnist" not in name)

    def images(read: Any) -> Images:
        pixels = np.asarray(read.data)
        if name == "svhn":  # it has its channels first
            return as_images(pixels.transpose(0, 2, 3, 1), read.labels)
        return as_images(pixels, read.targets)

    return Data(images(train), images(test), names, checked=checked)


def _unchecked(kind: Any) -> Any:
    """The same reader without checksums."""
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


def read_lesions(path: Path, recipe: Recipe, seed: int) -> Data:
    """The paper's split: a stratified 60 % to train on and 40 % to calibrate and report on.

    `path` is the challenge's folder, with its photographs and CSV files at any depth, or an .npz
    with photographs `x` that are small already, labels `y`, `lesion` and `classes`. Several
    photographs may show one lesion, and the paper's split puts some on both sides, which flatters
    the network; `keep_lesions` keeps those of one lesion on one side.
    """
    found = (_read_archive if path.is_file() else _read_folder)(path, recipe.size)
    if recipe.keep_lesions and found.lesions is None:
        raise InputError(f"{path} must have a file {_GROUPS} for keep_lesions, got none")
    groups = found.lesions if recipe.keep_lesions else None
    train, test = stratified_split(found.labels, _TEST_FRACTION, seed, groups)
    train = train[: recipe.train_rows or None]  # decode no more than needed
    test = test[: recipe.test_rows or None]
    return Data(found.images(train), found.images(test), found.names, rows=test)


@dataclass(frozen=True)
class Lesions:
    """The class and the lesion of every photograph, and a function that reads pixels of rows."""

    pixels: Callable[[Int64], Array]
    labels: Int64
    lesions: Array | None
    names: tuple[str, ...]

    def images(self, rows: Int64) -> Images:
        """The photographs of these rows."""
        return as_images(self.pixels(rows), self.labels[rows])


def _read_archive(path: Path, size: int) -> Lesions:
    if path.suffix.lower() != ".npz":
        raise InputError(f"data must be a folder or an .npz archive, got {path}")
    with reading(path.name):
        known = array_files.list_members(str(path))
    absent = [name for name in ("x", "y", "classes") if name not in known]
    if absent:
        raise InputError(f"{path} must have the arrays x, y and classes, got no {absent[0]}")
    wanted = [name for name in ("x", "y", "classes", "lesion") if name in known]
    stored = {name: array_files.read_array(f"{path}#{name}", name, "data") for name in wanted}
    pixels, labels, names = stored["x"], stored["y"], stored["classes"]
    if pixels.dtype != np.uint8 or pixels.ndim != 4:
        got = f"{pixels.dtype} {pixels.shape}"
        raise InputError(f"x of {path} must be uint8 (n, size, size, 3), got {got}")
    if pixels.shape[1:] != (size, size, 3):
        raise InputError(
            f"size must equal the size of the photographs, {pixels.shape[1]}, got {size}"
        )
    if names.ndim != 1:
        raise InputError(f"classes of {path} must be a list of names, got {names.shape}")
    for name in ("y", "lesion"):
        if name in stored and stored[name].shape != (len(pixels),):
            got = str(stored[name].shape)
            raise InputError(f"{name} of {path} must have an entry for each photograph, got {got}")
    codes = validation.label_column(labels, len(pixels), len(names), f"y of {path}")
    return Lesions(lambda rows: pixels[rows], codes, stored.get("lesion"), tuple(map(str, names)))


def _read_folder(path: Path, size: int) -> Lesions:
    truth = _single_file(path, _TRUTH)
    with reading(truth.name):
        names, classes = _read_labels(truth)
    known = {file.stem: file for file in path.rglob("*.jpg")}
    absent = [name for name in classes if name not in known]
    if absent:
        raise InputError(
            f"{path} must have a photograph {absent[0]}.jpg for every row of the truth, "
            f"got none for {len(absent)} of {len(classes)}"
        )
    places = [known[name] for name in classes]

    def pixels(rows: Int64) -> Array:
        with ThreadPoolExecutor() as pool:  # decoding releases the GIL
            return np.stack(list(pool.map(lambda row: read_photograph(places[row], size), rows)))

    return Lesions(pixels, np.array(list(classes.values())), _lesion_ids(path, classes), names)


def read_photograph(path: Path, size: int) -> Array:
    """One photograph as bytes (size, size, 3), resized to a square as in the paper."""
    from PIL import Image  # noqa: PLC0415  # an archive does without it

    try:
        with Image.open(path) as opened:
            resized = opened.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
    except OSError as error:
        raise InputError(f"image must be a picture file, got {path} ({error})") from None
    return np.asarray(resized)


def _single_file(path: Path, pattern: str) -> Path:
    found = sorted(path.rglob(pattern))
    if len(found) != 1:
        raise InputError(f"{path} must have one file {pattern}, got {len(found)}")
    return found[0]


def _read_labels(path: Path) -> tuple[tuple[str, ...], dict[str, int]]:
    """The names of the classes, and the class of each photograph."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        (_, *names), *rows = csv.reader(file)
    classes = {}
    for number, (name, *values) in enumerate(rows):
        ones = [float(value) for value in values]
        if sorted(ones) != [0.0] * (len(names) - 1) + [1.0]:
            raise InputError(f"{path.name} must have one 1 per row, got {values} at row {number}")
        classes[name] = ones.index(1.0)
    return tuple(names), classes


def _lesion_ids(path: Path, classes: dict[str, int]) -> Array | None:
    """The lesion of each photograph, or None where the challenge's list is missing."""
    if not sorted(path.rglob(_GROUPS)):
        return None
    groups = _single_file(path, _GROUPS)
    with reading(groups.name), groups.open(newline="", encoding="utf-8-sig") as file:
        known = {row["image"]: row["lesion_id"] for row in csv.DictReader(file)}
    return np.array([known.get(name, name) for name in classes])


def stratified_split(
    labels: ArrayLike, part: float, seed: int, groups: ArrayLike | None = None
) -> tuple[Int64, Int64]:
    """A stratified split: the rows of the rest and of the part, each in order.

    The part has `round(part · n)` rows, distributed over the classes in proportion, by largest
    remainder: of 10015 rows 0.4 are 4006, of which 0.2 are 801 and the rest 3205.

    With `groups`, rows of one group stay together, and the sizes are as near as groups allow. A
    group belongs to the class of its first row.

    >>> rest, part = stratified_split([0, 0, 0, 0, 0, 1, 1, 1, 1, 1], 0.4, seed=0)
    >>> len(rest), np.bincount(np.array([0] * 5 + [1] * 5)[part])
    (6, array([2, 2]))
    """
    if not 0 < part < 1:
        raise InputError(f"part must be between 0 and 1, got {part}")
    classes, rng = np.asarray(labels), np.random.default_rng(seed)
    if groups is None:
        mask = _draw_rows(classes, part, rng)
    else:
        mask = _draw_groups(classes, np.asarray(groups), part, rng)
    return np.flatnonzero(~mask), np.flatnonzero(mask)


def _draw_rows(labels: Int64, part: float, rng: np.random.Generator) -> Array:
    wanted = part * np.bincount(labels)
    quotas = np.floor(wanted).astype(np.int64)
    missing = round(part * len(labels)) - quotas.sum()
    quotas[np.argsort(quotas - wanted, kind="stable")[:missing]] += 1
    mask = np.zeros(len(labels), dtype=bool)
    for k, quota in enumerate(quotas):
        mask[rng.permutation(np.flatnonzero(labels == k))[:quota]] = True
    return mask


def _draw_groups(labels: Int64, groups: Array, part: float, rng: np.random.Generator) -> Array:
    """Draw whole groups of each class, up to half a group above its proportion."""
    _, first, member = np.unique(groups, return_index=True, return_inverse=True)
    sizes, kinds = np.bincount(member), labels[first]
    chosen = np.zeros(len(first), dtype=bool)
    for kind in np.unique(kinds):
        own = rng.permutation(np.flatnonzero(kinds == kind))
        ends = np.cumsum(sizes[own])
        chosen[own[ends - sizes[own] / 2 <= part * ends[-1]]] = True
    return chosen[member]


# Normalization and augmentation -------------------------------------------------------------------


def normalization(kind: str, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and standard deviation (channels, 1, 1) that bytes are normalized by.

    `channels` computes them from the given training pixels, `imagenet` uses those of ImageNet, and
    `unit` only divides by 255.
    """
    channels = pixels.shape[1]
    if kind == "imagenet":
        mean, deviation = (255 * torch.tensor(values) for values in _IMAGENET)
    elif kind == "channels":
        # From counts of the byte values: exact, without a copy of the pixels in floating point.
        counts = torch.stack([torch.bincount(p.flatten(), minlength=256) for p in pixels.unbind(1)])
        share, value = counts.double() / counts.sum(1, keepdim=True), torch.arange(256.0).double()
        mean = share @ value
        deviation = ((share @ value**2) - mean**2).clamp(min=1).sqrt()
    else:
        mean, deviation = torch.zeros(channels), torch.full((channels,), 255.0)
    return mean.float().reshape(-1, 1, 1), deviation.float().reshape(-1, 1, 1)


def augment(batch: Tensor, steps: tuple[str, ...]) -> Tensor:
    """A batch (n, channels, height, width) after the named random steps, in their order.

    The random numbers come from PyTorch's CPU generator, so that every device sees the same
    images.
    """
    for step in steps:
        if step not in _STEPS:
            raise InputError(f"augment must be of {', '.join(_STEPS)}, got {step}")
        batch = _STEPS[step](batch)
    return batch


def _random_half(batch: Tensor) -> Tensor:
    """A mask of about half of the images, which broadcasts over them."""
    return (torch.rand(len(batch)) < 0.5).to(batch.device).reshape(-1, 1, 1, 1)


def _flip(batch: Tensor, axis: int) -> Tensor:
    return torch.where(_random_half(batch), batch.flip(axis), batch)


def _crop(batch: Tensor, mode: str) -> Tensor:
    """Pad by four pixels on each side and cut the original size at a random position."""
    count, channels, height, width = batch.shape
    padded = nn.functional.pad(batch, (_MARGIN,) * 4, mode=mode)
    corners = torch.randint(2 * _MARGIN + 1, (2, count, 1)).to(batch.device)
    down = (corners[0] + torch.arange(height, device=batch.device)).reshape(count, 1, height, 1)
    across = (corners[1] + torch.arange(width, device=batch.device)).reshape(count, 1, 1, width)
    image = torch.arange(count, device=batch.device).reshape(-1, 1, 1, 1)
    return padded[image, torch.arange(channels, device=batch.device)[:, None, None], down, across]


def _rotate(batch: Tensor) -> Tensor:
    """Rotate half of the images by up to 12.5 degrees either way; new pixels are zero, the mean."""
    angles = (2 * torch.rand(len(batch)) - 1) * math.radians(_DEGREES)
    sine, cosine, none = angles.sin(), angles.cos(), torch.zeros(len(batch))
    turns = torch.stack([cosine, -sine, none, sine, cosine, none], dim=1).reshape(-1, 2, 3)
    grid = nn.functional.affine_grid(turns.to(batch.device), list(batch.shape), align_corners=False)
    turned = nn.functional.grid_sample(batch, grid, align_corners=False)
    return torch.where(_random_half(batch), turned, batch)


_STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "flip": lambda x: _flip(x, 3),
    "flip-vertical": lambda x: _flip(x, 2),
    "rotate": _rotate,
    "crop": lambda x: _crop(x, "constant"),
    "crop-reflect": lambda x: _crop(x, "reflect"),
}


def import_torchvision(module: str) -> Any:
    """A module of torchvision, which most data sets and one network need."""
    try:
        return importlib.import_module(f"torchvision.{module}")
    except ImportError:
        raise InputError(
            "this recipe must have torchvision, got none; pip install 'tepid[lab]' brings it"
        ) from None
    except RuntimeError as error:  # a build for another PyTorch
        raise InputError(f"torchvision must fit the PyTorch beside it, got: {error}") from None
