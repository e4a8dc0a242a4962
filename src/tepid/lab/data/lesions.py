"""ISIC 2018, task 3 (HAM10000): photographs of seven kinds of skin lesions."""

import csv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tepid.errors import InputError
from tepid.lab.data.images import Data, Images, images
from tepid.lab.data.splitting import stratified
from tepid.lab.recipe import Recipe

_TRUTH = "*GroundTruth.csv"
_GROUPS = "*LesionGroupings.csv"
TEST = 0.4  # the paper trains on 60 % and calibrates and reports on the rest


@dataclass(frozen=True)
class Lesions:
    """The class of every photograph, which lesion it shows, and what reads the pixels of rows."""

    pixels: Callable[[Any], Any]
    labels: Any
    lesions: Any
    names: tuple[str, ...]

    def images(self, rows: Any) -> Images:
        """The photographs of these rows."""
        return images(self.pixels(rows), self.labels[rows])


def read(path: Path, recipe: Recipe, seed: int) -> Data:
    """The paper's split: a stratified 60 % to train on and 40 % to calibrate and report on.

    `path` is the challenge's folder, with its photographs and CSV files at any depth, or an .npz
    with photographs `x` that are small already, labels `y`, `lesion` and `classes`. Several
    photographs may show one lesion, and the paper's split puts some on both sides, which flatters
    the network; `keep_lesions` keeps those of one lesion on one side.
    """
    found = (_archive if path.is_file() else _folder)(path, recipe.size)
    if recipe.keep_lesions and found.lesions is None:
        raise InputError(f"{path} must have a file {_GROUPS} for keep_lesions, got none")
    groups = found.lesions if recipe.keep_lesions else None
    train, test = stratified(found.labels, TEST, seed, groups)
    train = train[: recipe.train_rows or None]  # no more of them are decoded than are wanted
    test = test[: recipe.test_rows or None]
    return Data(found.images(train), found.images(test), found.names, rows=test)


def _archive(path: Path, size: int) -> Lesions:
    with np.load(path, allow_pickle=False) as stored:
        absent = [name for name in ("x", "y", "classes") if name not in stored]
        if absent:
            raise InputError(f"{path} must have the arrays x, y and classes, got no {absent[0]}")
        pixels, labels, names = stored["x"], stored["y"].astype(np.int64), stored["classes"]
        lesions = stored.get("lesion")
    if pixels.shape[1:] != (size, size, 3):
        raise InputError(f"size must be that of the photographs, {pixels.shape[1]}, got {size}")
    return Lesions(lambda rows: pixels[rows], labels, lesions, tuple(map(str, names)))


def _folder(path: Path, size: int) -> Lesions:
    names, classes = _truth(_only(path, _TRUTH))
    known = {file.stem: file for file in path.rglob("*.jpg")}
    absent = [name for name in classes if name not in known]
    if absent:
        raise InputError(
            f"{path} must have a photograph {absent[0]}.jpg for every row of the truth, "
            f"got none for {len(absent)} of {len(classes)}"
        )
    places = [known[name] for name in classes]

    def pixels(rows: Any) -> Any:
        with ThreadPoolExecutor() as pool:  # decoding leaves the interpreter's lock
            return np.stack(list(pool.map(lambda row: photograph(places[row], size), rows)))

    return Lesions(pixels, np.array(list(classes.values())), _lesions(path, classes), names)


def photograph(path: Path, size: int) -> Any:
    """One photograph as bytes (size, size, 3), squeezed to a square as the paper does."""
    from PIL import Image  # noqa: PLC0415  # an archive does without it

    with Image.open(path) as opened:
        resized = opened.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(resized)


def _only(path: Path, pattern: str) -> Path:
    found = sorted(path.rglob(pattern))
    if len(found) != 1:
        raise InputError(f"{path} must have one file {pattern}, got {len(found)}")
    return found[0]


def _truth(path: Path) -> tuple[tuple[str, ...], dict[str, int]]:
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


def _lesions(path: Path, classes: dict[str, int]) -> Any:
    """The lesion of each photograph, or None where the challenge's list of them is not there."""
    if not sorted(path.rglob(_GROUPS)):
        return None
    with _only(path, _GROUPS).open(newline="", encoding="utf-8-sig") as file:
        known = dict(_pairs(csv.DictReader(file)))
    return np.array([known.get(name, name) for name in classes])


def _pairs(rows: Any) -> Iterator[tuple[str, str]]:
    for row in rows:
        yield row["image"], row["lesion_id"]
