"""`Source`: logits as an ordered sequence of parts, with what lies beside them."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tepid import shapes, validation
from tepid.errors import InputError
from tepid.sources.attached import AnyPeer, AttachedPart
from tepid.sources.batch import (
    ArrayPart,
    Batch,
    Part,
    chain_parts,
    count_rows,
    mismatch,
    row_shape,
)
from tepid.sources.spool import Spool
from tepid.tables import ARGUMENTS, Columns
from tepid.validation import Array, ClassNames


@dataclass(frozen=True, eq=False)
class Source:
    """Logits as an ordered sequence of parts.

    `columns` are those of `labels`, `weight`, `group`, `id` and `cluster` that every batch has, and
    `peers` where a pass that does not need them should not compute them. `shape` is the shape of an
    array without its class axis. `items` says that several rows may be one item, as the pixels of
    an image are. `binary` means one logit per row. `names` are those of the
    classes, by which labels are read. Where the parts hold `probabilities`, batches hold their
    logarithms. A source that must be decoded has a `spool`, which keeps the decoded rows for the
    next pass.
    """

    parts: tuple[Part, ...]
    name: str = "logits"
    classes: int | None = None
    columns: frozenset[str] = frozenset()
    shape: tuple[int, ...] | None = None
    items: bool = False
    binary: bool = False
    repeatable: bool = True
    names: ClassNames | None = None
    probabilities: bool = False
    spool: Spool | None = field(default=None, repr=False)

    @property
    def rows(self) -> int | None:
        """The number of rows, or None if no pass has counted them yet."""
        counted = count_rows(self.parts)
        return self.spool.rows if counted is None and self.spool is not None else counted

    @property
    def labeled(self) -> bool:
        """Whether the rows have labels."""
        return "labels" in self.columns

    @property
    def weighted(self) -> bool:
        """Whether the rows have weights."""
        return "weight" in self.columns

    @property
    def grouped(self) -> bool:
        """Whether the rows have groups."""
        return "group" in self.columns

    @property
    def clustered(self) -> bool:
        """Whether rows belong together, by a column or as the pixels of an image."""
        return "cluster" in self.columns or self.items

    def batches(
        self, size: int, *, allow_empty: bool = False, once: bool = False
    ) -> Iterator[Batch]:
        """Yield every batch in order; `once` says that there will be no second pass."""
        read = self.checked(chain_parts(self.parts, size))
        if self.spool is not None:
            read = self.spool.through(read, size, store=not once)
        empty = True
        for batch in read:
            empty = False
            yield batch
        if empty and not allow_empty:
            raise InputError(f"{self.name} must have at least one row, got none")

    def checked(self, batches: Iterator[Batch], start: int | None = 0) -> Iterator[Batch]:
        """Batches of this source with numbered rows, the same classes, and labels as int64.

        A label is the position of its class, or -1 where it is unknown. Empty batches are dropped.
        Engines call this on workers, with the batches that they read there.
        """
        classes = self.classes
        for batch in batches:
            count = batch.logits.shape[0]
            if not count:
                continue
            found = shapes.class_count(batch.logits)
            if classes is not None and found != classes:
                raise InputError(
                    f"{batch.name} must have {classes} classes in every row, "
                    f"got {found} from row {batch.row}"
                )
            if classes is None and self.names is not None:
                validation.class_names(self.names, found)  # nobody could count them before
            classes = found
            with batch.locating():
                converted = self._converted(batch._replace(start=start), found)
            yield converted
            start = None if start is None else start + count

    def _converted(self, batch: Batch, classes: int) -> Batch:
        if self.probabilities:
            batch = batch._replace(logits=validation.logits_of(batch.logits))
        if batch.labels is None:
            return batch
        weight = None if batch.weight is None else np.asarray(batch.weight)
        labels = validation.partial_labels(
            batch.labels, len(batch.logits), classes, weight=weight, names=self.names
        )
        return batch._replace(labels=labels)

    def replaced(self, **changes: Any) -> "Source":
        """A source with other fields; what the spool holds is read again."""
        spool = None if self.spool is None else self.spool.renewed()
        return dataclasses.replace(self, **{"spool": spool} | changes)

    def select(
        self,
        *,
        labels: bool = False,
        weight: bool = True,
        group: bool = True,
        ids: bool = False,
        clusters: bool = False,
    ) -> "Source":
        """The same rows without the columns that are not wanted; nothing reads those any more."""
        wanted = {
            "labels": labels, "weight": weight, "group": group, "id": ids, "cluster": clusters,
            "peers": False,
        }  # fmt: skip
        keep = frozenset(name for name in self.columns if wanted[name])
        if keep == self.columns:
            return self
        parts: list[Part] = []
        for part in self.parts:
            kept = part.select(keep)
            parts += kept.unwrapped() if isinstance(kept, AttachedPart) else [kept]
        return self.replaced(parts=tuple(parts), columns=keep)

    def lean(self, *, labels: bool = False, clusters: bool = False) -> "Source":
        """The same rows for a pass that needs no other models' answers.

        Rows that a pass before has decoded are read from where they were stored.
        """
        return self if self.spool is not None else self.select(labels=labels, clusters=clusters)

    def whole(self) -> Batch:
        """All rows as one batch."""
        every = list(self.batches(1 << 16, once=True))
        if all(validation.look_like_probabilities(batch.logits) for batch in every):
            validation.warn_probabilities(self.name)
        if len(every) == 1:
            return every[0]._replace(logits=shapes.matrix(every[0].logits))
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(batch, name) for batch in every])
            for name in self.columns - {"peers"}
        }
        return Batch(shapes.joined([batch.logits for batch in every]), name=self.name, **columns)

    def column(self, name: str) -> Array:
        """All of `labels`, `weight`, `group` or `id`."""
        return np.concatenate([getattr(batch, name) for batch in self.batches(1 << 16)])

    def files(self) -> "list[Source]":
        """One source per file or partition; raises if an array beside them cannot be cut."""
        if any(isinstance(part, AttachedPart) and len(part.parts) > 1 for part in self.parts):
            raise InputError(
                "labels, sample_weight and groups must be columns of the files or one file for "
                f"each of them, since the rows of {self.name} are not counted, got one for all"
            )
        named: dict[str, list[Part]] = {}
        for part in self.parts:
            named.setdefault(part.name, []).append(part)
        return [
            self.replaced(parts=tuple(parts), name=name, shape=None, spool=None)
            for name, parts in named.items()
        ]

    def renamed(self, name: str) -> "Source":
        """The same rows under another name in messages."""
        return self.map_leaves(lambda leaf: dataclasses.replace(leaf, name=name), name=name)

    def leaves(self) -> Iterator[Part]:
        """The parts that read data, inside those that wrap others."""
        return (leaf for part in self.parts for leaf in part.leaves())

    def map_leaves(self, change: Callable[[Any], Part], **changes: Any) -> "Source":
        """A source with each leaf replaced, and with other fields."""
        parts = tuple(part.map_leaves(change) for part in self.parts)
        return self.replaced(parts=parts, **changes)


def attach(
    source: Source,
    columns: Mapping[str, Array],
    peers: tuple[AnyPeer, ...] = (),
    *,
    of: str = "",
) -> Source:
    """A source with arrays, and the rows of other models, beside its own rows.

    `of` says in an error whose columns they are.
    """
    if not columns and not peers:
        return source
    rows = source.rows
    for name, column in columns.items():
        if rows is not None and len(column) != rows:
            raise mismatch(f"{ARGUMENTS[name]}{of}", rows, len(column))
    counts = [part.rows for part in source.parts]
    alike = all([part.rows for part in peer.parts] == counts for peer in peers if peer.parts)
    parts: tuple[AttachedPart, ...] = (AttachedPart(source.parts, columns, peers),)
    if None not in counts and alike and len(counts) > 1:
        parts = tuple(_attach_each(source.parts, columns, peers))
    names = source.columns | columns.keys() | ({"peers"} if peers else set())
    attached = source.replaced(parts=parts, columns=names)
    decoded = source.spool is None and any(peer.decoded for peer in peers)
    return attached.replaced(spool=Spool()) if decoded else attached


def _attach_each(
    parts: tuple[Part, ...], columns: Mapping[str, Array], peers: tuple[AnyPeer, ...]
) -> Iterator[AttachedPart]:
    start = 0
    for position, part in enumerate(parts):
        stop = start + (part.rows or 0)
        cut = {name: column[start:stop] for name, column in columns.items()}
        yield AttachedPart((part,), cut, tuple(peer.cut(position, start, stop) for peer in peers))
        start = stop


def from_table(
    parts: Sequence[Part], name: str, columns: Columns, *, classes: int | None = None, **rest: Any
) -> Source:
    """A source over the columns of a table; `classes` is the length of lists, where it is known."""
    return Source(
        tuple(parts),
        name,
        columns.classes or classes,
        frozenset(columns.beside),
        binary=not columns.lists and len(columns.logits) == 1,
        names=columns.names,
        **rest,
    )


def from_array(array: Any, name: str = "logits", class_axis: int | None = None) -> Source:
    """A source over an array in memory."""
    last = shapes.class_last(array, class_axis)
    return Source(
        (ArrayPart(last, name),),
        name,
        shapes.class_count(last),
        shape=row_shape(last),
        items=last.ndim > 2,
        binary=last.ndim == 1 or last.shape[-1] == 1,
    )
