"""The reference: a period in which all was well, cut into chunks as the served rows will be."""

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tepid import arrays, shapes
from tepid.arrays import Array, Float64
from tepid.errors import InputError, RowError
from tepid.online.estimate import estimate_of
from tepid.online.limits import Spread
from tepid.online.sums import Layout
from tepid.scalars import number, whole
from tepid.sources import open_source
from tepid.tails import Tails
from tepid.temperature import Temperature

NAME = "reference_logits"
_LEAST = 2


@dataclass(frozen=True, eq=False)
class Reference:
    """What a monitor compares with; monitors with the same reference can be merged.

    Exactly one of `chunk`, in rows, and `period`, in seconds, is given. `thresholds` are the
    reference's own, `confidence` its mean confidence at T = 1, `estimate` its temperature by UTS if
    that is asked for, and `spread` that of its chunks at `temperature`.
    """

    temperature: float
    chunk: int | None
    period: float | None
    bins: int
    reestimate: bool
    thresholds: Float64
    confidence: float
    estimate: float | None
    spread: Spread

    @property
    def classes(self) -> int:
        """How many."""
        return len(self.thresholds)

    @cached_property
    def layout(self) -> Layout:
        """Which sums are kept of a row."""
        return layout_of(self.temperature, self.thresholds, self.bins, reestimate=self.reestimate)

    @cached_property
    def fingerprint(self) -> str:
        """Twelve letters that another reference will not have."""
        plain = json.dumps(self.as_dict(), sort_keys=True).encode()
        return hashlib.sha256(plain + self.thresholds.tobytes()).hexdigest()[:12]

    def as_dict(self) -> dict[str, Any]:
        """All but the thresholds, as plain JSON values."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        del fields["thresholds"]
        return fields | {"spread": dataclasses.asdict(self.spread)}


def layout_of(temperature: float, thresholds: Float64, bins: int, *, reestimate: bool) -> Layout:
    """The sums at a temperature, and around it where another one is to be estimated."""
    return Layout(temperature, thresholds[None] if reestimate else thresholds[None][:0], bins)


def summarised(
    logits: Any, temperature: float | Temperature, chunks: "Chunks", *, bins: int, reestimate: bool
) -> Reference:
    """The reference of logits (n, k) in their order in time, at the temperature that is served."""
    source = open_source(logits).select()
    if source.weighted:
        raise InputError(f"sample_weight must be left out of {NAME}, got one")
    z = source.whole().logits
    if isinstance(temperature, Temperature):
        temperature.check_classes(shapes.class_count(z))
    value = arrays.check_temperature(number(temperature, "temperature"))
    tails = _tails(z)
    thresholds = tails.thresholds()
    layout = layout_of(value, thresholds, bins, reestimate=reestimate)
    parts = [layout.of(z[rows]) for rows in chunks.cut(len(z))]
    rows = np.array([part.weight for part in parts])
    means = np.array([part.confidence for part in parts]) / rows
    return Reference(
        temperature=value,
        chunk=chunks.size,
        period=chunks.period,
        bins=bins,
        reestimate=reestimate,
        thresholds=thresholds,
        confidence=float(tails.confidence.sum()) / tails.weight,
        estimate=estimate_of(sum(parts, layout.zero())) if reestimate else None,
        spread=Spread.of(means, rows),
    )


def _tails(z: Any) -> Tails:
    total = Tails.zero(shapes.class_count(z))
    start = 0
    for batch in shapes.slices(z, shapes.rows_per_block(total.classes)):
        try:
            total = total + Tails.of(batch)
        except RowError as error:
            raise error.moved(start, NAME) from None
        start += len(batch)
    return total


@dataclass(frozen=True)
class Chunks:
    """How the reference is cut: by `size` in rows, or by `period` in seconds and its `times`."""

    size: int | None = None
    period: float | None = None
    times: Any = None

    def __post_init__(self) -> None:
        if (self.size is None) == (self.period is None):
            both = f"chunk={self.size} and period={self.period}"
            raise InputError(f"chunk or period must be given, and not both, got {both}")
        if self.size is not None and whole(self.size, "chunk") < 1:
            raise InputError(f"chunk must be at least one row, got {self.size}")
        if self.period is not None and not 0 < number(self.period, "period") < math.inf:
            raise InputError(f"period must be a number of seconds above zero, got {self.period}")
        if (self.times is None) != (self.period is None):
            got = "none" if self.times is None else "them with a chunk of rows"
            raise InputError(f"times must be given with period, one for each row, got {got}")

    def cut(self, n: int) -> list[Any]:
        """The rows of each chunk; where a size is given, what does not fill a chunk is left out."""
        cuts = self._by_size(n) if self.size is not None else self._by_time(n)
        if len(cuts) < _LEAST:
            raise InputError(
                f"{NAME} must fill at least {_LEAST} chunks, to show how far chunks differ, "
                f"got {len(cuts)} from {n} rows"
            )
        return cuts

    def _by_size(self, n: int) -> list[slice]:
        size = self.size or n
        return [slice(start, start + size) for start in range(0, n - size + 1, size)]

    def _by_time(self, n: int) -> list[Array]:
        times = np.asarray(arrays.as_array(self.times, "times"), np.float64)
        if times.shape != (n,) or not np.isfinite(times).all():
            must = f"be one finite number of seconds for each of the {n} rows"
            raise InputError(f"times must {must}, got shape {times.shape}")
        _, which = np.unique(np.floor(times / (self.period or 1.0)), return_inverse=True)
        return [np.flatnonzero(which == chunk) for chunk in range(which.max(initial=-1) + 1)]


def checked(logits: Any, classes: int) -> Any:
    """A batch of logits, or a refusal if it has another number of classes than the reference."""
    z = arrays.as_array(logits)
    if z.ndim == 1 and classes > 2:
        must = f"be (n, {classes}), or logits[None] for one row"
        raise InputError(f"logits must {must}, got shape {tuple(z.shape)}")
    z = shapes.class_last(z)
    if shapes.class_count(z) != classes:
        raise InputError(
            f"logits must have the {classes} classes of the reference, got {shapes.class_count(z)}"
        )
    if arrays.look_like_probabilities(z):
        arrays.warn_probabilities()
    return z
