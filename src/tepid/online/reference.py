"""The reference that served rows are compared with, and the rules of the comparison."""

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tepid import shapes, validation
from tepid.errors import InputError, RowError
from tepid.online.sums import Layout, estimate_value
from tepid.sources import open_source
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature
from tepid.validation import Array, Float64, check_bins, number, whole

NAME = "reference_logits"
_LEAST_CHUNKS = 2
# Mean confidences are float32 moments: a difference below this is rounding.
_ROUNDING = 1e-6
# Beyond this many degrees of freedom Student's quantile changes by less than 2e-6.
_MOST_FREEDOM = 10**6


@dataclass(frozen=True)
class Rules:
    """How chunks are judged; the defaults judge each chunk by itself.

    Args:
        false_alarms: The probability that a chunk without drift raises an alert, over all
            references and chunks of the same kind.
        limits: Fixed limits (low, high) for the implied accuracy, instead of those of the
            reference.
        half_life: The number of chunks after which a chunk counts half. The recent window, which
            is judged, is then all chunks with exponential forgetting. None: the last chunk.
        reestimate: Whether to estimate a temperature from the recent window by UTS, with the
            thresholds of the reference. It is reported, and never applied.
        sample: The probability with which each row is looked at.
        seed: The random seed of the sample.
        bins: The number of bins of the confidence histogram.
        remember: The number of chunks in the history.
    """

    false_alarms: float = 0.01
    limits: tuple[float, float] | None = None
    half_life: float | None = None
    reestimate: bool = False
    sample: float = 1.0
    seed: int = 0
    bins: int = 15
    remember: int = 1000

    def __post_init__(self) -> None:
        if not 0 < number(self.false_alarms, "false_alarms") < 1:
            raise InputError(f"false_alarms must be in (0, 1), got {self.false_alarms}")
        if not 0 < number(self.sample, "sample") <= 1:
            raise InputError(f"sample must be in (0, 1], got {self.sample}")
        if self.half_life is not None and not (0 < number(self.half_life, "half_life") < math.inf):
            raise InputError(f"half_life must be a number above zero, got {self.half_life}")
        _check_limits(self.limits)
        whole(self.seed, "seed")
        if whole(self.remember, "remember") < 1:
            raise InputError(f"remember must be at least 1, got {self.remember}")
        check_bins(self.bins)

    @property
    def keep(self) -> float:
        """The factor of the recent window when a new chunk joins it."""
        return 0.0 if self.half_life is None else 0.5 ** (1 / self.half_life)


def _check_limits(limits: Any) -> None:
    try:
        low, high = (0.0, 1.0) if limits is None else limits
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not 0 <= number(low, "limits") < number(high, "limits") <= 1:
        raise InputError(f"limits must be (low, high) within [0, 1], got {limits}")


@dataclass(frozen=True)
class Spread:
    r"""The mean confidence of a reference, and how far its chunks scatter around it.

    With chunks of $n_j$ rows and mean confidence $x_j$, $N = \sum n_j$ and
    $\bar x = \sum n_j x_j / N$: `deviation` is the standard deviation of one row as the chunks
    show it, $s^2 = \sum_j n_j (x_j - \bar x)^2 / (m - 1)$. Rows that resemble their neighbors make
    it larger than the scatter of single rows, as it must be.
    """

    mean: float
    deviation: float
    chunks: int
    rows: float

    @classmethod
    def of(cls, means: Float64, rows: Float64) -> "Spread":
        """Return the spread of two chunks or more."""
        total = float(rows.sum())
        mean = float(rows @ means) / total
        square = float(rows @ (means - mean) ** 2) / (len(means) - 1)
        return cls(mean, math.sqrt(square), len(means), total)

    def half_width(self, rows: float, false_alarms: float) -> float:
        r"""Return the half width of the interval for the mean confidence of `rows` rows.

        $t_{m-1}\, s \sqrt{1/n + 1/N}$, the prediction interval of one more chunk: exact where the
        means of chunks are normal, which means over a hundred rows nearly are. Student's quantile
        widens it where the reference has few chunks. A quantile of the chunks themselves would
        assume less, but cannot promise 1 % with fewer than 199 of them.
        """
        quantile = student(1 - false_alarms / 2, self.chunks - 1)
        width = quantile * self.deviation * math.sqrt(1 / rows + 1 / self.rows)
        return max(width, _ROUNDING)


@lru_cache(maxsize=64)
def student(probability: float, freedom: int) -> float:
    """Return a quantile of Student's t above its median, by bisection of the distribution.

    >>> student(0.975, 10)
    2.228
    """
    freedom = min(freedom, _MOST_FREEDOM)
    low, high = 0.0, math.pi / 2
    while True:
        angle = (low + high) / 2
        if angle in (low, high):
            return math.sqrt(freedom) * math.tan(angle)
        if 0.5 + _central_probability(angle, freedom) / 2 < probability:
            low = angle
        else:
            high = angle


def _central_probability(angle: float, freedom: int) -> float:
    """P(|t| < √freedom tan angle), Abramowitz and Stegun 26.7.3 and 26.7.4."""
    odd = freedom % 2
    steps = np.arange(2 + odd, freedom - 1, 2)
    terms = np.cumprod(np.concatenate([[1.0], (steps - 1) / steps * math.cos(angle) ** 2]))
    if not odd:
        return math.sin(angle) * float(terms.sum())
    series = float(terms.sum()) * math.cos(angle) if freedom > 1 else 0.0
    return 2 / math.pi * (angle + math.sin(angle) * series)


@dataclass(frozen=True, eq=False)
class Reference:
    """What a monitor compares with; monitors with the same reference can be merged.

    Exactly one of `chunk`, in rows, and `period`, in seconds, is given. `thresholds` are the
    reference's own, `confidence` its mean confidence at T = 1, `estimate` its temperature by UTS if
    `reestimate`, and `spread` that of its chunks at `temperature`. `layout` says which sums are
    kept of the rows that are compared.
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
    layout: Layout = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        layout = _make_layout(
            self.temperature, self.thresholds, self.bins, reestimate=self.reestimate
        )
        object.__setattr__(self, "layout", layout)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.thresholds)

    @property
    def fingerprint(self) -> str:
        """A 12-digit content hash."""
        plain = json.dumps(self.as_dict(), sort_keys=True).encode()
        return hashlib.sha256(plain + self.thresholds.tobytes()).hexdigest()[:12]

    def as_dict(self) -> dict[str, Any]:
        """Return all fields but the thresholds as plain JSON values."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}
        del fields["thresholds"]
        return fields | {"spread": dataclasses.asdict(self.spread)}


def _make_layout(temperature: float, thresholds: Float64, bins: int, *, reestimate: bool) -> Layout:
    """The sums at a temperature, and around it if another one is to be estimated."""
    return Layout(temperature, thresholds[None] if reestimate else thresholds[None][:0], bins)


def summarize_reference(
    logits: Any, temperature: float | Temperature, chunks: "Chunks", *, bins: int, reestimate: bool
) -> Reference:
    """Return the reference of logits (n, k) in their order in time, at the served temperature."""
    source = open_source(logits).select()
    if source.weighted:
        raise InputError(f"sample_weight must be left out of {NAME}, got one")
    z = source.whole().logits
    if isinstance(temperature, Temperature):
        temperature.check_classes(shapes.class_count(z))
    value = validation.check_temperature(number(temperature, "temperature"))
    tails = _sum_tails(z)
    thresholds = tails.thresholds()
    layout = _make_layout(value, thresholds, bins, reestimate=reestimate)
    parts = [layout.of(take_rows(z, rows)) for rows in chunks.cut(int(z.shape[0]))]
    rows = np.array([part.weight for part in parts])
    means = np.array([part.confidence for part in parts]) / rows
    return Reference(
        temperature=value,
        chunk=None if chunks.size is None else int(chunks.size),
        period=None if chunks.period is None else float(chunks.period),
        bins=int(bins),
        reestimate=reestimate,
        thresholds=thresholds,
        confidence=float(tails.confidence.sum()) / tails.weight,
        estimate=estimate_value(sum(parts, layout.zero())) if reestimate else None,
        spread=Spread.of(means, rows),
    )


def _sum_tails(z: Any) -> Tails:
    total = Tails.zero(shapes.class_count(z))
    start = 0
    for batch in shapes.slices(z, shapes.rows_per_batch(total.classes)):
        try:
            total = total + Tails.of(batch)
        except RowError as error:
            raise error.moved(start, NAME) from None
        start += int(batch.shape[0])
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

    def cut(self, n: int) -> list[slice | Array]:
        """Return the rows of each chunk; with a size, an incomplete last chunk is left out."""
        cuts = self._by_size(n) if self.size is not None else self._by_time(n)
        if len(cuts) < _LEAST_CHUNKS:
            raise InputError(
                f"{NAME} must fill at least {_LEAST_CHUNKS} chunks, to show how far chunks differ, "
                f"got {len(cuts)} from {n} rows"
            )
        return cuts

    def _by_size(self, n: int) -> list[slice | Array]:
        size = self.size or n
        return [slice(start, start + size) for start in range(0, n - size + 1, size)]

    def _by_time(self, n: int) -> list[slice | Array]:
        times = np.asarray(validation.as_array(self.times, "times"), np.float64)
        if times.shape != (n,) or not np.isfinite(times).all():
            must = f"be one finite number of seconds for each of the {n} rows"
            raise InputError(f"times must {must}, got shape {times.shape}")
        _, which = np.unique(np.floor(times / (self.period or 1.0)), return_inverse=True)
        return [np.flatnonzero(which == chunk) for chunk in range(which.max(initial=-1) + 1)]


def check_batch(logits: Any, classes: int) -> Any:
    """Return a batch of logits; refuse another number of classes than the reference's."""
    z = validation.as_array(logits)
    if z.ndim == 1 and classes > 2:
        must = f"be (n, {classes}), or logits[None] for one row"
        raise InputError(f"logits must {must}, got shape {tuple(z.shape)}")
    z = shapes.class_last(z)
    if shapes.class_count(z) != classes:
        raise InputError(
            f"logits must have the {classes} classes of the reference, got {shapes.class_count(z)}"
        )
    if validation.look_like_probabilities(z):
        validation.warn_probabilities()
    return z


def take_rows(logits: Any, rows: slice | Array) -> Any:
    """Return some rows of an array, which may live on another device."""
    if isinstance(rows, slice) or not hasattr(logits, "__array_namespace__"):
        return logits[rows]
    xp = logits.__array_namespace__()
    return xp.take(logits, xp.asarray(rows), axis=0)
