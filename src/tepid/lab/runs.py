"""The folder of a run: logits and labels in files of their own, weights, and how they came about.

`run.json` is written last, so that a folder which has it is finished.
"""

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tepid.errors import InputError
from tepid.replacing import replacing

RECORD, CHECKPOINT, WEIGHTS = "run.json", "checkpoint.pt", "weights.pt"
_PACKAGES = ("tepid", "torch", "torchvision", "numpy")


def save(path: Path, state: Any) -> None:
    """Write tensors and plain values so that a crash leaves the old file whole."""
    with replacing(path) as file:
        torch.save(state, file)


def checkpoint(run: Path, config: dict[str, Any], device: Any) -> dict[str, Any] | None:
    """What an interrupted run of the same configuration left, or None where there is none."""
    path = run / CHECKPOINT
    if not path.exists():
        return None
    stored: dict[str, Any] = torch.load(path, weights_only=True, map_location=device)
    _refuse_other(run, stored["config"], config)
    return stored


def finished(run: Path, config: dict[str, Any]) -> dict[str, Any] | None:
    """The record of a run of the same configuration that is done, or None."""
    path = run / RECORD
    if not path.exists():
        return None
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    _refuse_other(run, record["config"], config)
    return record


def write(run: Path, arrays: dict[str, Any], weights: Any, record: dict[str, Any]) -> None:
    """Finish a run: its arrays, its weights, its record, and no checkpoint any more."""
    for name, array in arrays.items():
        with replacing(run / f"{name}.npy") as file:
            np.save(file, array, allow_pickle=False)
    save(run / WEIGHTS, weights)
    with replacing(run / RECORD) as file:
        file.write((json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())
    (run / CHECKPOINT).unlink(missing_ok=True)


def versions() -> dict[str, str]:
    """Which Python and packages a run was made with."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # torchvision is needed by most sets and not by all
            continue
    return found


def _refuse_other(run: Path, stored: dict[str, Any], config: dict[str, Any]) -> None:
    differing = sorted(
        key for key in stored.keys() | config.keys() if stored.get(key) != config.get(key)
    )
    if differing:
        key = differing[0]
        raise InputError(
            f"{run} must be a new folder or a run of the same recipe, got {key} = "
            f"{config.get(key)!r} where it has {stored.get(key)!r}"
        )
