"""Passes over the data, for all rows and for every group at once, and the shrinkage of groups.

A method is a generator (`Passes`) that yields each `Pass` it needs and is sent the sum over all
batches. `run_by_group` runs one generator for all rows and one per group and answers all of them
from the same passes over the data. `in_parallel` does the same for several methods.
"""

import dataclasses
import math
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tepid import validation
from tepid.engines import Engine
from tepid.errors import InputError
from tepid.sources import Batch, Source
from tepid.sources.batch import of_rows, without_zero_weight
from tepid.summaries.curve import Curve, Lattice
from tepid.temperature import Temperature
from tepid.validation import Array, Int64

Result = TypeVar("Result")
# A group's name, or None for all rows.
Key: TypeAlias = str | None
# The summary of a batch: anything that adds.
BatchSummary: TypeAlias = Callable[[Batch], Any]
# The normal quantile of a 95 % interval.
_NORMAL = 1.96
# A standard error of log T above this carries no information about T: the ends of the interval
# would differ by a factor of 10^8.
LARGEST_ERROR = 5.0


@dataclass(frozen=True)
class Pass:
    """One pass over the data: the sum of `of` over all batches, under a name for the progress."""

    of: BatchSummary
    stage: str


Passes: TypeAlias = Generator[Pass, Any, Result]


@dataclass(frozen=True)
class ByKey:
    """Sums by key: by group, for the groups that have rows, or by name."""

    parts: dict[Any, Any]

    def __add__(self, other: "ByKey") -> "ByKey":
        total = self.parts | other.parts
        for key in self.parts.keys() & other.parts.keys():
            total[key] = self.parts[key] + other.parts[key]
        return ByKey(total)


def one_pass(of: BatchSummary, stage: str) -> Passes[Any]:
    """The method that needs a single pass and returns its sum."""
    return (yield Pass(of, stage))


def mean_confidence(temperature: float) -> Passes[float]:
    """The mean confidence at a temperature, by one exact pass."""
    lattice = Lattice.point(temperature)

    def of(batch: Batch) -> Curve:
        return Curve.of(batch.logits, lattice=lattice, sample_weight=batch.weight, bins=0)

    point: Curve = yield Pass(of, "measuring confidence")
    return float(point.confidence[0] / point.weight)


def run(passes: Passes[Result], source: Source, engine: Engine) -> Result:
    """What a method returns for all rows of a source."""
    reply = None
    while True:
        try:
            wanted = passes.send(reply)
        except StopIteration as done:
            result: Result = done.value
            return result
        reply = engine.total(partial(without_zero_weight, wanted.of), source, wanted.stage)


def run_by_group(
    method: Callable[[Key], Passes[Result]],
    source: Source,
    engine: Engine,
    keys: tuple[Key, ...] | None = None,
) -> dict[Key, Result]:
    """What a method returns for all rows, under None, and for each group of the source.

    In a source without groups every key stands for all rows.
    """
    keys = (None, *group_weights(source, engine)) if keys is None else keys
    return run(in_parallel({key: method(key) for key in keys}, _sum_groups), source, engine)


def _sum_all(batch: Batch, wanted: Mapping[Key, Pass]) -> ByKey:
    return ByKey({key: asked.of(batch) for key, asked in wanted.items()})


def _sum_groups(batch: Batch, wanted: Mapping[Key, Pass]) -> ByKey:
    if batch.group is None:
        return _sum_all(batch, wanted)
    parts: dict[Key, Any] = {}
    if None in wanted:
        parts[None] = wanted[None].of(batch)
    for name, rows in _rows_by_group(batch.group):
        if name in wanted:
            parts[name] = of_rows(batch, wanted[name].of, rows)
    return ByKey(parts)


def _rows_by_group(groups: Array) -> Iterator[tuple[str, Int64]]:
    if not len(groups):
        return
    names, where = np.unique(groups, return_inverse=True)
    ends = np.cumsum(np.bincount(where))[:-1]
    rows = np.split(np.argsort(where, kind="stable"), ends)
    for name, chosen in zip(names, rows, strict=True):
        yield str(name), chosen


def in_parallel(
    methods: Mapping[Key, Passes[Any]],
    summarize: Callable[..., ByKey] = _sum_all,
) -> Passes[dict[Key, Any]]:
    """The results of several methods by name, all answered from the same passes over the data."""
    replies: dict[Key, Any] = dict.fromkeys(methods)
    results: dict[Key, Any] = {}
    while True:
        wanted: dict[Key, Pass] = {}
        for key, reply in replies.items():
            try:
                wanted[key] = methods[key].send(reply)
            except StopIteration as done:
                results[key] = done.value
        if not wanted:
            return results
        stage = next(iter(wanted.values())).stage
        total: ByKey = yield Pass(partial(summarize, wanted=wanted), stage)
        replies = {key: total.parts[key] for key in wanted}


def group_weights(source: Source, engine: Engine) -> dict[str, float]:
    """The weight of each group that has any, by one pass; nothing without groups."""
    if not source.grouped:
        return {}
    if not source.repeatable:
        raise InputError("logits must be readable more than once to have groups, got an iterator")
    weights = engine.total(_weights, source.lean(), "counting groups").parts
    check_total(sum(weights.values()))
    return {str(name): weights[name] for name in sorted(weights, key=str)}


def _weights(batch: Batch) -> ByKey:
    names, where = np.unique(batch.group, return_inverse=True)
    weights = np.bincount(where, validation.weight_column(batch.weight, len(where)), len(names))
    return ByKey({str(name): float(w) for name, w in zip(names, weights, strict=True) if w > 0})


def check_total(weight: float) -> None:
    """Raise if the total weight is zero."""
    if not weight:
        raise InputError("sample_weight must not be zero for every row, got only zeros")


# Groups -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """An estimate of log T with its standard error; `kept` is the share of its own distance."""

    log_t: float
    error: float
    kept: float = 1.0


@dataclass(frozen=True)
class Fit:
    """A temperature, and the standard error of log T due to sampling alone."""

    temperature: Temperature
    error: float | None

    @property
    def known(self) -> bool:
        """Whether there is a temperature with a standard error."""
        return self.temperature.status == "ok" and 0 < (self.error or 0.0) <= LARGEST_ERROR

    @property
    def place(self) -> Place:
        """The estimate of log T, where it is known."""
        return Place(math.log(self.temperature.value), self.error or 0.0)


def shrink_groups(pool: Place, groups: Mapping[str, Place]) -> dict[str, Place]:
    r"""The estimates of groups, each shrunk toward the estimate of all rows.

    Groups are taken to differ by $\log T_g \sim N(\log T, \tau^2)$, with $\tau^2$ estimated by the
    method of moments (DerSimonian & Laird 1986). Each group keeps $\tau^2 / (\tau^2 + s_g^2)$ of
    its distance, $s_g$ being its own standard error. Groups that differ by no more than chance get
    one temperature.
    """
    variance = _variance_between(list(groups.values()))
    return {name: _shrink(own, pool, variance, len(groups)) for name, own in groups.items()}


def _variance_between(places: list[Place]) -> float:
    """The variance of log T between groups, beyond what their own errors explain."""
    weights = [1 / place.error**2 for place in places]
    total = math.fsum(weights)
    spare = total - math.fsum(w * w for w in weights) / total if len(places) > 1 else 0.0
    if spare <= 0:
        return 0.0
    center = math.fsum(w * p.log_t for w, p in zip(weights, places, strict=True)) / total
    excess = math.fsum(w * (p.log_t - center) ** 2 for w, p in zip(weights, places, strict=True))
    return max(0.0, (excess - (len(places) - 1)) / spare)


def _shrink(own: Place, pool: Place, variance: float, groups: int) -> Place:
    kept = variance / (variance + own.error**2)
    apart = own.log_t - pool.log_t
    # The last term is the uncertainty of the variance between groups (Morris 1983).
    unsure = 2 / max(groups - 1, 1) * ((1 - kept) * apart) ** 2
    error = math.sqrt(kept * own.error**2 + ((1 - kept) * pool.error) ** 2 + unsure)
    return Place(pool.log_t + kept * apart, error, kept)


def shrinkage_note(own: float, pool: float, kept: float) -> str:
    """How a group's temperature came about."""
    return (
        f"These rows alone gave T = {own:.4g}. It was shrunk toward the T of all rows, "
        f"{pool:.4g}, and keeps {100 * kept:.0f} % of the distance."
    )


def fit_by_group(
    method: Callable[[Key], Passes[Fit]],
    source: Source,
    engine: Engine,
    keys: tuple[Key, ...] | None = None,
) -> Temperature:
    """The temperature of all rows with those of the groups, shrunk by `shrink_groups`.

    A group without a temperature of its own gets the temperature of all rows.
    """
    fits = run_by_group(method, source, engine, keys)
    pooled = fits[None]
    own = {str(key): fit for key, fit in fits.items() if key is not None}
    if not own:
        return pooled.temperature
    groups = {name: fit.temperature for name, fit in own.items()}
    if pooled.known:
        known = {name: fit.place for name, fit in own.items() if fit.known}
        places = shrink_groups(pooled.place, known)
        shrunk = {name: _shrunk_fit(fit, pooled, places.get(name)) for name, fit in own.items()}

        def confidence_of(key: Key) -> Passes[float]:
            return mean_confidence(shrunk[str(key)].value)

        confidence = run_by_group(confidence_of, source, engine, tuple(shrunk))
        groups = {
            name: dataclasses.replace(t, implied_accuracy=confidence[name])
            for name, t in shrunk.items()
        }
    return dataclasses.replace(pooled.temperature, groups=groups)


def _shrunk_fit(fit: Fit, pooled: Fit, place: Place | None) -> Temperature:
    own, all_rows = fit.temperature, pooled.temperature
    if place is None:
        note = f"These rows alone gave no temperature ({own.status}); the T of all rows is used."
        return dataclasses.replace(
            all_rows, samples=own.samples, warnings=(note,), sensitivity=None
        )
    value = math.exp(place.log_t)
    return dataclasses.replace(
        own,
        value=value,
        interval=None if own.interval is None else interval_around(value, place.error),
        sensitivity=None,
        warnings=(shrinkage_note(own.value, all_rows.value, place.kept), *own.warnings),
    )


def interval_around(temperature: float, error: float) -> tuple[float, float]:
    """The 95 % interval of a temperature whose logarithm has this standard error."""
    return temperature * math.exp(-_NORMAL * error), temperature * math.exp(_NORMAL * error)
