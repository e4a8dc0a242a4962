"""Find sets of logits with labels in folders: `.npz` archives, and runs of `tepid lab train`."""

import json
import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tepid import validation
from tepid.errors import InputError
from tepid.sources import open_source
from tepid.summaries.tails import Tails
from tepid.validation import Array, Int64

RUN, WEIGHTS = "run.json", "weights.pt"
_NEEDED = ("logits.npy", "labels.npy")


@dataclass(frozen=True)
class LogitSet:
    """The logits of one network on one data set, with labels.

    `recipe` is the recipe of the training that wrote them, empty for an archive.
    """

    name: str
    network: str
    data: str
    logits: Path | str
    labels: Path | str
    recipe: str = ""

    def read(self) -> tuple[Array, Int64]:
        """The logits (n, k) and the labels (n,); errors name the set."""
        try:
            rows = open_source(self.logits, labels=self.labels).whole()
            Tails.of(rows.logits)  # raises for a bad row
            classes = rows.logits.shape[1]
            return rows.logits, validation.label_column(rows.labels, len(rows.logits), classes)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None


def find(folders: Iterable[str | os.PathLike[str]]) -> tuple[LogitSet, ...]:
    """Every set in these folders, sorted by name: archives first, then runs.

    A set is an archive `NETWORK_DATA.npz` with the members `logits` and `labels`, or a folder with
    `run.json`, `logits.npy` and `labels.npy`, which training writes. A folder may itself be a run.
    """
    every: list[LogitSet] = []
    for folder in map(Path, folders):
        found = _sets_in(folder)
        if not found:
            raise InputError(
                "folder must hold .npz archives with logits and labels, or runs of tepid lab train,"
                f" got neither in {folder}"
            )
        every += found
    return tuple(every)


def open_run(folder: str | os.PathLike[str]) -> LogitSet:
    """The set in the folder of a run."""
    path = Path(folder)
    about = read_run(path)
    for name in _NEEDED:
        if not (path / name).is_file():
            raise InputError(f"run must have {name}, which training writes last, got {path}")
    network, data, recipe = (str(about.get(key, "")) for key in ("network", "data", "recipe"))
    depth = (about.get("config") or {}).get("depth")
    network = f"{network}-{depth}" if depth else network
    logits, labels = (path / name for name in _NEEDED)
    return LogitSet(path.resolve().name, network, data, logits, labels, recipe)


def read_run(folder: Path) -> dict[str, Any]:
    """The record of a run."""
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


def _sets_in(folder: Path) -> list[LogitSet]:
    if not folder.is_dir():
        raise InputError(f"folder must be a folder, got {folder}")
    if (folder / RUN).is_file():
        return [open_run(folder)]
    found = []
    for path in sorted(folder.glob("*.[nN][pP][zZ]")):
        if _is_labeled(path):
            network, _, data = path.stem.rpartition("_")
            found.append(LogitSet(path.stem, network, data, f"{path}#logits", f"{path}#labels"))
    runs = (p for p in sorted(folder.iterdir()) if _is_finished(p))
    return [*found, *map(open_run, runs)]


def _is_finished(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (RUN, *_NEEDED))


def _is_labeled(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return set(_NEEDED) <= set(archive.namelist())
    except zipfile.BadZipFile as error:
        raise InputError(f"{path} must be a whole .npz archive, got {error}") from None
