"""Multi-label rows: each of K columns is a binary problem, with a row for each of them."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid import validation
from tepid.errors import InputError, RowError
from tepid.sources.batch import Batch, Part
from tepid.sources.source import Source
from tepid.validation import Array


@dataclass(frozen=True, eq=False)
class MultilabelPart(Part):
    """The rows (n, K) of a part as (n·K, 2), label by label within each row.

    Labels beside the part are (n, K). The K entries of a row are one cluster, unless clusters are
    given. With `per_label` the group of an entry is the name of its label.
    """

    part: Part
    names: tuple[str, ...]
    per_label: bool = False
    probabilities: bool = False

    @property
    def name(self) -> str:  # type: ignore[override]  # never assigned
        """That of the part."""
        return self.part.name

    @property
    def rows(self) -> int | None:
        """The number of entries."""
        return None if self.part.rows is None else self.part.rows * len(self.names)

    @property
    def portable(self) -> bool:
        """Whether the part is."""
        return self.part.portable

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the entries; raises for the first row that is invalid."""
        for batch in self.part.batches(max(1, size // len(self.names))):
            if len(batch.logits):
                with batch.locating():
                    split = self._split(batch)
                yield split

    def _split(self, batch: Batch) -> Batch:
        k = len(self.names)
        found = batch.logits.shape[1] if batch.logits.ndim > 1 else 1
        if found != k:
            raise InputError(f"{batch.name} must have {k} labels in every row, got {found}")
        wanted = None if batch.weight is None else np.asarray(batch.weight) != 0
        z = label_logits(batch.logits, "logits", probabilities=self.probabilities, wanted=wanted)

        def each(column: Any) -> Any:
            return None if column is None else np.repeat(np.asarray(column), k)

        group = np.tile(np.array(self.names), len(z)) if self.per_label else None
        labels = None if batch.labels is None else np.asarray(batch.labels).reshape(-1)
        return batch._replace(
            logits=_pairs(z), labels=labels, weight=each(batch.weight), group=group, id=None,
            cluster=each(batch.cluster), peers=tuple(map(self._split_peer, batch.peers)),
            start=None if batch.start is None else batch.start * k, row=batch.row * k,
            unit=batch.unit * k, begin=batch.begin * k, each=k,
        )  # fmt: skip

    def _split_peer(self, peer: Array) -> Array:
        """Another model's binary logits (n·K, 2), NaN where it has no answer."""
        answered = np.asarray(~np.isnan(peer).any(axis=1))
        z = label_logits(peer, "models", probabilities=self.probabilities, wanted=answered)
        pairs = _pairs(z)
        pairs[np.isnan(z.reshape(-1))] = np.nan
        return pairs

    def select(self, keep: frozenset[str]) -> "MultilabelPart":
        """The same rows with fewer columns."""
        return dataclasses.replace(self, part=self.part.select(keep))

    def leaves(self) -> list[Part]:
        """Those of the part."""
        return self.part.leaves()

    def map_leaves(self, change: Callable[[Part], Part]) -> "MultilabelPart":
        """The same with each leaf replaced."""
        return dataclasses.replace(self, part=self.part.map_leaves(change))


def split_labels(source: Source, *, per_label: bool = False) -> Source:
    """Multi-label rows (n, K) as n·K binary rows; labels beside them are (n, K).

    With `per_label` each label is a group.
    """
    names = label_names(source)
    parts = tuple(
        MultilabelPart(part, names, per_label, source.probabilities) for part in source.parts
    )
    columns = source.columns | ({"group"} if per_label else set())
    shape = None if source.shape is None else (*source.shape, len(names))
    return source.replaced(
        parts=parts, classes=2, binary=True, names=None, probabilities=False, shape=shape,
        columns=columns, items=True,
    )  # fmt: skip


def label_names(source: Source) -> tuple[str, ...]:
    """The names of the labels of multi-label rows, or their numbers."""
    k = source.classes
    if k is None:
        # Labels beside multi-label rows cannot be read before the rows are split.
        first = next(source.select().batches(1, once=True)).logits
        k = int(first.shape[-1]) if first.ndim > 1 else 1
    if source.binary or k < 2:
        raise InputError(
            f"{source.name} must have a column for each label with multilabel, got one column"
        )
    return tuple(str(name) for name in source.names or range(k))


def _pairs(z: Array) -> Array:
    """Binary logits as pairs whose larger entry is 0, so that +inf is a masked class 0."""
    z = z.reshape(-1)
    return np.stack([np.where(z > 0, -z, 0), np.where(z > 0, 0, z)], axis=1)


def label_logits(
    values: Any, name: str, *, probabilities: bool = False, wanted: Array | None = None
) -> Array:
    """The binary logit of each label (n, K), as floats.

    Raises for the first row, of those that are `wanted`, that has NaN, inf or, with
    `probabilities`, a value outside of [0, 1].

    >>> label_logits([[0.5, 1.0]], "logits", probabilities=True)
    array([[ 0., inf]])
    """
    z = np.asarray(validation.to_host(validation.as_array(values, name)))
    z = z if z.dtype.kind == "f" and z.dtype.itemsize > 2 else z.astype(np.float64)
    if probabilities:
        _refuse(name, z, ~((z >= 0) & (z <= 1)), "be probabilities in [0, 1]", wanted)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(z) - np.log1p(-z))
    _refuse(name, z, ~(z < np.inf), "be finite, or -inf for an impossible label", wanted)
    return z


def read_labels(values: Any, rows: int, k: int, name: str = "labels") -> Array:
    """Labels (n, K) of 0 and 1 as int8, -1 where NaN or -1 says that one is unknown."""
    y = np.asarray(validation.to_host(validation.as_array(values, name)))
    if y.shape != (rows, k):
        raise InputError(f"{name} must have the shape {(rows, k)} of the logits, got {y.shape}")
    y = np.where(np.isnan(y), -1, y) if y.dtype.kind == "f" else y
    _refuse(name, y, (y != 0) & (y != 1) & (y != -1), "be 0 or 1, or -1 where unknown", None)
    return np.asarray(y, np.int8)


def _refuse(name: str, values: Array, bad: Array, must: str, wanted: Array | None) -> None:
    rows = bad.any(axis=1) if wanted is None else bad.any(axis=1) & wanted
    if rows.any():
        row = int(rows.argmax())
        column = int(bad[row].argmax())
        raise RowError(name, must, f"{values[row, column]} for label {column}", row)
