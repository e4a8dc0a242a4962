"""How a calibrator is written: one `.npz` with a JSON header and plain arrays, nothing pickled."""

import dataclasses
import importlib.metadata
import json
import os
from typing import Any

import numpy as np

from tepid.replacing import replacing

FORMAT = 1


def save(calibrator: Any, path: str | os.PathLike[str]) -> None:
    """Write a calibrator; `tepid.scaling.load` reads it back, to the last bit."""
    fields = {f.name: getattr(calibrator, f.name) for f in dataclasses.fields(calibrator)}
    arrays: Any = {name: v for name, v in fields.items() if isinstance(v, np.ndarray)}
    head = {
        "format": FORMAT,
        "tepid": importlib.metadata.version("tepid"),
        "kind": type(calibrator).__name__,
    }
    plain = {name: v for name, v in fields.items() if name not in arrays}
    with replacing(path) as file:
        np.savez(file, header=np.array(json.dumps(head | plain)), **arrays)
