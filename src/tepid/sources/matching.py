"""Match other data with the rows of a source: by ids, as answers of people, as other models."""

import os
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tepid import shapes, validation
from tepid.errors import InputError, RowError, reading
from tepid.sources import array_files, arrow, csv_files, dask, paths, spark
from tepid.sources.attached import AnyPeer, Peer, PeerTable, peer_logits
from tepid.sources.batch import mismatch
from tepid.sources.opening import is_file, open_column, open_source
from tepid.sources.source import Source
from tepid.tables import is_frame, with_text_names
from tepid.validation import Array, Int64

# The columns of a table of answers.
_ANSWERS = ("id", "label")


def read_ids(data: Any, ids: Any = None, **layout: Any) -> Array:
    """The ids of the rows as text, each different from the others.

    Ids are compared as text, in which 1.0 is 1.

    Args:
        data: What `open_source` takes, or a source, whose ids may have been named already.
        ids: An array, a file, or the name of a column or member of the data. By default the numbers
            of the rows, from 0.
        layout: What `open_source` needs to read the data, such as `columns`.

    >>> read_ids([[2.0, 0.0], [0.0, 1.0]], ["a", 7.0]).tolist()
    ['a', '7']
    """
    if ids is None or (isinstance(ids, str) and not paths.names_file(ids)):
        source = open_source(data, ids=ids, **layout)
        found = source.column("id") if "id" in source.columns else _row_numbers(source)
    else:
        found = open_column(ids, "ids")
        rows = open_source(data, **layout).rows
        if rows is not None and len(found) != rows:
            raise mismatch("ids", rows, len(found))
    _check_different(found, "ids")
    return found


def _row_numbers(source: Source) -> Array:
    rows = source.rows
    if rows is None and not source.repeatable:
        raise InputError("ids must be given, since the rows of an iterator can be read only once")
    if rows is None:
        rows = sum(len(batch.logits) for batch in source.batches(1 << 16, allow_empty=True))
    return np.arange(rows).astype(str)


def _check_different(ids: Array, name: str) -> None:
    """Raise for the id that repeats first."""
    order = np.argsort(ids, kind="stable")
    again = order[1:][ids[order][1:] == ids[order][:-1]]
    if len(again):
        second = int(again.min())
        first = int(np.argmax(ids == ids[second]))
        raise InputError(
            f"{name} must be different in every row, got {str(ids[first])!r} at rows "
            f"{first} and {second}"
        )


def match_ids(own: Any, other: Any, name: str) -> Int64:
    """For each own id its position in `other`, -1 where it is missing; `name` is for errors.

    >>> match_ids(["a", "b", "c"], ["c", "a"], "answers").tolist()
    [1, -1, 0]
    """
    own, other = (validation.group_column(ids, f"ids of {name}") for ids in (own, other))
    _check_different(other, f"ids of {name}")
    position = {each: row for row, each in enumerate(other.tolist())}
    return np.array([position.get(each, -1) for each in own.tolist()], np.int64)


def describe_unmatched(own: Array, other: Array, index: Int64, name: str) -> list[str]:
    """How many rows of two logs are in one of them alone, with the first such ids."""
    strangers = np.delete(other, index[index >= 0])
    found = []
    if (index < 0).all():
        raise InputError(
            f"{name} must have rows with the ids of logits, such as {own[0]!s}, got none of them, "
            f"but {other[0]!s}"
        )
    if (index < 0).any():
        missing = own[index < 0]
        found.append(
            f"{name} has no answer for {len(missing)} of {len(own)} rows: {_some(missing)}."
        )
    if len(strangers):
        found.append(
            f"{len(strangers)} of {len(other)} rows of {name} have ids that the logits do not "
            f"have: {_some(strangers)}."
        )
    return found


def _some(ids: Array) -> str:
    return ", ".join(map(str, ids[:5])) + (", …" if len(ids) > 5 else "")


class Answers(NamedTuple):
    """The ids and labels of a table as text, and the place of each row, for errors."""

    ids: Array
    labels: Array
    places: list[str]


def is_answers(data: Any) -> bool:
    """Whether this is a table with the columns `id` and `label`, as `tepid ask` writes it."""
    if is_frame(data):
        return set(_ANSWERS) <= {str(name) for name in data.columns}
    if not paths.is_path(data) or not paths.is_single(os.fspath(data)):
        return False
    file = os.fspath(data)
    table = paths.suffix(file) in (*paths.CSV, *paths.ARROW)
    return table and set(_ANSWERS) <= set(_column_names(file, paths.base_name(file)))


def _column_names(file: str, name: str) -> Sequence[str]:
    if paths.suffix(file) in paths.CSV:
        return csv_files.read_layout(file, name, header=True).names
    return list(arrow.read_schema(file, name).names)


def match_answers(data: Any, rows: Source, own: Array, name: str) -> Int64:
    """The classes that a table of answers gives to the rows of a source, -1 where it gives none.

    `own` are the ids of the rows. Raises where the table has an id that is none of them.
    """
    answers = read_answers(data, name)
    k = class_count(rows)
    try:
        codes = validation.partial_labels(
            answers.labels, len(answers.labels), k, name, names=rows.names
        )
    except RowError as error:
        place = answers.places[error.row]
        raise InputError(f"{name} must {error.must}, got {error.got} at {place}") from None
    known = set(own.tolist())
    for key, place in zip(answers.ids.tolist(), answers.places, strict=True):
        if key not in known:
            raise InputError(
                f"{name} must have the ids of rows of {rows.name}, got {key!r} at {place}; the ids "
                "are row numbers from 0 unless ids (--ids) names their column"
            )
    index = match_ids(own, answers.ids, name)
    return np.append(codes, -1)[index]


def read_answers(data: Any, name: str = "answers") -> Answers:
    """The columns `id` and `label` of a table as text; an empty label is unknown.

    The table is a data frame, or a CSV, Parquet or Feather file, or several. Other columns are not
    used, and a row of a CSV file in which all cells are empty is skipped.
    """
    if is_file(data):
        rows = [row for file in paths.expand(data, f"{name} file") for row in _file_answers(file)]
    elif is_frame(data):
        rows = list(_frame_answers(data, name))
    else:
        kind = type(data).__name__
        raise InputError(
            f"{name} must be a data frame or a file with the columns id and label, got {kind}"
        )
    seen: dict[str, str] = {}
    for place, key, _ in rows:
        if key in seen:
            raise InputError(
                f"{name} must have each id once, got {key!r} at {seen[key]} and at {place}"
            )
        seen[key] = place
    places, ids, labels = ([row[which] for row in rows] for which in (0, 1, 2))
    return Answers(np.array(ids, str), np.array(labels, str), places)


# The place of a row, for errors, its id and its label.
_Answer = tuple[str, str, str]


def _file_answers(path: str) -> Iterator[_Answer]:
    file, _, shown = paths.find_file(path, "answers file")
    if paths.suffix(file) not in (*paths.CSV, *paths.ARROW):
        raise InputError(f"{shown} must be a table with the columns id and label, got arrays")
    _check_columns(_column_names(file, shown), shown)
    if paths.suffix(file) in paths.ARROW:
        ids = arrow.read_column(file, "id", "ids", shown)
        labels = arrow.read_column(file, "label", "labels", shown)
        yield from _column_answers(ids, labels, shown)
        return
    for line, cells in csv_files.read_lines(file, shown):
        if not cells["id"]:
            raise InputError(f"{shown} must have an id in every row, got none at line {line}")
        key = csv_files.read_side(np.array([cells["id"]]), "ids")[0]
        yield f"line {line} of {shown}", str(key), cells["label"]


def _frame_answers(data: Any, name: str) -> Iterator[_Answer]:
    import narwhals as nw  # noqa: PLC0415  # only where a frame is passed

    frame = nw.from_native(with_text_names(data))
    _check_columns(frame.collect_schema().names(), name)
    chosen = frame.select(*_ANSWERS)
    eager = chosen.collect() if isinstance(chosen, nw.LazyFrame) else chosen
    ids, labels = (eager[column].to_list() for column in _ANSWERS)
    return _column_answers(ids, labels, name)


def _column_answers(ids: Any, labels: Any, name: str) -> Iterator[_Answer]:
    texts = validation.group_column(ids, f"ids of {name}").tolist()
    for row, (key, label) in enumerate(zip(texts, labels, strict=True)):
        if not key:
            raise InputError(f"{name} must have an id in every row, got none at row {row}")
        yield f"row {row}", key, validation.label_text(label) or ""


def _check_columns(names: Any, name: str) -> None:
    if not set(_ANSWERS) <= set(names):
        got = ", ".join(list(names)[:20]) or "none"
        raise InputError(f"{name} must have the columns id and label, got {got}")


# Other models ------------------------------------------------------------------------------------


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
    if None not in (other.classes, rows_of.classes) and other.classes != rows_of.classes:
        raise InputError(
            f"{name} must have the {rows_of.classes} classes of logits, got {other.classes}"
        )
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
    if rows is not None and own is not None and rows != own:
        raise mismatch(name, own, rows)
    parts = other.select(weight=False, group=False).parts
    return Peer(name, parts, other.spool is not None, probabilities)


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


def _given_classes(data: Any, rows_of: Source, name: str) -> Array | None:
    """The values if the data is one class per row, else None."""
    if is_file(data):
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
        if paths.suffix(paths.split_member(path)[0]) not in (".npy", ".npz"):
            return None
        file, member, shown = paths.find_file(path, f"{name} file")
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
