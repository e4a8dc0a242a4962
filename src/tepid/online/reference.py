"""The reference that served rows are compared with, and the rules of the comparison."""

import dataclasses
import hashlib
import json
import math
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tepid import shapes, store, validation
from tepid.errors import InputError, RowError
from tepid.online.sums import Layout
from tepid.sources import open_source
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature
from tepid.validation import (
    LARGEST_SEED,
    Float64,
    Int64,
    check_bins,
    check_temperature,
    flag,
    number,
    replace_fields,
    whole,
)

_NAME = "reference_logits"
_LEAST_CHUNKS = 2
# Counts up to here are exact in float64.
LARGEST_COUNT = 1 << 53
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
        threshold: The deployed confidence threshold: rows whose confidence at the served
            temperature is at least this are accepted. Their share is then judged too, and the
            false alarms are divided between both.
        accepted_limits: Fixed limits for the accepted share.
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
    threshold: float | None = None
    accepted_limits: tuple[float, float] | None = None
    half_life: float | None = None
    reestimate: bool = False
    sample: float = 1.0
    seed: int = 0
    bins: int = 15
    remember: int = 1000

    def __post_init__(self) -> None:
        replace_fields(
            self,
            false_alarms=number(self.false_alarms, "false_alarms"),
            limits=_check_limits("limits", self.limits),
            threshold=_check_threshold(self.threshold),
            accepted_limits=_check_limits("accepted_limits", self.accepted_limits),
            half_life=None if self.half_life is None else number(self.half_life, "half_life"),
            reestimate=flag(self.reestimate, "reestimate"),
            sample=number(self.sample, "sample"),
            seed=whole(self.seed, "seed", 0, LARGEST_SEED),
            bins=check_bins(self.bins),
            remember=whole(self.remember, "remember", 1),
        )
        if not 0 < self.false_alarms < 1:
            raise InputError(f"false_alarms must be in (0, 1), got {self.false_alarms}")
        if not 0 < self.sample <= 1:
            raise InputError(f"sample must be in (0, 1], got {self.sample}")
        if self.half_life is not None and not 0 < self.half_life < math.inf:
            raise InputError(f"half_life must be a number above zero, got {self.half_life}")
        if self.threshold is None and self.accepted_limits is not None:
            raise InputError("accepted_limits must go with a threshold, got none")

    @property
    def keep(self) -> float:
        """The factor of the recent window when a new chunk joins it."""
        return 0.0 if self.half_life is None else 0.5 ** (1 / self.half_life)


def _check_threshold(threshold: Any) -> float | None:
    if threshold is None:
        return None
    value = number(threshold, "threshold")
    if not 0 < value <= 1:
        raise InputError(f"threshold must be in (0, 1], got {threshold}")
    return value


def _check_limits(name: str, limits: Any) -> tuple[float, float] | None:
    if limits is None:
        return None
    try:
        low, high = limits
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    found = number(low, name), number(high, name)
    if not 0 <= found[0] < found[1] <= 1:
        raise InputError(f"{name} must be (low, high) within [0, 1], got {limits}")
    return found


@dataclass(frozen=True)
class Spread:
    r"""The mean confidence, or accepted share, of a reference, and how far its chunks scatter.

    With chunks of $n_j$ rows and mean $x_j$, $N = \sum n_j$ and
    $\bar x = \sum n_j x_j / N$: `deviation` is the standard deviation of one row as the chunks
    show it, $s^2 = \sum_j n_j (x_j - \bar x)^2 / (m - 1)$. Rows that resemble their neighbors make
    it larger than the scatter of single rows, as it must be.
    """

    mean: float
    deviation: float
    chunks: int
    rows: float

    def __post_init__(self) -> None:
        _check_number("mean", self.mean, 0.0, 1 + _ROUNDING)
        _check_number("deviation", self.deviation, 0.0, 1e100)
        whole(self.chunks, "chunks", _LEAST_CHUNKS)
        _check_number("rows", self.rows, 1.0, LARGEST_COUNT)

    @classmethod
    def of(cls, means: Float64, rows: Float64) -> "Spread":
        """Return the spread of two chunks or more."""
        total = float(rows.sum())
        mean = float(rows @ means) / total
        square = float(rows @ (means - mean) ** 2) / (len(means) - 1)
        return cls(mean, math.sqrt(square), len(means), total)

    @classmethod
    def of_shares(cls, shares: Float64, rows: Float64) -> "Spread":
        """Return the spread of shares of rows, at least that of independent rows.

        Where nearly all rows are accepted, or nearly none, few chunks may show hardly any spread.
        The share of independent rows has two more of either kind (Agresti and Coull, 1998).
        """
        found = cls.of(shares, rows)
        share = (found.mean * found.rows + 2) / (found.rows + 4)
        deviation = max(found.deviation, math.sqrt(share * (1 - share)))
        return dataclasses.replace(found, deviation=deviation)

    def limits(self, rows: float, false_alarms: float) -> tuple[float, float]:
        """Return the limits for a chunk of `rows` rows."""
        half = self.half_width(rows, false_alarms)
        return self.mean - half, self.mean + half

    def half_width(self, rows: float, false_alarms: float) -> float:
        r"""Return the half width of the interval for the mean of `rows` rows.

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
    `reestimate`, and `spread` that of its chunks at `temperature`. `accepted` is the spread of the
    share of rows whose confidence is at least `threshold`, if there is one. `layout` says which
    sums are kept of the rows that are compared.
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
    threshold: float | None = None
    accepted: Spread | None = None
    layout: Layout = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        chunk, period = _check_chunks(self.chunk, self.period)
        replace_fields(
            self,
            temperature=check_temperature(self.temperature),
            chunk=chunk,
            period=period,
            bins=check_bins(self.bins),
            reestimate=flag(self.reestimate, "reestimate"),
            threshold=_check_threshold(self.threshold),
        )
        k = max(self.thresholds.size, 2)
        store.check_numbers("thresholds", self.thresholds, (k,), 0.0, 1.0)
        _check_number("confidence", self.confidence, 0.0, 1 + _ROUNDING)
        if self.estimate is not None:
            _check_number("estimate", self.estimate, sys.float_info.min)
        if (self.threshold is None) != (self.accepted is None):
            raise InputError("threshold must go with the spread of accepted rows, got one of them")
        theta = self.thresholds[None][: self.reestimate]
        layout = Layout(self.temperature, theta, self.bins, self.threshold)
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
        accepted = None if self.accepted is None else dataclasses.asdict(self.accepted)
        return fields | {"spread": dataclasses.asdict(self.spread), "accepted": accepted}


def _check_chunks(chunk: Any, period: Any) -> tuple[int | None, float | None]:
    if (chunk is None) == (period is None):
        both = f"chunk={chunk} and period={period}"
        raise InputError(f"chunk or period must be given, and not both, got {both}")
    if period is None:
        return whole(chunk, "chunk", 1), None
    seconds = number(period, "period")
    if not 0 < seconds < math.inf:
        raise InputError(f"period must be a number of seconds above zero, got {period}")
    return None, seconds


def _check_number(name: str, value: Any, low: float, high: float = math.inf) -> None:
    store.check_numbers(name, number(value, name), (), low, high)


def summarize_reference(
    logits: Any,
    temperature: float | Temperature,
    rules: Rules,
    *,
    chunk: int | None,
    period: float | None,
    times: Any,
) -> Reference:
    """Return the reference of logits (n, k) in their order in time, at the served temperature."""
    chunk, period = _check_chunks(chunk, period)
    source = open_source(logits).select()
    if source.weighted:
        raise InputError(f"sample_weight must be left out of {_NAME}, got one")
    z = source.whole().logits
    if isinstance(temperature, Temperature):
        temperature.check_classes(shapes.class_count(z))
    value = check_temperature(temperature)
    cuts = _cut_chunks(int(z.shape[0]), chunk, period, times)
    try:
        tails = Tails.of(z)
    except RowError as error:
        raise error.moved(0, _NAME) from None
    thresholds = tails.thresholds()
    threshold = rules.threshold
    layout = Layout(value, thresholds[None][: rules.reestimate], rules.bins, threshold)
    parts = [layout.of(take_rows(z, rows)) for rows in cuts]
    rows = np.array([part.weight for part in parts])
    means = np.array([part.confidence for part in parts]) / rows
    shares = np.array([part.accepted for part in parts]) / rows
    return Reference(
        temperature=value,
        chunk=chunk,
        period=period,
        bins=rules.bins,
        reestimate=rules.reestimate,
        thresholds=thresholds,
        confidence=float(tails.confidence.sum()) / tails.weight,
        estimate=sum(parts, layout.zero()).estimated_value() if rules.reestimate else None,
        spread=Spread.of(means, rows),
        threshold=threshold,
        accepted=None if threshold is None else Spread.of_shares(shares, rows),
    )


def _cut_chunks(
    n: int, chunk: int | None, period: float | None, times: Any
) -> list[slice] | list[Int64]:
    """The rows of each chunk, by size or by time; an incomplete last one by size is left out."""
    if (times is None) != (period is None):
        got = "none" if times is None else "them with a chunk of rows"
        raise InputError(f"times must be given with period, one for each row, got {got}")
    cuts: list[slice] | list[Int64]
    if chunk is not None:
        cuts = [slice(start, start + chunk) for start in range(0, n - chunk + 1, chunk)]
    else:
        seconds = np.asarray(validation.as_array(times, "times"), np.float64)
        if seconds.shape != (n,) or not np.isfinite(seconds).all():
            must = f"be one finite number of seconds for each of the {n} rows"
            raise InputError(f"times must {must}, got shape {seconds.shape}")
        periods = np.floor(seconds / (period or 1.0))
        cuts = [np.flatnonzero(periods == each) for each in np.unique(periods)]
    if len(cuts) < _LEAST_CHUNKS:
        raise InputError(
            f"{_NAME} must fill at least {_LEAST_CHUNKS} chunks, to show how far chunks differ, "
            f"got {len(cuts)} from {n} rows"
        )
    return cuts


def take_rows(logits: Any, rows: slice | Int64) -> Any:
    """Return some rows of an array, which may live on another device."""
    if isinstance(rows, slice) or not hasattr(logits, "__array_namespace__"):
        return logits[rows]
    xp = logits.__array_namespace__()
    return xp.take(logits, xp.asarray(rows), axis=0)
