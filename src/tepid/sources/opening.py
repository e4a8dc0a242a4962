"""`open_source`: whatever a caller passes as logits, labels, weights or groups, as a source."""

import math
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tepid import validation
from tepid.errors import InputError, reading
from tepid.sources import array_files, arrow, dask, frames, logs, paths, spark, text
from tepid.sources.batch import CallablePart, Part
from tepid.sources.source import Source, attach, from_array, from_table
from tepid.sources.spool import Spool
from tepid.tables import ARGUMENTS, arrow_kinds, check_where, choose_columns, is_frame
from tepid.validation import Array, whole

# Opening a file behind a URL is mostly waiting.
_OPEN_AT_ONCE = 16


@dataclass(frozen=True)
class _Options:
    """What the caller said of all files; `named` are columns or members by role."""

    columns: str | Sequence[str] | None
    class_axis: int | None
    where: Any
    header: bool | None
    named: Mapping[str, str]


def open_source(  # noqa: PLR0913  # the one entry for all data
    logits: Any,
    *,
    labels: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    ids: Any = None,
    clusters: Any = None,
    columns: str | Sequence[str] | None = None,
    class_axis: int | None = None,
    probabilities: bool = False,
    where: Any = None,
    header: bool | None = None,
    classes: Sequence[Hashable] | None = None,
) -> Source:
    """A source over arrays, files, data frames or functions that yield batches.

    Labels, weights and groups are arrays, files, or names of columns or members of the logits' own
    data. Text names a file if it ends like one or contains `/`, `#` or a glob sign; otherwise it is
    a name. Nothing that was not named is read. In batches a label is the position of its class, or
    -1 where it is unknown: -1, NaN, None, null or blank.

    Args:
        logits: An array (n, k); (n,) for binary logits; a pandas, Polars, Arrow, DuckDB, Dask or
            Spark table; a path, folder, glob or URL, or a list of them; a function without
            arguments that yields batches afresh; a list or an iterator of batches. A path may be
            that of an evaluation log of a language model, `.jsonl`; see `tepid.llm`.
        labels: The class of each row: its position, or its name.
        sample_weight: The weight of each row.
        groups: The group of each row.
        ids: The name of each row, by which rows of other data are found; see `read_ids`.
        clusters: The cluster of each row: rows of one cluster may depend on each other, as the
            pixels of an image do.
        columns: The columns of a table that are the logits. By default the only column of lists,
            or the only set of numbered columns. For a log of responses: the answer options.
        class_axis: The axis of the classes, for arrays of more than two dimensions.
        probabilities: The values are probabilities; their logarithms are the logits.
        where: Which rows of a table to read: a mapping from columns to values, or for Arrow data a
            pyarrow expression.
        header: Whether CSV files begin with a header, where that is ambiguous.
        classes: The names of the classes in the order of the logits. By default the names of the
            columns of logits, if there is one for each class and they are not numbered.

    >>> source = open_source([[2.0, 0.0], [0.0, 1.0], [3.0, 1.0]], labels=[0, 1, 1])
    >>> source.rows, source.classes, source.labeled
    (3, 2, True)
    """
    if columns is not None and not isinstance(columns, str):
        listed = isinstance(columns, Iterable) and not hasattr(columns, "ndim")
        if not listed or not all(isinstance(name, (str, int)) for name in columns):
            raise InputError(f"columns must be names of columns, got {columns!r}")
    if class_axis is not None:
        whole(class_axis, "class_axis")
    if isinstance(where, Mapping) and not where:
        raise InputError("where must name at least one column, got none")
    given = {
        "labels": labels, "weight": sample_weight, "group": groups, "id": ids, "cluster": clusters,
    }  # fmt: skip
    given = {role: value for role, value in given.items() if value is not None}
    said = {"columns": columns, "class_axis": class_axis, "where": where, "header": header}
    if isinstance(logits, Source):
        said["probabilities"] = probabilities or None
        for name, value in said.items():
            if value is not None:
                raise InputError(f"{name} must be given when the source is opened, got {value!r}")
        named = next((role for role, value in paths.split_names(given)[0].items()), None)
        if named is not None:
            raise InputError(
                f"{ARGUMENTS[named]} must be named when the source is opened, got {given[named]!r}"
            )
        return _named(attach(logits, _loose(given, logits.shape)), classes)
    source = _named(_open(logits, given, said), classes)
    return source.replaced(probabilities=True) if probabilities else source


def _named(source: Source, classes: Sequence[Hashable] | None) -> Source:
    """The source with the names of its classes; labels that were read already are read again."""
    if classes is None:
        return source
    return source.replaced(names=validation.class_names(classes, source.classes))


def _open(logits: Any, given: dict[str, Any], said: dict[str, Any]) -> Source:
    if not isinstance(logits, np.ndarray):
        if paths.are_paths(logits):
            return _open_files(logits, given, said)
        if dask.is_dask(logits) or spark.is_spark(logits) or is_frame(logits):
            return _open_table(logits, given, said)
    for name, kind in (("header", "a CSV file"), ("columns", "a table"), ("where", "a table")):
        _refuse(said, name, kind)
    source = _open_memory(logits, said["class_axis"])
    return attach(source, _loose(given, source.shape))


def _open_table(logits: Any, given: dict[str, Any], said: dict[str, Any]) -> Source:
    _refuse(said, "header", "a CSV file")
    if dask.is_dask(logits):
        _refuse(said, "where", "a table in memory or a file")
        with reading("logits"):
            source, rest = dask.open_dask(logits, given, said["columns"], said["class_axis"])
        return attach(source, _loose(rest, None))
    if spark.is_spark(logits):
        _refuse(said, "where", "a table in memory or a file")
        _refuse_axis(said["class_axis"])
        return spark.open_spark(logits, given, said["columns"])
    _refuse_axis(said["class_axis"])
    named, rest = paths.split_names(given)
    source = frames.open_frame(logits, named, said["columns"], said["where"])
    return attach(source, _loose(rest, source.shape))


def _refuse(said: Mapping[str, Any], name: str, kind: str) -> None:
    if said[name] is not None:
        raise InputError(f"{name} must go with {kind}, got {said[name]!r}")


def _refuse_axis(class_axis: int | None) -> None:
    if class_axis not in (None, 1, -1):
        raise InputError(f"class_axis must be left out for a table, got {class_axis}")


# Labels, weights and groups beside the logits -----------------------------------------------------


def _loose(given: Mapping[str, Any], shape: tuple[int, ...] | None) -> dict[str, Array]:
    """Arrays and files as flat arrays, one entry per row."""
    columns = {}
    for role, value in given.items():
        if isinstance(value, str) and not paths.names_file(value):
            raise InputError(
                f"{ARGUMENTS[role]} must be an array or a file, since these logits have no named "
                f"columns, got {value!r}"
            )
        column = open_column(value, ARGUMENTS[role])
        found = () if is_file(value) else np.shape(value)
        flat = len(found) < 2 or found[1:] == (1,)
        if role == "cluster" and shape is not None and column.shape == shape[:1]:
            column = np.repeat(column, math.prod(shape[1:]))  # one name per image
        if not flat and shape is not None and found != shape:
            hint = validation.MULTILABEL if role == "labels" and found[:1] == shape else ""
            raise InputError(f"{ARGUMENTS[role]} must have the shape {shape}, got {found}{hint}")
        columns[role] = column
    return columns


def open_column(column: Any, name: str) -> Array:
    """Labels, weights, groups or ids as a flat array, from an array or from files."""
    if is_file(column):
        files = paths.expand(column, f"{name} file")
        return np.concatenate([_read_column(file, name) for file in files])
    return validation.side_column(column, name).reshape(-1)


def is_file(column: Any) -> bool:
    """Whether this is a path, or a list of paths rather than of names."""
    if paths.is_path(column):
        return True
    listed = isinstance(column, (list, tuple)) and len(column) > 0
    return listed and all(
        isinstance(each, os.PathLike)
        or (isinstance(each, str) and paths.suffix(paths.split_member(each)[0]) in paths.KNOWN)
        for each in column
    )


def _read_column(path: str, name: str) -> Array:
    file, member = paths.split_member(path)
    paths.check_file(file, f"{name} file")
    shown = paths.base_name(file)
    if paths.suffix(file) in paths.LOGS:
        raise InputError(f"{name} must name a field of the log of the logits, got the log {shown}")
    if paths.suffix(file) in paths.TEXT:
        return np.asarray(text.read_column(file, member, name, shown))
    if paths.suffix(file) in paths.ARROW:
        return _read_arrow_column(file, member, shown, name)
    with reading(shown):
        return array_files.read_column(
            file, member or array_files.only_member(file, shown, name), name
        )


def _read_arrow_column(file: str, member: str, shown: str, name: str) -> Array:
    names = arrow.read_schema(file, shown).names
    column = member or (names[0] if len(names) == 1 else name)
    if column not in names:
        got = ", ".join(names[:20])
        raise InputError(f"{shown} must have a column {column!r}, or name one after #, got {got}")
    return arrow.read_column(file, column, shown, name)


# Files --------------------------------------------------------------------------------------------


def _open_files(logits: Any, given: dict[str, Any], said: dict[str, Any]) -> Source:
    found = paths.expand(logits, "logits file")
    named, rest = paths.split_names(given)
    if rest and said["where"] is not None:
        name = ARGUMENTS[next(iter(rest))]
        raise InputError(
            f"{name} must be a column of the table with where, got another array or file"
        )
    each, whole = _per_file(rest, len(found))
    options = _Options(**said, named=named)
    names = [paths.base_name(paths.split_member(found[0])[0])]
    if len(found) > 1:
        names = paths.short_names(found)
    opener = partial(_open_file, options=options)
    if len(found) == 1:
        opened = [opener(found[0], names[0])]
    else:
        with ThreadPoolExecutor(min(_OPEN_AT_ONCE, len(found))) as pool:
            opened = logs.join_logs(list(pool.map(opener, found, names)))
    _check_alike(opened)
    for source in opened:
        logs.warn_counts(source)
    beside = [
        attach(
            source,
            {role: columns[position]() for role, columns in each.items()},
            of=f" of {source.name}",
        )
        for position, source in enumerate(opened)
    ]
    source = beside[0] if len(beside) == 1 else _joined(beside, logits)
    return attach(source, _loose(whole, source.shape))


def _per_file(
    rest: Mapping[str, Any], files: int
) -> tuple[dict[str, list[Callable[[], Array]]], dict[str, Any]]:
    """Columns that are one file for each file of logits, and those that are one for all rows."""
    each: dict[str, list[Callable[[], Array]]] = {}
    whole: dict[str, Any] = {}
    for role, value in rest.items():
        found = paths.expand(value, f"{ARGUMENTS[role]} file") if is_file(value) else []
        if len(found) > 1 and len(found) != files:
            raise InputError(
                f"{ARGUMENTS[role]} must be one file, or one for each of the {files} files of "
                f"logits, got {len(found)}"
            )
        if len(found) > 1:
            each[role] = [partial(_read_column, path, ARGUMENTS[role]) for path in found]
        else:
            whole[role] = value
    return each, whole


def _joined(sources: list[Source], logits: Any) -> Source:
    """The rows of several files, one after the other."""
    usual = next((source for source in sources if source.classes is not None), sources[0])
    decoded = any(source.spool is not None for source in sources)
    return usual.replaced(
        parts=tuple(part for source in sources for part in source.parts),
        name=os.fspath(logits) if paths.is_path(logits) else "logits",
        shape=None,
        spool=Spool() if decoded else None,
    )


def _check_alike(sources: list[Source]) -> None:
    """Raise if some file has other classes than most."""
    counts = [source.classes for source in sources if source.classes is not None]
    usual = max(set(counts), key=counts.count) if counts else None
    for source in sources:
        if source.binary != sources[0].binary:
            raise InputError(
                f"{source.name} must have as many columns as {sources[0].name}, got one value per "
                "row in one of them, as labels have"
            )
        if source.classes not in (None, usual):
            raise InputError(
                f"{source.name} must have the {usual} classes of the other files, "
                f"got {source.classes}"
            )


def _open_file(path: str, name: str, options: _Options) -> Source:
    file, member = paths.split_member(path)
    paths.check_file(file, "logits file")
    file = file if paths.is_url(file) else os.path.abspath(file)  # noqa: PTH100  # for workers
    ending = paths.suffix(file)
    if ending not in paths.TEXT and options.header is not None:
        raise InputError(f"header must go with a CSV file, got {name}")
    if ending in paths.ARRAYS:
        return _open_array_file(file, member, name, options)
    _refuse_axis(options.class_axis)
    columns = member or options.columns
    # Rows are counted among those that are read, so errors must not name the file alone.
    shown = name if options.where is None else f"{name} where {_shown(options.where)}"
    if member and options.columns is not None:
        raise InputError(f"columns must go without #{member}, got {options.columns!r}")
    if ending in paths.LOGS:
        conditions = _plain_conditions(options.where, "a log")
        return logs.open_log(file, name, options.named, columns, conditions)
    if ending in paths.TEXT:
        layout = text.read_layout(file, name, header=options.header)
        chosen = choose_columns(layout.kinds, options.named, columns, name)
        where = _text_conditions(options.where, layout.kinds, name)
        parts: list[Part] = [text.TextPart(file, shown, layout, chosen, where)]
        size = None
    else:
        schema = arrow.read_schema(file, name)
        with reading(name):
            kinds = arrow_kinds(schema)
        chosen = choose_columns(kinds, options.named, columns, name)
        if isinstance(options.where, Mapping):
            check_where(options.where, kinds, name)
        parts = arrow.open_parts(file, shown, chosen, options.where)
        size = arrow.list_size(schema, chosen.logits[0]) if chosen.lists else None
    return from_table(parts, shown, chosen, classes=size, spool=Spool())


def _open_array_file(file: str, member: str, name: str, options: _Options) -> Source:
    if options.columns is not None:
        raise InputError(f"columns must go with a table, got {name}")
    if options.where is not None:
        raise InputError(f"where must go with a table, got {name}")
    parts, described = array_files.open_file(file, member, name, options.named, options.class_axis)
    spool = None if array_files.is_mapped(file) else Spool()
    return described.replaced(parts=tuple(parts), spool=spool)


def _shown(where: Any) -> str:
    if not isinstance(where, Mapping):
        return str(where)
    return " and ".join(f"{column}={value}" for column, value in where.items())


def _text_conditions(where: Any, kinds: Mapping[str, Any], name: str) -> dict[str, str]:
    conditions = _plain_conditions(where, "a CSV file")
    if conditions:
        check_where(conditions, kinds, name)
    return conditions


def _plain_conditions(where: Any, kind: str) -> dict[str, str]:
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        found = type(where).__name__
        raise InputError(f"where must map columns to values for {kind}, got {found}")
    return {column: str(value) for column, value in where.items()}


# Memory -------------------------------------------------------------------------------------------


def _open_memory(logits: Any, class_axis: int | None) -> Source:
    if hasattr(logits, "__dask_graph__"):
        kind = type(logits).__name__
        raise InputError(f"logits must be a Dask array or data frame, got {kind}")
    if callable(logits):
        return Source((CallablePart(logits, class_axis),), items=class_axis is not None)
    if _are_batches(logits):
        return Source(
            (CallablePart(lambda: iter(logits), class_axis),), items=class_axis is not None
        )
    if isinstance(logits, Iterator):
        return Source((CallablePart(lambda: logits, class_axis),), repeatable=False)
    return from_array(validation.as_array(logits), "logits", class_axis)


def _are_batches(logits: Any) -> bool:
    some = isinstance(logits, (list, tuple)) and len(logits) > 0
    return some and all(is_frame(batch) or getattr(batch, "ndim", 0) == 2 for batch in logits)
