"""A monitor as a file: plain arrays and a header of JSON in `.npz`, nothing pickled."""

import dataclasses
import importlib.metadata
import json
import os
import zipfile
import zlib
from typing import Any

import numpy as np

from tepid.arrays import Float64
from tepid.errors import InputError
from tepid.online.limits import Spread
from tepid.online.reference import Reference
from tepid.online.rules import Rules
from tepid.online.state import Chunk, State
from tepid.online.sums import Sums
from tepid.replacing import replacing

FORMAT = 1
_DAMAGE = (
    ValueError, EOFError, KeyError, TypeError, AttributeError, NotImplementedError, zlib.error,
    zipfile.BadZipFile,
)  # fmt: skip
_COUNTS = ("seen", "kept", "closed", "alerts")
_COLUMNS = tuple(field.name for field in dataclasses.fields(Chunk))


def save(path: str | os.PathLike[str], reference: Reference, rules: Rules, state: State) -> None:
    """Write under another name, then rename."""
    header = {
        "format": FORMAT,
        "kind": "Monitor",
        "tepid": importlib.metadata.version("tepid"),
        "reference": reference.as_dict(),
        "rules": dataclasses.asdict(rules),
        "counts": {name: getattr(state, name) for name in _COUNTS},
    }
    history = [[getattr(chunk, name) for name in _COLUMNS] for chunk in state.history]
    with replacing(path) as file:
        np.savez(
            file,
            header=np.array(json.dumps(header, allow_nan=False)),
            thresholds=reference.thresholds,
            open=state.open.vector,
            recent=state.recent.vector,
            squares=np.array([state.open.squares, state.recent.squares]),
            span=np.array([state.start, state.end]),
            history=np.array(history).reshape(-1, len(_COLUMNS)),
        )


def load(path: str | os.PathLike[str]) -> tuple[Reference, Rules, State]:
    """What `save` wrote; refuses another file and an unknown format by name."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = dict(archive)
        header = json.loads(str(arrays.pop("header")))
        number = header["format"]
    except _DAMAGE:
        raise InputError(f"{path} must be a monitor saved by tepid, got another file") from None
    if type(number) is not int or number != FORMAT or header.get("kind") != "Monitor":
        raise InputError(f"{path} must have monitor format {FORMAT}, got {number}")
    try:
        _check_numbers(header, arrays)
        return _restored(header, arrays)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
        raise InputError(f"{path} must be a whole monitor, got a mismatch: {error}") from None


def _check_numbers(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Refuse what no monitor could have written: it would come out as NaN, or worse."""
    for name in ("thresholds", "open", "recent", "squares"):
        if arrays[name].dtype != np.float64 or not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} that are not sums")
    temperature = header["reference"]["temperature"]
    if type(temperature) not in (int, float) or not 0 < temperature < np.inf:
        raise ValueError(f"a temperature of {temperature!r}")
    for name in _COUNTS:
        if type(header["counts"][name]) is not int or header["counts"][name] < 0:
            raise ValueError(f"{name} of {header['counts'][name]!r}")


def _restored(header: dict[str, Any], arrays: dict[str, Any]) -> tuple[Reference, Rules, State]:
    fields = dict(header["reference"])
    spread = Spread(**fields.pop("spread"))
    reference = Reference(**fields, spread=spread, thresholds=arrays["thresholds"])
    rules = dict(header["rules"])
    limits = rules.pop("limits")
    first, second = arrays["squares"].tolist()
    start, end = arrays["span"].tolist()
    state = State(
        open=_sums(reference, arrays["open"], first),
        recent=_sums(reference, arrays["recent"], second),
        start=start,
        end=end,
        history=tuple(Chunk(*row) for row in arrays["history"].tolist()),
        **{name: int(header["counts"][name]) for name in _COUNTS},
    )
    return reference, Rules(limits=None if limits is None else tuple(limits), **rules), state


def _sums(reference: Reference, vector: Float64, squares: float) -> Sums:
    if vector.shape != (reference.layout.size,):
        raise ValueError(f"{vector.shape} sums for {reference.layout.size}")
    return Sums(reference.layout, vector, squares)
