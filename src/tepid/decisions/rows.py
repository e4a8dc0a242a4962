"""The rows that decisions are about: their probabilities at T and at both ends of its interval."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from tepid import shapes, validation
from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.sources import Batch, Source, open_source
from tepid.sources.batch import of_rows, without_zero_weight
from tepid.summaries.summary import softmax
from tepid.validation import Array, Float64, Int64

# Bins of log-odds: their range to both sides of zero, and how many per unit, for all rows and for
# each class.
RANGE, PER_UNIT, PER_UNIT_BY_CLASS = 32, 64, 16

_ASSUMPTION = (
    "The calibrated probabilities are taken as the distribution of the labels: the rows must be "
    "like those that T was fitted to, and one temperature must fit the model"
)


@dataclass(frozen=True)
class Temperatures:
    """T and the ends of its interval, for all rows and for the groups that have their own.

    Without an interval both ends are T. Rows that do not have this number of `classes` are refused,
    if it is known.
    """

    value: float
    low: float
    high: float
    groups: Mapping[str, "Temperatures"]
    classes: int | None = None

    @property
    def each(self) -> tuple[float, float, float]:
        """T, its lower and its upper end."""
        return self.value, self.low, self.high

    @property
    def assumption(self) -> str:
        """What every number at these temperatures assumes, in a sentence."""
        exact = self.low == self.high and all(t.low == t.high for t in self.groups.values())
        return _ASSUMPTION + ("; T has no interval, so its error is not counted." if exact else ".")


@dataclass(frozen=True)
class Interval:
    """A number that is expected, and its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Any) -> "Interval":
        """From a number at T, at its lower and at its upper end."""
        value, low, high = (float(each) for each in values)
        return cls(value, min(value, low, high), max(value, low, high))

    def __str__(self) -> str:
        ends = f" ({self.low:.4g} to {self.high:.4g})" if self.low < self.high else ""
        return f"{self.value:.4g}{ends}"

    def as_dict(self) -> dict[str, float]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


def end_text(lines: list[str], verdict: str | None, assumption: str) -> str:
    """The text of an answer: its lines, the verdict on the temperature, and what it assumes."""
    known = [] if verdict is None else [f"verdict on T: {verdict}"]
    return "\n".join([*lines, *known, f"assumption: {assumption}"])


_READING = ("sample_weight", "groups", "class_axis", "columns", "probabilities")


def open_rows(logits: Any, reading: Mapping[str, Any]) -> Source:
    """The rows to decide on; labels are not read."""
    unknown = next((name for name in reading if name not in _READING), None)
    if unknown is not None:
        raise InputError(f"arguments must be among {', '.join(_READING)}, got {unknown}")
    return open_source(logits, **reading).select()


def open_labeled(labeled: Any) -> Source:
    """A pair (logits, labels), or a source with labels."""
    if not isinstance(labeled, Source):
        if not isinstance(labeled, (tuple, list)) or len(labeled) != 2:
            kind = type(labeled).__name__
            raise InputError(f"labeled must be a pair (logits, labels), got {kind}")
        labeled = open_source(labeled[0], labels=labeled[1])
    source: Source = labeled
    if not source.labeled:
        raise InputError("labeled must have labels, got none")
    if source.weighted:
        raise InputError("labeled must go without weights, got some")
    return source


def name_classes(names: Sequence[Any] | None, source: Source, classes: int) -> list[str]:
    """The names of the classes: those given, those of the columns of logits, or numbers."""
    if names is None:
        names = source.names or range(classes)
    if not isinstance(names, Iterable):
        raise InputError(f"names must be a list of the names of the classes, got {names!r}")
    found = [str(name) for name in names]
    if len(found) != classes:
        raise InputError(f"names must be one for each of the {classes} classes, got {len(found)}")
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"names must differ from each other, got {twice!r} twice")
    return found


class _Sums(Protocol):
    @property
    def rows(self) -> float: ...

    def __add__(self, other: Self, /) -> Self: ...


Sums = TypeVar("Sums", bound=_Sums)


def sum_rows(
    of: Callable[[Batch], Sums], source: Source, engine: Engine | None, stage: str
) -> Sums:
    """The sums over all rows whose weight is above zero."""
    total: Sums = choose_engine(engine, source).total(
        partial(without_zero_weight, of), source, stage
    )
    if not total.rows:
        raise InputError("sample_weight must not be zero for every row, got only zeros")
    return total


def probabilities_of(batch: Batch, temperatures: Temperatures, ends: int = 3) -> Float64:
    """The probabilities (3, n, k) at T and at both ends of its interval; (1, n, k) at T alone."""
    logits = validation.as_array(batch.logits)
    if temperatures.classes is not None:
        shapes.check_classes(logits, temperatures.classes)
    if batch.group is None:
        return np.stack([softmax(logits, t) for t in temperatures.each[:ends]])
    out = np.empty((ends, len(logits), shapes.class_count(logits)))
    for name in np.unique(batch.group):
        rows = np.flatnonzero(batch.group == name)
        own = temperatures.groups.get(str(name), temperatures)
        of = partial(probabilities_of, temperatures=own, ends=ends)
        out[:, rows] = of_rows(batch._replace(group=None), of, rows)
    return out


def calibrated(
    logits: Any,
    temperatures: Temperatures,
    *,
    groups: Any = None,
    class_axis: int | None = None,
    probabilities: bool = False,
) -> tuple[Float64, Any]:
    """The probabilities at T in float64, classes last, and which classes are not masked."""
    if validation.flag(probabilities, "probabilities"):
        logits = validation.log_probabilities(logits, class_axis)
    z = shapes.class_last(validation.as_array(logits), class_axis)
    if temperatures.classes is not None:
        shapes.check_classes(z, temperatures.classes)
    lead = z.shape if z.ndim == 1 else z.shape[:-1]
    rows = shapes.matrix(z.reshape(-1, *z.shape[z.ndim - 1 :]) if z.ndim > 1 else z)
    names = None if groups is None else validation.group_column(groups)
    if names is not None and len(names) != len(rows):
        must = f"groups must have one entry for each of the {len(rows)} rows"
        raise InputError(f"{must}, got {len(names)}")
    (p,) = probabilities_of(Batch(rows, group=names), temperatures, ends=1)
    shape = (*lead, p.shape[-1])
    return p.reshape(shape), (rows > -np.inf).reshape(shape)


def bins_of(probabilities: Float64, per_unit: int) -> Int64:
    """The bin of each probability by its log-odds."""
    with np.errstate(divide="ignore"):
        odds = np.log(probabilities) - np.log1p(-np.minimum(probabilities, 1.0))
    place = np.floor((np.clip(odds, -RANGE, RANGE) + RANGE) * per_unit)
    found: Int64 = np.minimum(place, 2 * RANGE * per_unit - 1).astype(np.int64)
    return found


def at_least(probabilities: Float64, edges: Float64, per_unit: int) -> Array:
    """Which probabilities are in the bin that begins at an edge, or in a higher one.

    Near 1, where floats are coarser than bins, this still agrees with what was summed.
    """
    with np.errstate(divide="ignore"):
        odds = np.log(edges) - np.log1p(-edges)
    first = np.rint((np.clip(odds, -RANGE, RANGE) + RANGE) * per_unit)
    return np.asarray(bins_of(probabilities, per_unit) >= first)


def sum_by_bin(where: Int64, values: Float64, bins: int) -> Float64:
    """The sums of values by bin."""
    return np.bincount(where, values, bins).astype(np.float64, copy=False)


def lower_edges(per_unit: int) -> Float64:
    """The least probability of each bin, 0 for the first."""
    odds = np.arange(2 * RANGE * per_unit) / per_unit - RANGE
    edges = 1 / (1 + np.exp(-odds))
    edges[0] = 0.0
    return edges
