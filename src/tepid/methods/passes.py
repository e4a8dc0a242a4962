"""What a method asks of the data, answered for all rows and for every group in the same passes.

A method is a generator that yields a `Pass` and is sent the sum over all blocks. Many of them can
be answered together: each reading of the data sums for every one that is still asking.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tepid import arrays
from tepid.arrays import Array, Int64
from tepid.engines import Engine
from tepid.errors import InputError, RowError
from tepid.sources import Batch, Source, paths

Result = TypeVar("Result")
# A group's name, or None for all rows.
Key: TypeAlias = str | None
Summing: TypeAlias = Callable[[Batch], Any]


@dataclass(frozen=True)
class Pass:
    """One reading of the data: the sum of `of` over all blocks, and what it is done for."""

    of: Summing
    stage: str


Asking: TypeAlias = Generator[Pass, Any, Result]


@dataclass(frozen=True)
class Both:
    """Two summaries of the same rows."""

    first: Any
    second: Any

    def __add__(self, other: "Both") -> "Both":
        return Both(self.first + other.first, self.second + other.second)


def both(first: Summing, second: Summing) -> Callable[[Batch], Both]:
    """Two summaries in one reading."""
    return lambda batch: Both(first(batch), second(batch))


@dataclass(frozen=True)
class _Keyed:
    """Summaries, or counts, by key, for those keys that have rows."""

    parts: dict[Key, Any]

    def __add__(self, other: "_Keyed") -> "_Keyed":
        both = self.parts | other.parts
        for key in self.parts.keys() & other.parts.keys():
            both[key] = self.parts[key] + other.parts[key]
        return _Keyed(both)


def answered(asking: Asking[Result], source: Source, engine: Engine) -> Result:
    """What a method returns when its passes are read from a source."""
    return each_answered(lambda _: asking, source, engine, (None,))[None]


def each_answered(
    ask: Callable[[Key], Asking[Result]],
    source: Source,
    engine: Engine,
    keys: tuple[Key, ...] | None = None,
) -> dict[Key, Result]:
    """What a method returns for all rows, under None, and for each group of the source.

    A source without groups answers every key from all of its rows.
    """
    asking = {key: ask(key) for key in (keys_of(source, engine) if keys is None else keys)}
    replies: dict[Key, Any] = dict.fromkeys(asking)
    results: dict[Key, Result] = {}
    while replies:
        wanted: dict[Key, Pass] = {}
        for key, reply in replies.items():
            try:
                wanted[key] = asking[key].send(reply)
            except StopIteration as done:
                results[key] = done.value
        if not wanted:
            break
        stage = next(iter(wanted.values())).stage
        total = engine.total(partial(_parts, wanted=wanted), source, stage)
        replies = {key: total.parts[key] for key in wanted}
    return results


def weight_by_group(source: Source, engine: Engine) -> dict[str, float]:
    """The weight of each group that has any, by one pass."""
    weights = engine.total(_weights, source, "counting groups").parts
    check_total(sum(weights.values()))
    return {str(name): weights[name] for name in sorted(weights, key=str)}


def keys_of(source: Source, engine: Engine) -> tuple[Key, ...]:
    """None, and the groups that have a row of some weight."""
    if not source.grouped:
        return (None,)
    if not source.repeatable:
        raise InputError("logits must be readable more than once to have groups, got an iterator")
    return (None, *weight_by_group(source, engine))


def _weights(batch: Batch) -> _Keyed:
    names, where = np.unique(batch.group, return_inverse=True)
    weights = np.bincount(where, arrays.weight_column(batch.weight, len(where)), len(names))
    return _Keyed({str(name): float(w) for name, w in zip(names, weights, strict=True) if w > 0})


def check_weight(weight: Any, name: str) -> None:
    """Refuse an array of unusable weights under the name of its argument."""
    if weight is not None and not paths.is_path(weight):
        column = np.asarray(arrays.as_array(weight, name)).reshape(-1)
        check_total(float(arrays.weight_column(column, len(column), name).sum()), name)


def check_total(weight: float, name: str = "sample_weight") -> None:
    """Refuse rows that weigh nothing together."""
    if not weight:
        raise InputError(f"{name} must not be zero for every row, got only zeros")


def through(asking: Asking[Result], change: Callable[[Summing], Summing]) -> Asking[Result]:
    """The same method with every sum that it asks for changed."""
    reply = None
    while True:
        try:
            wanted = asking.send(reply)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # a generator's value is not typed
        reply = yield Pass(change(wanted.of), wanted.stage)


def only(asking: Asking[Result], choose: Callable[[Batch], Int64]) -> Asking[Result]:
    """The same method on the chosen rows of each batch."""
    return through(asking, lambda of: lambda batch: _of_part(batch, of, choose(batch)))


def without_zero_weight(of: Callable[[Batch], Result], batch: Batch) -> Result:
    """`of` over the rows of a batch whose weight is above zero, as if there were no others."""
    if batch.weight is None:
        return of(batch)
    weight = arrays.weight_column(batch.weight, len(batch.logits))
    return of(batch) if weight.all() else _of_part(batch, of, np.flatnonzero(weight))


def _parts(batch: Batch, wanted: dict[Key, Pass]) -> _Keyed:
    return without_zero_weight(partial(_parts_of_all, wanted=wanted), batch)


def _parts_of_all(batch: Batch, wanted: dict[Key, Pass]) -> _Keyed:
    if batch.group is None:
        return _Keyed({key: asked.of(batch) for key, asked in wanted.items()})
    parts: dict[Key, Any] = {}
    if None in wanted:
        parts[None] = wanted[None].of(batch)
    for name, rows in _rows_by_group(batch.group):
        if name in wanted:
            parts[name] = _of_part(batch, wanted[name].of, rows)
    return _Keyed(parts)


def _rows_by_group(groups: Array) -> Iterator[tuple[str, Int64]]:
    if not len(groups):
        return
    names, where = np.unique(groups, return_inverse=True)
    ends = np.cumsum(np.bincount(where))[:-1]
    rows = np.split(np.argsort(where, kind="stable"), ends)
    for name, chosen in zip(names, rows, strict=True):
        yield str(name), chosen


def _of_part(batch: Batch, of: Callable[[Batch], Result], rows: Int64) -> Result:
    try:
        return of(batch.take(rows))
    except RowError as error:  # the engine adds where the batch starts
        raise error.moved(int(rows[error.row]) - error.row) from None
