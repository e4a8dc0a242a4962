"""Names of rows: read them, find them in other data, and read answers that people gave for them."""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tepid import validation
from tepid.errors import InputError, RowError
from tepid.sources import arrow, paths, text
from tepid.sources.batch import mismatch
from tepid.sources.opening import is_file, open_column, open_source
from tepid.sources.peers import class_count
from tepid.sources.source import Source
from tepid.tables import is_frame, with_text_names
from tepid.validation import Array, Int64

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
    twice = _first_duplicate(found)
    if twice is not None:
        first, second = twice
        raise InputError(
            f"ids must be different in every row, got {str(found[first])!r} at rows "
            f"{first} and {second}"
        )
    return found


def _row_numbers(source: Source) -> Array:
    rows = source.rows
    if rows is None and not source.repeatable:
        raise InputError("ids must be given, since the rows of an iterator can be read only once")
    if rows is None:
        rows = sum(len(batch.logits) for batch in source.batches(1 << 16, allow_empty=True))
    return np.arange(rows).astype(str)


def _first_duplicate(ids: Array) -> tuple[int, int] | None:
    """The first two positions of the id that repeats first."""
    order = np.argsort(ids, kind="stable")
    again = order[1:][ids[order][1:] == ids[order][:-1]]
    if not len(again):
        return None
    second = int(again.min())
    return int(np.argmax(ids == ids[second])), second


def match_ids(own: Any, other: Any, name: str) -> Int64:
    """For each own id its position in `other`, -1 where it is missing; `name` is for errors.

    >>> match_ids(["a", "b", "c"], ["c", "a"], "answers").tolist()
    [1, -1, 0]
    """
    own, other = (validation.group_column(ids, f"ids of {name}") for ids in (own, other))
    twice = _first_duplicate(other)
    if twice is not None:
        raise InputError(
            f"ids of {name} must be different in every row, got {str(other[twice[0]])!r} at rows "
            f"{twice[0]} and {twice[1]}"
        )
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
    if paths.suffix(file) in paths.TEXT:
        names: Any = text.read_layout(file, paths.base_name(file), header=True).names
    elif paths.suffix(file) in paths.ARROW:
        names = arrow.read_schema(file, paths.base_name(file)).names
    else:
        return False
    return set(_ANSWERS) <= set(names)


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
    if paths.is_path(data) or is_file(data):
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
    file, _ = paths.split_member(path)
    paths.check_file(file, "answers file")
    shown = paths.base_name(file)
    if paths.suffix(file) in paths.ARROW:
        _check_columns(arrow.read_schema(file, shown).names, shown)
        ids, labels = (
            arrow.read_column(file, column, shown, argument)
            for column, argument in zip(_ANSWERS, ("ids", "labels"), strict=True)
        )
        yield from _column_answers(ids, labels, shown)
        return
    if paths.suffix(file) not in paths.TEXT:
        raise InputError(f"{shown} must be a table with the columns id and label, got arrays")
    _check_columns(text.read_layout(file, shown, header=True).names, shown)
    for line, cells in text.read_lines(file, shown):
        place = f"line {line} of {shown}"
        if not cells["id"]:
            raise InputError(f"{shown} must have an id in every row, got none at line {line}")
        yield place, str(text.read_side(np.array([cells["id"]]), "ids", shown)[0]), cells["label"]


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
    missing = next((column for column in _ANSWERS if column not in names), None)
    if missing is not None:
        got = ", ".join(list(names)[:20]) or "none"
        raise InputError(f"{name} must have the columns id and label, got {got}")
