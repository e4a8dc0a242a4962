"""Evidence: labels, other models, a reference and an older set, matched with the rows."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid import validation
from tepid.errors import InputError
from tepid.sources import (
    AnyPeer,
    Source,
    attach,
    is_answers,
    match_answers,
    match_ids,
    open_peer,
    open_source,
    read_ids,
    split_labels,
)
from tepid.sources.logs import is_log, names_log, resized
from tepid.sources.matching import describe_unmatched
from tepid.sources.multilabel import label_names, read_labels
from tepid.sources.paths import names_file
from tepid.validation import Array, Int64


@dataclass(frozen=True)
class Evidence:
    """The rows with the evidence on them, and labeled rows from elsewhere.

    `rows` has the models, then the reference, as peers of each batch. `notes` are sentences on rows
    that another log does not have. `labels_each` is the number of labels of multi-label rows, which
    are split into binary ones, and 0 for rows of one label.
    """

    rows: Source
    models: int
    reference: bool
    labeled: Source | None
    source: Source | None
    notes: tuple[str, ...] = ()
    labels_each: int = 0


@dataclass(frozen=True)
class Layout:
    """How the logits and all evidence are read, as in `open_source`."""

    classes: Any = None
    class_axis: int | None = None
    probabilities: bool = False
    columns: Any = None
    ids: Any = None

    @property
    def options(self) -> dict[str, Any]:
        """The options of `open_source` but those that belong to the rows alone."""
        return {
            "class_axis": self.class_axis,
            "probabilities": self.probabilities,
            "columns": self.columns,
        }

    def open(self, data: Any, **beside: Any) -> Source:
        """A source; one that is open already is read as it was opened."""
        options = {} if isinstance(data, Source) else self.options
        return open_source(data, classes=self.classes, **options, **beside)


def open_evidence(
    rows: Source,
    layout: Layout,
    *,
    answers: Any,
    labeled: Any,
    models: Any,
    reference: Any,
    source: Any,
) -> Evidence:
    """The evidence of `tepid.calibrate` beside its rows; `answers` are labels by id."""
    if not rows.repeatable:
        raise InputError(
            "logits must be readable more than once, got an iterator; pass a function that returns "
            "a new iterator of batches"
        )
    listed = isinstance(models, Iterable) and not isinstance(models, (str, bytes))
    if not listed or hasattr(models, "ndim"):
        kind = type(models).__name__
        raise InputError(f"models must be a list of other models' logits, got {kind}")
    beside = _Beside(rows, layout)
    others = list(models)
    peers = [beside.peer(model, f"model {number}") for number, model in enumerate(others, 1)]
    if reference is not None:
        peers.append(beside.peer(reference, "reference"))
    columns = {} if answers is None else {"labels": beside.classes(answers, "labels")}
    return Evidence(
        attach(rows.select(labels=True, clusters=True), columns, tuple(peers)),
        models=len(others),
        reference=reference is not None,
        labeled=None if labeled is None else open_labeled(labeled, "labeled", layout),
        source=None if source is None else open_labeled(source, "source", layout),
        notes=tuple(beside.notes),
    )


def open_multilabel(
    rows: Source,
    layout: Layout,
    *,
    labels: Any,
    labeled: Any,
    models: Any,
    reference: Any,
    source: Any,
    per_label: bool,
    table: Any,
) -> Evidence:
    """The evidence on multi-label rows (n, K), each split into K binary rows.

    `labels` are (n, K): an array, a table, a file, or columns of `table`, which has the logits.
    """
    if _are_whole(reference):
        raise InputError(
            "reference must be logits of each label with multilabel, got whole numbers; what "
            "people answered are labels"
        )
    names = label_names(rows)
    layout = dataclasses.replace(layout, probabilities=False)
    beside = open_evidence(
        rows, layout, answers=None, labeled=None, models=models, reference=reference, source=None
    )
    with_labels = _beside_labels(beside.rows, labels, "labels", layout, table)

    def open_pair(given: Any, name: str) -> Source | None:
        if given is None:
            return None
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise InputError(f"{name} must be a pair (logits, labels), got {type(given).__name__}")
        other = layout.open(given[0]).renamed(name).replaced(probabilities=rows.probabilities)
        found = len(label_names(other))
        if found != len(names):
            raise InputError(f"{name} must have the {len(names)} labels of logits, got {found}")
        own = f"labels of {name}"
        other = _beside_labels(other.replaced(names=names), given[1], own, layout, given[0])
        return split_labels(other, per_label=per_label)

    return dataclasses.replace(
        beside,
        rows=split_labels(with_labels, per_label=per_label),
        labeled=open_pair(labeled, "labeled"),
        source=open_pair(source, "source"),
        labels_each=len(names),
    )


def _beside_labels(rows: Source, labels: Any, name: str, layout: Layout, table: Any) -> Source:
    """The rows with labels (n, K) beside them, from an array, a table or a file."""
    if labels is None:
        return rows
    if _are_columns(labels):
        given = open_source(table, columns=labels)
    else:
        given = open_source(_as_numbers(labels, name), class_axis=layout.class_axis)
    values = np.concatenate([batch.logits for batch in given.batches(1 << 16, once=True)])
    k = len(label_names(rows))
    found = read_labels(values, len(values) if rows.rows is None else rows.rows, k, name)
    return attach(rows, {"labels": found})


def _as_numbers(labels: Any, name: str) -> Any:
    """An array of objects as floats, so that None is NaN; raises for an array of text."""
    kind = getattr(getattr(labels, "dtype", None), "kind", "")
    if kind not in ("O", "U", "S"):
        return labels
    try:
        if kind == "O":
            return np.asarray(labels, np.float64)
    except (TypeError, ValueError):
        pass
    raise InputError(f"{name} must be 0 or 1, or -1 where unknown, got an array of text")


def _are_whole(values: Any) -> bool:
    """Whether an array or a tensor has whole numbers by its type."""
    dtype: Any = getattr(values, "dtype", None)
    if hasattr(dtype, "is_floating_point"):  # of PyTorch
        return not dtype.is_floating_point
    return getattr(dtype, "kind", "f") in "iub"


def _are_columns(labels: Any) -> bool:
    names = [labels] if isinstance(labels, str) else labels
    texts = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    return texts and not any(names_file(name) for name in names)


def open_labeled(given: Any, name: str, layout: Layout) -> Source:
    """A pair (logits, labels), or a source that has labels."""
    if isinstance(given, Source):
        opened = given
    elif isinstance(given, (tuple, list)) and len(given) == 2:
        opened = layout.open(given[0], labels=given[1]).renamed(name)
    else:
        raise InputError(f"{name} must be a pair (logits, labels), got {type(given).__name__}")
    if not opened.labeled:
        raise InputError(f"{name} must have labels, got none")
    if not opened.repeatable:
        raise InputError(f"{name} must be readable more than once, got an iterator")
    return opened


class _Beside:
    """Opens what other models and people answered on the rows, by order or by id."""

    def __init__(self, rows: Source, layout: Layout) -> None:
        self.rows, self.layout = rows, layout
        self.by_id = "id" in rows.columns
        self.notes: list[str] = []
        self._ids: Array | None = None

    @property
    def ids(self) -> Array:
        """The ids of the rows, read once; their numbers where none are named."""
        if self._ids is None:
            self._ids = read_ids(self.rows)
        return self._ids

    def classes(self, answers: Any, name: str) -> Int64:
        """The classes of a table with the columns `id` and `label`, in the order of the rows."""
        return match_answers(answers, self.rows, self.ids, name)

    def peer(self, data: Any, name: str) -> AnyPeer:
        """Another model's answers."""
        if is_answers(data):
            return open_peer(self.classes(data, name), rows_of=self.rows, name=name)
        data, ids = self._with_ids(data, name) if self.by_id else (data, None)
        index = None if ids is None else match_ids(self.ids, ids, name)
        if is_log(data):
            data = resized(data, self.rows.classes)
            if index is not None and ids is not None:
                self.notes += describe_unmatched(self.ids, ids, index, name)
        layout: dict[str, Any] = {} if isinstance(data, Source) else self.layout.options
        return open_peer(data, rows_of=self.rows, index=index, name=name, **layout)

    def _with_ids(self, data: Any, name: str) -> tuple[Any, Array | None]:
        named = self.layout.ids if isinstance(self.layout.ids, str) else None
        if not isinstance(data, tuple) and names_log(data):
            data = self.layout.open(data, ids=named)
        if isinstance(data, Source) and "id" in data.columns:
            return data, read_ids(data)
        if isinstance(data, tuple) and len(data) == 2:
            if np.ndim(data[0]) != 1:
                return data[0], read_ids(data[0], data[1])
            ids = validation.group_column(data[1], "ids")
            if len(ids) != len(data[0]):
                must = f"ids of {name} must be one for each of its {len(data[0])} answers"
                raise InputError(f"{must}, got {len(ids)}")
            return data[0], ids
        if named is not None and not isinstance(data, Source):
            options = {"columns": self.layout.columns}
            return data, read_ids(data, named, **options)
        if is_log(self.rows) and self.layout.ids is None:
            return data, None  # a log has ids that nobody asked for; these rows are in its order
        raise InputError(f"{name} must be a pair (logits, ids), since ids are given, got no ids")
