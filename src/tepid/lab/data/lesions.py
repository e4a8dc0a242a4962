"""ISIC 2018, task 3 (HAM10000): photographs of seven kinds of skin lesions."""

import csv
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tepid.errors import InputError
from tepid.lab.data.images import Data, images
from tepid.lab.data.splitting import stratified

_TRUTH = "*GroundTruth.csv"
_GROUPS = "*LesionGroupings.csv"
TEST = 0.4  # the paper trains on 60 % and calibrates and reports on the rest


@dataclass(frozen=True)
class Lesions:
    """All photographs (n, size, size, 3), the class of each, and which lesion it shows."""

    pixels: Any
    labels: Any
    lesions: Any
    names: tuple[str, ...]


def read(path: Path, size: int, seed: int, *, keep_lesions: bool) -> Data:
    """The paper's split: a stratified 60 % to train on and 40 % to calibrate and report on.

    `path` is the challenge's folder, with its photographs and CSV files at any depth, or an .npz
    with photographs `x` that are small already, labels `y`, `lesion` and `classes`. Several
    photographs may show one lesion, and the paper's split puts some on both sides, which flatters
    the network; `keep_lesions` keeps those of one lesion on one side.
    """
    found = _archive(path, size) if path.is_file() else _folder(path, size)
    groups = found.lesions if keep_lesions else None
    if keep_lesions and groups is None:
        raise InputError(f"{path} must have a file {_GROUPS} for keep_lesions, got none")
    train, test = stratified(found.labels, TEST, seed, groups)
    known, new = (images(found.pixels[rows], found.labels[rows]) for rows in (train, test))
    return Data(known, new, found.names, rows=test)


def _archive(path: Path, size: int) -> Lesions:
    with np.load(path, allow_pickle=False) as stored:
        absent = [name for name in ("x", "y", "classes") if name not in stored]
        if absent:
            raise InputError(f"{path} must have the arrays x, y and classes, got no {absent[0]}")
        pixels, labels, names = stored["x"], stored["y"].astype(np.int64), stored["classes"]
        lesions = stored.get("lesion")
    if pixels.shape[1:] != (size, size, 3):
        raise InputError(f"size must be that of the photographs, {pixels.shape[1]}, got {size}")
    return Lesions(pixels, labels, lesions, tuple(map(str, names)))


def _folder(path: Path, size: int) -> Lesions:
    names, classes = _truth(_only(path, _TRUTH))
    places = {file.stem: file for file in path.rglob("*.jpg")}
    absent = [name for name in classes if name not in places]
    if absent:
        raise InputError(
            f"{path} must have a photograph {absent[0]}.jpg for every row of the truth, "
            f"got none for {len(absent)} of {len(classes)}"
        )
    with ThreadPoolExecutor() as pool:  # decoding leaves the interpreter's lock
        pixels = np.stack(
            list(pool.map(lambda name: photograph(places[name], size), classes)), axis=0
        )
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
