"""`open_peer`: what another model, or a judge without probabilities, says of the same rows."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tepid import shapes, validation
from tepid.errors import InputError, reading
from tepid.sources import array_files, dask, paths, spark
from tepid.sources.batch import mismatch
from tepid.sources.beside import AnyPeer, Peer, PeerTable, peer_logits
from tepid.sources.opening import is_file, open_column, open_source
from tepid.sources.source import Source
from tepid.tables import is_frame
from tepid.validation import Array, Int64


def open_peer(
    data: Any,
    *,
    rows_of: Source,
    name: str,
    index: Any = None,
    classes: Sequence[Hashable] | None = None,
    probabilities: bool = False,
    **layout: Any,
) -> AnyPeer:
    """Another model's answers for the rows of a source, to be given to `attach`.

    Without an index the rows are those of the source, in the same order. A row of NaN is no answer.

    Args:
        data: Logits, as `open_source` takes them; or the class of each row, as integers or names
            (n,), -1, None or blank where there is none.
        rows_of: The source.
        name: What errors call the other model, such as "reference".
        index: For each row of the source the position of its answer, -1 where there is none; see
            `match_ids`. The answers are then read into memory.
        classes: The names of the classes in the order of the logits, by default those of `rows_of`.
        probabilities: The values are probabilities.
        layout: What else `open_source` needs to read the data, such as `columns`.

    >>> own = open_source([[2.0, 0.0], [0.0, 1.0], [3.0, 1.0]])
    >>> open_peer([1, 0], rows_of=own, index=[0, -1, 1], name="judge").answers
    array([1, 0])
    """
    if not rows_of.repeatable:
        raise InputError(f"{rows_of.name} must be readable more than once, got an iterator")
    names = rows_of.names if classes is None else validation.class_names(classes, rows_of.classes)
    given = _given_classes(data, rows_of, name)
    if given is not None:
        k = class_count(rows_of)
        answers: Array = validation.partial_labels(given, len(given), k, name, names=names)
        return PeerTable(name, answers, _checked_index(index, len(answers), rows_of, name))
    other = open_source(data, **layout)
    if other.weighted and not rows_of.weighted:
        raise InputError(f"sample_weight must come with logits, got it with {name}")
    _check_count(other, rows_of, name)
    # Their logarithm is taken later, since a row of NaN is allowed here.
    probable = probabilities or other.probabilities
    other = other.replaced(probabilities=False)
    if index is None:
        return _streamed(other, rows_of, name, probabilities=probable)
    values = np.concatenate([batch.logits for batch in other.batches(1 << 16, once=True)])
    answers = peer_logits(values, name, probabilities=probable)
    return PeerTable(name, answers, _checked_index(index, len(answers), rows_of, name))


def _streamed(other: Source, rows_of: Source, name: str, *, probabilities: bool) -> Peer:
    if not other.repeatable:
        raise InputError(f"{name} must be readable more than once, got an iterator")
    rows, own = other.rows, rows_of.rows
    if None not in (rows, own) and rows != own:
        raise mismatch(name, own or 0, rows or 0)
    parts = other.select(weight=False, group=False).parts
    return Peer(name, parts, other.spool is not None, probabilities)


def _check_count(other: Source, rows_of: Source, name: str) -> None:
    if None not in (other.classes, rows_of.classes) and other.classes != rows_of.classes:
        raise InputError(
            f"{name} must have the {rows_of.classes} classes of logits, got {other.classes}"
        )


def _checked_index(index: Any, answers: int, rows_of: Source, name: str) -> Int64:
    """The position of each row's answer; raises if there is no such answer."""
    rows = rows_of.rows
    if index is None:
        if rows is not None and answers != rows:
            raise mismatch(name, rows, answers)
        return np.arange(answers)
    found = np.asarray(validation.as_array(index, f"index of {name}"))
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InputError(
            f"index of {name} must be whole numbers (n,), got {found.dtype} {found.shape}"
        )
    if rows is not None and len(found) != rows:
        raise mismatch(f"index of {name}", rows, len(found))
    if len(found) and not -1 <= found.min() <= found.max() < answers:
        raise InputError(
            f"index of {name} must be in -1..{answers - 1}, got {found.min()} to {found.max()}"
        )
    return found.astype(np.int64)


# Classes instead of logits ------------------------------------------------------------------------


def _given_classes(data: Any, rows_of: Source, name: str) -> Array | None:
    """The values if the data is one class per row, else None."""
    if paths.is_path(data) or is_file(data):
        return _file_classes(data, name)
    lazy = callable(data) or dask.is_dask(data) or spark.is_spark(data)
    if lazy or isinstance(data, Source) or is_frame(data):
        return None
    try:
        values = validation.label_values(data, name)
    except InputError:
        return None  # what is wrong with logits is said where they are opened
    whole = values.dtype.kind != "f" or (np.isnan(values) | (values == np.floor(values))).all()
    if values.ndim != 1 or not len(values) or not whole:
        return None
    if values.dtype.kind == "f" and class_count(rows_of) == 2:
        raise InputError(
            f"{name} must be integers for classes (-1 where unknown), or logits of two classes "
            "(n, 2), got floats that could be either"
        )
    return values


def holds_classes(path: str) -> bool:
    """Whether an array file has one class per row in place of logits."""
    return _file_classes(path, "reference") is not None


def _file_classes(data: Any, name: str) -> Array | None:
    """The classes in array files with one integer or text per row."""
    for path in paths.expand(data, f"{name} file"):
        file, member = paths.split_member(path)
        if paths.suffix(file) not in (".npy", ".npz"):
            return None
        paths.check_file(file, f"{name} file")
        shown = paths.base_name(file)
        with reading(shown):
            member = member or array_files.only_member(file, shown, "labels")
            array = array_files.describe(file, member)
        if array.ndim != 1 or array.dtype.kind not in "iubU":
            return None
    return open_column(data, "labels")


def class_count(source: Source) -> int:
    """The number of classes, by the first rows where nothing else tells it."""
    if source.classes is not None:
        return source.classes
    return shapes.class_count(next(source.batches(1, once=True)).logits)
