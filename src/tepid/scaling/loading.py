"""How a calibrator is read back: every field is checked, and nothing in a file is trusted."""

import json
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from tepid.errors import InputError
from tepid.scaling.affine import Affine
from tepid.scaling.betas import Betas
from tepid.scaling.lines import Lines
from tepid.scaling.mixture import Mixture
from tepid.scaling.saving import FORMAT
from tepid.scaling.steps import Steps

Check = tuple[Callable[[Any, Any], bool], str]
Calibrator = Affine | Mixture | Steps | Lines | Betas


def load(path: str | os.PathLike[str]) -> Calibrator:
    """The calibrator that `save` wrote, which gives the same probabilities to the last bit."""
    stored = _read(path)
    number = stored.pop("format", None)
    if type(number) is not int or number != FORMAT:
        raise InputError(f"{path} must have calibrator format {FORMAT}, got {_short(number)}")
    stored.pop("tepid", None)
    kind = stored.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InputError(f"{path} must hold a known kind of calibrator, got {_short(kind)}")
    made: Callable[..., Calibrator]
    made, checks = _KINDS[kind]
    for name, (check, must) in (_COMMON | checks).items():
        if name not in stored or not check(stored[name], stored):
            got = _short(stored.get(name))
            raise InputError(f"{path} must have a {name} that {must}, got {got}")
    odd = sorted(stored.keys() - _COMMON.keys() - checks.keys())
    if odd:
        raise InputError(f"{path} must have the fields of a {kind} alone, got {_short(odd)} too")
    return made(**stored | {"warnings": tuple(stored["warnings"])})


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header's fields and the arrays, in one dictionary."""
    with Path(path).open("rb") as file:
        try:
            arrays = _members(file)
            header = dict(json.loads(str(arrays.pop("header"))))
        except Exception:  # noqa: BLE001  # a file may be broken in more ways than can be listed
            raise InputError(
                f"{path} must be a calibrator saved by tepid, got another file"
            ) from None
    if header.keys() & arrays.keys():
        raise InputError(f"{path} must have every field once, got one in header and arrays")
    return header | arrays


def _members(file: IO[bytes]) -> dict[str, Any]:
    # What is compressed may be far larger than the file.
    if any(member.compress_type for member in zipfile.ZipFile(file).infolist()):
        raise zipfile.BadZipFile
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        return dict(archive)


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}, shape {value.shape}"
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."


def _is_number(value: Any, least: float = -sys.float_info.max) -> bool:
    return type(value) in (int, float) and least <= value <= sys.float_info.max


def _is_real(
    value: Any, shape: tuple[int, ...], low: float = -np.inf, high: float = np.inf
) -> bool:
    real = isinstance(value, np.ndarray) and value.dtype == np.float64 and value.shape == shape
    return real and bool((np.isfinite(value) & (value >= low) & (value <= high)).all())


def _is_weight(value: Any, stored: dict[str, Any]) -> bool:
    k = stored["classes"]
    return _is_real(value, (k,)) or _is_real(value, (k, k))


def _are_starts(value: Any, stored: dict[str, Any], least: int) -> bool:
    whole = isinstance(value, np.ndarray) and value.dtype == np.int64
    if not whole or value.shape != (stored["classes"] + 1,):
        return False
    return bool(value[0] == 0 and (np.diff(value) >= least).all())


def _rise(value: Any, stored: dict[str, Any]) -> bool:
    """Whether probabilities rise within each class."""
    starts = stored["starts"]
    if not _is_real(value, (int(starts[-1]),), 0.0, 1.0):
        return False
    inside = np.ones(max(len(value) - 1, 0), bool)
    borders = starts[(starts > 0) & (starts < len(value))]
    inside[borders - 1] = False
    return bool((np.diff(value)[inside] > 0).all())


def _is_vector(value: Any, stored: dict[str, Any]) -> bool:
    return _is_real(value, (stored["classes"],))


def _is_rising_part(value: Any, stored: dict[str, Any]) -> bool:
    return _is_real(value, (stored["classes"],), low=0.0)


_COMMON: dict[str, Check] = {
    "method": (lambda v, _: isinstance(v, str), "is a string"),
    "samples": (lambda v, _: type(v) is int and v >= 0, "is a count"),
    "classes": (lambda v, _: type(v) is int and v >= 2, "is a number of classes"),
    "warnings": (
        lambda v, _: isinstance(v, list) and all(isinstance(w, str) for w in v),
        "is a list of sentences",
    ),
}
_FEATURES = ("logits", "log-probabilities")
_STRENGTH: Check = (lambda v, _: _is_number(v, 0.0), "is a number from zero up")
_VECTOR: Check = (_is_vector, "has one finite number for each class")
_RISING: Check = (_is_rising_part, "has one finite number from zero up for each class")
_KINDS: dict[str, tuple[Any, dict[str, Check]]] = {
    "Affine": (
        Affine,
        {
            "features": (lambda v, _: v in _FEATURES, "is logits or log-probabilities"),
            "off_diagonal": _STRENGTH,
            "intercepts": _STRENGTH,
            "weight": (_is_weight, "has one finite number, or one row of them, for each class"),
            "bias": _VECTOR,
        },
    ),
    "Mixture": (
        Mixture,
        {
            "temperature": (lambda v, _: _is_number(v, 0.0) and v > 0, "is a number above zero"),
            "weights": (
                lambda v, _: _is_real(v, (3,), 0.0, 1.0) and abs(v.sum() - 1) < 1e-9,
                "has three shares of one",
            ),
        },
    ),
    "Steps": (
        Steps,
        {
            "starts": (lambda v, s: _are_starts(v, s, 0), "says where each class begins"),
            "edges": (_rise, "rises from 0 to 1 within each class"),
            "values": (
                lambda v, s: _is_real(v, (int(s["starts"][-1]) + s["classes"],), 0.0, 1.0),
                "has a probability for each bin",
            ),
        },
    ),
    "Lines": (
        Lines,
        {
            "starts": (lambda v, s: _are_starts(v, s, 1), "says where each class begins"),
            "knots": (_rise, "rises from 0 to 1 within each class"),
            "values": (
                lambda v, s: _is_real(v, (int(s["starts"][-1]),), 0.0, 1.0),
                "has a probability for each knot",
            ),
        },
    ),
    "Betas": (Betas, {"a": _RISING, "b": _RISING, "c": _VECTOR}),
}
