"""Sets of logits with labels in folders: archives of both, and the folders that training wrote."""

import json
import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tepid import arrays
from tepid.arrays import Array, Int64
from tepid.errors import InputError
from tepid.sources import open_source
from tepid.tails import Tails

RUN = "run.json"
_NEEDED = ("logits.npy", "labels.npy")


@dataclass(frozen=True)
class LogitSet:
    """One network's logits on one set of rows, with labels, and what is known of both by name.

    `recipe` is that of the training which wrote them, empty where another did.
    """

    name: str
    network: str
    data: str
    logits: Path | str
    labels: Path | str
    recipe: str = ""

    def read(self) -> tuple[Array, Int64]:
        """The logits (n, k) and the labels (n,); what is wrong with them is said by name."""
        try:
            rows = open_source(self.logits, labels=self.labels).whole()
            Tails.of(rows.logits)  # names a bad row
            classes = rows.logits.shape[1]
            return rows.logits, arrays.label_column(rows.labels, len(rows.logits), classes)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None


def find(folders: Iterable[str | os.PathLike[str]]) -> tuple[LogitSet, ...]:
    """Every set in these folders, in the order of names.

    A set is an archive `NETWORK_DATA.npz` with the members `logits` and `labels`, or a folder with
    `run.json`, `logits.npy` and `labels.npy`, which training writes. A folder may itself be one.
    """
    every: list[LogitSet] = []
    for folder in map(Path, folders):
        found = _inside(folder)
        if not found:
            raise InputError(
                "folder must hold .npz archives with logits and labels, or runs of tepid lab train,"
                f" got neither in {folder}"
            )
        every += found
    return tuple(every)


def open_run(folder: str | os.PathLike[str]) -> LogitSet:
    """The set that a training wrote into this folder."""
    path = Path(folder)
    about = read_run(path)
    lacking = [name for name in _NEEDED if not (path / name).is_file()]
    if lacking:
        raise InputError(f"run must have {lacking[0]}, which training writes last, got {path}")
    network, data, recipe = (str(about.get(key, "")) for key in ("network", "data", "recipe"))
    config = about.get("config")
    depth = config.get("depth") if isinstance(config, dict) else None
    network = f"{network}-{depth}" if depth else network
    logits, labels = (path / name for name in _NEEDED)
    return LogitSet(path.resolve().name, network, data, logits, labels, recipe)


def read_run(folder: Path) -> dict[str, Any]:
    """What a training wrote about itself."""
    path = folder / RUN
    if not path.is_file():
        raise InputError(f"run must be a folder with {RUN}, got {folder}")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{RUN} must be JSON, got {path} ({error})") from None
    if not isinstance(about, dict):
        raise InputError(f"{RUN} must be a JSON object, got {path}")
    return about


def _inside(folder: Path) -> list[LogitSet]:
    if not folder.is_dir():
        raise InputError(f"folder must be a folder, got {folder}")
    if (folder / RUN).is_file():
        return [open_run(folder)]
    entries = sorted(folder.iterdir())
    archives = [p for p in entries if p.suffix.lower() == ".npz" and _is_labelled(p)]
    runs = [p for p in entries if (p / RUN).is_file() and _is_finished(p)]
    return [*map(_archive, archives), *map(open_run, runs)]


def _is_labelled(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return {"logits.npy", "labels.npy"} <= set(archive.namelist())
    except zipfile.BadZipFile as error:
        raise InputError(f"{path} must be a whole .npz archive, got {error}") from None


def _is_finished(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _NEEDED)


def _archive(path: Path) -> LogitSet:
    network, _, data = path.stem.rpartition("_")
    return LogitSet(path.stem, network, data, f"{path}#logits", f"{path}#labels")
