"""Temperature: the result, which turns logits into probabilities and says how far to trust it."""

import dataclasses
import importlib.metadata
import json
import math
import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from tepid import errors, shapes, validation
from tepid.errors import InputError
from tepid.kernels import scores
from tepid.store import atomic_write
from tepid.validation import Float64

FORMAT = 1
Status = Literal["ok", "at-bound", "not-identified", "abstained"]


@dataclass(frozen=True)
class Temperature:
    """A temperature T > 0 with what is needed to distrust it; call it on logits.

    T divides: above 1 it softens. `implied_accuracy` is the mean confidence at T on the rows it was
    fitted to: if the model's accuracy there is another number, T is wrong by at least that much in
    ECE. `precision` bounds the relative error of `value` against the exact optimum; for UTS, over
    the pairs that it drew, of which one within 1e-6 of its threshold may fall on either side.
    `prior_spread` is the standard deviation of the prior on log T where one was used, for few
    labels. `groups` holds a temperature for each group that was fitted apart.

    >>> Temperature(2.0, "labels", samples=10, classes=2, implied_accuracy=0.8)([[0.0, 4.0]])
    array([[0.119, 0.881]])
    """

    value: float
    method: str
    _: dataclasses.KW_ONLY
    samples: int
    classes: int
    implied_accuracy: float
    status: Status = "ok"
    interval: tuple[float, float] | None = None
    sensitivity: tuple[float, float] | None = None
    precision: float = 5e-6
    warnings: tuple[str, ...] = ()
    prior_spread: float | None = None
    groups: Mapping[str, "Temperature"] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        validation.check_temperature(self.value)

    def __float__(self) -> float:
        return self.value

    def __call__(
        self,
        logits: Any,
        *,
        groups: Any = None,
        class_axis: int | None = None,
        probabilities: bool = False,
    ) -> Any:
        """Probabilities, softmax(logits / T), in the shape and memory order of the logits.

        float64 gives float64, everything else float32; torch tensors give tensors on their device;
        binary logits (n,) or (n, 1) give (n, 2). A row's largest logit keeps its largest
        probability, and float32 logits keep their order. With `groups`, one name per row, each row
        gets its group's temperature, and that of all rows where its group was not fitted. With
        `probabilities` the values are uncalibrated probabilities instead of logits.
        """
        if probabilities:
            return self(
                validation.log_probabilities(logits, class_axis),
                groups=groups,
                class_axis=class_axis,
            )
        if groups is not None:
            return self._by_group(logits, groups, class_axis)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(logits, torch.Tensor):
            return self._tensor(torch, logits, class_axis)
        z = shapes.class_last(validation.as_array(logits), class_axis)
        if z.ndim == 1 and self.classes > 2:
            raise InputError(
                f"logits must be (n, {self.classes}), or logits[None] for one row, "
                f"got shape {z.shape}"
            )
        k = shapes.class_count(z)
        self.check_classes(k)
        if validation.look_like_probabilities(z):
            validation.warn_probabilities()
        lead = z.shape[:1] if z.ndim == 1 else z.shape[:-1]
        wide = z.dtype.kind == "f" and z.dtype.itemsize >= np.float64().itemsize
        out = np.empty((*lead, k), np.float64 if wide else np.float32)
        start = 0
        for part in shapes.parts(lead, shapes.rows_per_batch(k)):
            block = z[part].reshape(-1, z.shape[-1] if z.ndim > 1 else 1)
            out[part] = self._block(block, out.dtype, start).reshape(out[part].shape)
            start += len(block)
        return shapes.class_back(out, class_axis)

    def _by_group(self, logits: Any, groups: Any, class_axis: int | None) -> Any:
        names = validation.group_column(groups)
        out = self(logits, class_axis=class_axis)
        rows = shapes.class_last(validation.as_array(logits), class_axis)
        lead = np.shape(rows)[: max(1, rows.ndim - 1)]
        if np.ndim(groups) > 1 and np.shape(groups) != lead:
            raise InputError(f"groups must have the shape {lead}, got {np.shape(groups)}")
        if len(names) != math.prod(rows.shape[:1] if rows.ndim == 1 else rows.shape[:-1]):
            must = f"have one entry for each of the rows of {tuple(rows.shape)}"
            raise InputError(f"groups must {must}, got {len(names)}")
        there = names.reshape(shapes.class_last(out, class_axis).shape[:-1])
        for name, temperature in self.groups.items():
            chosen = there == name
            if chosen.any():
                shapes.class_last(out, class_axis)[chosen] = temperature(rows[chosen])
        return out

    def _block(self, z: Any, dtype: Any, start: int) -> Any:
        out = np.empty((len(z), self.classes), dtype)
        try:
            block = (
                validation.as_kernel_input(z)
                if dtype == np.float32
                else validation.centered(shapes.matrix(z))
            )
            bad = scores.softmax(block, min(1.0 / self.value, sys.float_info.max), out)
            if bad >= 0:
                raise validation.unusable(z, bad)
        except errors.RowError as error:
            raise error.moved(start) from None
        return out

    def _tensor(self, torch: Any, logits: Any, class_axis: int | None) -> Any:
        if not validation.is_foreign(logits):
            return torch.from_numpy(self(validation.as_array(logits), class_axis=class_axis))
        z = shapes.class_last(logits, class_axis)
        if z.ndim == 1 or z.shape[-1] == 1:
            z = shapes.matrix(z.reshape(-1)).reshape(*(z.shape if z.ndim == 1 else z.shape[:-1]), 2)
        self.check_classes(z.shape[-1])
        z = z.to(z.dtype if z.dtype == torch.float64 else torch.float32)
        # inf - inf is NaN, so a row is NaN somewhere exactly if it cannot be used.
        distance = z - z.amax(dim=-1, keepdim=True)
        _refuse_unusable(z, distance)
        limits = torch.finfo(z.dtype)
        beta = min(max(1.0 / self.value, limits.tiny), limits.max)
        return shapes.class_back(torch.softmax(beta * distance, dim=-1), class_axis)

    def check_classes(self, classes: int) -> None:
        """Refuse logits of another number of classes than the calibration's."""
        if classes != self.classes:
            raise InputError(
                f"logits must have the {self.classes} classes of the calibration, got {classes}"
            )

    def as_dict(self) -> dict[str, Any]:
        """What is saved, as plain JSON values."""
        head = {"format": FORMAT, "tepid": importlib.metadata.version("tepid")}
        fields = self._fields()
        if self.groups:
            fields["groups"] = {name: t._fields() for name, t in self.groups.items()}
        return head | fields

    def _fields(self) -> dict[str, Any]:
        fields = dataclasses.asdict(dataclasses.replace(self, groups={}))
        del fields["groups"]
        if self.prior_spread is None:
            del fields["prior_spread"]
        return {"temperature": fields.pop("value")} | fields

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON; a crash leaves the old file whole."""
        with atomic_write(path) as file:
            file.write((json.dumps(self.as_dict(), indent=2) + "\n").encode())


def _refuse_unusable(z: Any, distance: Any) -> None:
    """Raise for the first row of a tensor whose distances to its maximum are NaN."""
    if z.is_meta:  # a tensor without values
        return
    bad = distance.isnan().any(dim=-1).reshape(-1)
    if bool(bad.any()):
        row = int(bad.int().argmax())
        values = z.detach().reshape(-1, z.shape[-1])[row : row + 1].cpu()
        raise validation.unusable(values, 0).moved(row)


def softmax(logits: Any, temperature: float = 1.0) -> Float64:
    """The softmax of logits / T as (n, k) in float64; raises and names the row if one is invalid.

    >>> softmax([[0.0, 4.0]], 2.0)
    array([[0.119, 0.881]])
    """
    z = validation.as_array(logits)
    block = validation.as_kernel_input(z)
    p = np.empty(block.shape)
    bad = scores.softmax(block, 1.0 / temperature, p)
    if bad >= 0:
        raise validation.unusable(z, bad)
    return p


def describe_doubts(temperature: Temperature, *notes: str) -> str:
    """T, its method and status, the notes and all warnings in one line; empty without any."""
    reasons = " ".join([*notes, *temperature.warnings])
    if not reasons and temperature.status == "ok":
        return ""
    found = f"T = {temperature.value:.4g} ({temperature.method}, {temperature.status})"
    return f"{found}: {reasons}" if reasons else found


def warn_unreliable(temperature: Temperature, *notes: str) -> None:
    """Emit one `CalibrationWarning` if there are doubts, at the line that called the caller."""
    doubts = describe_doubts(temperature, *notes)
    if doubts:
        warnings.warn(doubts, errors.CalibrationWarning, stacklevel=3)


def load(path: str | os.PathLike[str]) -> Temperature:
    """The temperature that `Temperature.save` wrote; every field is checked."""
    if Path(path).suffix.lower() == ".npz":
        raise InputError(f"{path} must be a temperature in .json, got .npz; see tepid.scaling.load")
    try:
        stored = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise InputError(f"{path} must be a calibration saved by tepid, got no JSON") from None
    return parsed(stored, str(path))


def parsed(stored: Any, place: str = "calibration") -> Temperature:
    """The temperature of what `Temperature.as_dict` gave, as JSON brings it back."""
    number = stored.get("format") if isinstance(stored, dict) else None
    if type(number) is not int or number != FORMAT:
        raise InputError(f"{place} must have calibration format {FORMAT}, got {number}")
    groups = stored.get("groups", {})
    if not isinstance(groups, dict) or not all(isinstance(g, dict) for g in groups.values()):
        raise InputError(f"{place} must have groups that are temperatures by name, got {groups!r}")
    parts = {name: _checked(part, f"{place}, group {name!r},") for name, part in groups.items()}
    whole = _checked(stored, place)
    for part in parts.values():
        if part.classes != whole.classes:
            raise InputError(
                f"{place} must have groups of {whole.classes} classes, got {part.classes}"
            )
    return dataclasses.replace(whole, groups=parts)


def _checked(stored: dict[str, Any], place: str) -> Temperature:
    for name, (check, must) in _SCHEMA.items():
        if name in _OPTIONAL and name not in stored:
            continue
        if name not in stored or not check(stored[name]):
            raise InputError(f"{place} must have a {name} that {must}, got {stored.get(name)!r}")
    return Temperature(
        float(stored["temperature"]),
        stored["method"],
        samples=stored["samples"],
        classes=stored["classes"],
        implied_accuracy=float(stored["implied_accuracy"]),
        status=stored["status"],
        interval=_pair(stored["interval"]),
        sensitivity=_pair(stored["sensitivity"]),
        precision=float(stored["precision"]),
        warnings=tuple(stored["warnings"]),
        prior_spread=stored.get("prior_spread"),
    )


def _pair(value: list[float] | None) -> tuple[float, float] | None:
    return None if value is None else (float(value[0]), float(value[1]))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_pair(value: Any) -> bool:
    pair = isinstance(value, list) and len(value) == 2 and all(_is_positive(v) for v in value)
    return value is None or pair


_SCHEMA = {
    "temperature": (_is_positive, "is a number above zero"),
    "method": (lambda v: isinstance(v, str), "is a string"),
    "samples": (lambda v: type(v) is int and v >= 0, "is a count"),
    "classes": (lambda v: type(v) is int and v >= 2, "is a number of classes"),
    "implied_accuracy": (lambda v: _is_number(v) and 0 <= v <= 1, "is in [0, 1]"),
    "status": (lambda v: v in get_args(Status), "is a known status"),
    "interval": (_is_pair, "is null or a pair of temperatures"),
    "sensitivity": (_is_pair, "is null or a pair of temperatures"),
    "precision": (_is_positive, "is a number above zero"),
    "warnings": (
        lambda v: isinstance(v, list) and all(isinstance(w, str) for w in v),
        "is a list of sentences",
    ),
    "prior_spread": (_is_positive, "is a number above zero"),
}
# Written only where it applies.
_OPTIONAL = ("prior_spread",)
