"""Passes over the data, for all rows and for every group at once.

A method is a generator (`Passes`) that yields each `Pass` it needs and is sent the sum over all
batches. `run_by_group` runs one generator for all rows and one per group and answers all of them
from the same passes over the data. `in_parallel` does the same for several methods.
"""

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
from tepid.validation import Array, Int64

Result = TypeVar("Result")
# A group's name, or None for all rows.
Key: TypeAlias = str | None
# The summary of a batch: anything that adds.
BatchSummary: TypeAlias = Callable[[Batch], Any]


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


def run(passes: Passes[Result], source: Source, engine: Engine) -> Result:
    """What a method returns for all rows of a source."""
    return run_by_group(lambda _: passes, source, engine, (None,))[None]


def sum_by_group(
    of: BatchSummary, stage: str, source: Source, engine: Engine, keys: tuple[Key, ...]
) -> dict[Key, Any]:
    """One pass: the sum of `of` over all rows and over each group."""
    return run_by_group(lambda _: _one(Pass(of, stage)), source, engine, keys)


def _one(wanted: Pass) -> Passes[Any]:
    return (yield wanted)


def run_by_group(
    method: Callable[[Key], Passes[Result]],
    source: Source,
    engine: Engine,
    keys: tuple[Key, ...] | None = None,
) -> dict[Key, Result]:
    """What a method returns for all rows, under None, and for each group of the source.

    In a source without groups every key stands for all rows.
    """
    running = {key: method(key) for key in (group_keys(source, engine) if keys is None else keys)}
    replies: dict[Key, Any] = dict.fromkeys(running)
    results: dict[Key, Result] = {}
    while wanted := _advance(running, replies, results):
        total = engine.total(partial(_summarize, wanted=wanted), source, _stage(wanted))
        replies = {key: total.parts[key] for key in wanted}
    return results


def in_parallel(methods: Mapping[Key, Passes[Any]]) -> Passes[dict[Key, Any]]:
    """The results of several methods by name, all answered from the same passes over the data."""
    replies: dict[Key, Any] = dict.fromkeys(methods)
    results: dict[Key, Any] = {}
    while wanted := _advance(methods, replies, results):
        total: ByKey = yield Pass(partial(_summarize_each, wanted=wanted), _stage(wanted))
        replies = total.parts
    return results


def _advance(
    running: Mapping[Key, Passes[Any]], replies: dict[Key, Any], results: dict[Key, Any]
) -> dict[Key, Pass]:
    """Send each generator its reply. Returns the passes wanted next; adds to `results`."""
    wanted: dict[Key, Pass] = {}
    for key, reply in replies.items():
        try:
            wanted[key] = running[key].send(reply)
        except StopIteration as done:
            results[key] = done.value
    return wanted


def _stage(wanted: Mapping[Key, Pass]) -> str:
    return next(iter(wanted.values())).stage


def _summarize_each(batch: Batch, wanted: Mapping[Key, Pass]) -> ByKey:
    return ByKey({key: asked.of(batch) for key, asked in wanted.items()})


def group_weights(source: Source, engine: Engine) -> dict[str, float]:
    """The weight of each group that has any, by one pass; nothing without groups."""
    if not source.grouped:
        return {}
    if not source.repeatable:
        raise InputError("logits must be readable more than once to have groups, got an iterator")
    weights = engine.total(_weights, source.lean(), "counting groups").parts
    check_total(sum(weights.values()))
    return {str(name): weights[name] for name in sorted(weights, key=str)}


def group_keys(source: Source, engine: Engine) -> tuple[Key, ...]:
    """None, and the groups that have a row above weight zero."""
    return (None, *group_weights(source, engine))


def _weights(batch: Batch) -> ByKey:
    names, where = np.unique(batch.group, return_inverse=True)
    weights = np.bincount(where, validation.weight_column(batch.weight, len(where)), len(names))
    return ByKey({str(name): float(w) for name, w in zip(names, weights, strict=True) if w > 0})


def check_total(weight: float, name: str = "sample_weight") -> None:
    """Raise if the total weight is zero."""
    if not weight:
        raise InputError(f"{name} must not be zero for every row, got only zeros")


def _summarize(batch: Batch, wanted: dict[Key, Pass]) -> ByKey:
    return without_zero_weight(partial(_summarize_all, wanted=wanted), batch)


def _summarize_all(batch: Batch, wanted: dict[Key, Pass]) -> ByKey:
    if batch.group is None:
        return _summarize_each(batch, wanted)
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
