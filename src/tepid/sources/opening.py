"""`open_source`: whatever a caller passes as logits, labels, weights or groups, as a source."""

import math
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tepid import validation
from tepid.errors import InputError, reading
from tepid.sources import array_files, arrow, csv_files, dask, frames, logs, paths, spark
from tepid.sources.batch import CallablePart
from tepid.sources.source import Source, attach, from_array
from tepid.sources.spool import Spool
from tepid.tables import ARGUMENTS, is_frame
from tepid.validation import Array, whole

# Opening a file behind a URL is mostly waiting.
_OPEN_AT_ONCE = 16


@dataclass(frozen=True)
class _Options:
    """What the caller said of how the data is to be read."""

    columns: str | Sequence[str] | None
    class_axis: int | None
    where: Any
    header: bool | None

    def refuse(self, name: str, kind: str) -> None:
        """Raise if an option was given that goes with another kind of data."""
        if getattr(self, name) is not None:
            raise InputError(f"{name} must go with {kind}, got {getattr(self, name)!r}")

    def refuse_axis(self) -> None:
        """Raise if a class axis was given that is not that of a table."""
        if self.class_axis not in (None, 1, -1):
            raise InputError(f"class_axis must be left out for a table, got {self.class_axis}")


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
    probabilities = validation.flag(probabilities, "probabilities")
    if isinstance(where, Mapping) and not where:
        raise InputError("where must name at least one column, got none")
    roles = (labels, sample_weight, groups, ids, clusters)
    given = {role: v for role, v in zip(ARGUMENTS, roles, strict=True) if v is not None}
    options = _Options(columns, class_axis, where, header)
    if isinstance(logits, Source):
        for name, value in {**vars(options), "probabilities": probabilities or None}.items():
            if value is not None:
                raise InputError(f"{name} must be given when the source is opened, got {value!r}")
        role = next(iter(paths.split_names(given)[0]), None)
        if role is not None:
            raise InputError(
                f"{ARGUMENTS[role]} must be named when the source is opened, got {given[role]!r}"
            )
        source = attach(logits, _loose(given, logits.shape))
    else:
        source = _open(logits, given, options)
        source = source.replaced(probabilities=True) if probabilities else source
    if classes is None:
        return source
    # Labels that were read already are read again.
    return source.replaced(names=validation.class_names(classes, source.classes))


def _open(logits: Any, given: dict[str, Any], options: _Options) -> Source:
    if not isinstance(logits, np.ndarray):
        if paths.are_paths(logits):
            return _open_files(logits, given, options)
        if dask.is_dask(logits) or spark.is_spark(logits) or is_frame(logits):
            return _open_table(logits, given, options)
    for name, kind in (("header", "a CSV file"), ("columns", "a table"), ("where", "a table")):
        options.refuse(name, kind)
    source = _open_memory(logits, options.class_axis)
    return attach(source, _loose(given, source.shape))


def _open_table(logits: Any, given: dict[str, Any], options: _Options) -> Source:
    options.refuse("header", "a CSV file")
    if dask.is_dask(logits):
        options.refuse("where", "a table in memory or a file")
        with reading("logits"):
            source, rest = dask.open_dask(logits, given, options.columns, options.class_axis)
        return attach(source, _loose(rest, None))
    options.refuse_axis()
    if spark.is_spark(logits):
        options.refuse("where", "a table in memory or a file")
        return spark.open_spark(logits, given, options.columns)
    named, rest = paths.split_names(given)
    source = frames.open_frame(logits, named, options.columns, options.where)
    return attach(source, _loose(rest, source.shape))


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
    file, member, shown = paths.find_file(path, f"{name} file")
    if paths.suffix(file) in paths.LOGS:
        raise InputError(f"{name} must name a field of the log of the logits, got the log {shown}")
    if paths.suffix(file) in paths.CSV:
        return csv_files.read_column(file, member, name, shown)
    if paths.suffix(file) in paths.ARROW:
        return arrow.read_column(file, member, name, shown)
    return array_files.read_column(file, member, name, shown)


# Files --------------------------------------------------------------------------------------------


def _open_files(logits: Any, given: dict[str, Any], options: _Options) -> Source:
    found = paths.expand(logits, "logits file")
    named, rest = paths.split_names(given)
    if rest and options.where is not None:
        name = ARGUMENTS[next(iter(rest))]
        raise InputError(
            f"{name} must be a column of the table with where, got another array or file"
        )
    each, whole = _per_file(rest, len(found))
    opener = partial(_open_file, named=named, options=options)
    if len(found) == 1:
        opened = [opener(found[0], paths.base_name(paths.split_member(found[0])[0]))]
    else:
        with ThreadPoolExecutor(min(_OPEN_AT_ONCE, len(found))) as pool:
            opened = logs.join_logs(list(pool.map(opener, found, paths.short_names(found))))
    _check_alike(opened)
    for source in opened:
        logs.warn_counts(source)
    beside = [
        attach(
            source,
            {role: _read_column(files[position], ARGUMENTS[role]) for role, files in each.items()},
            of=f" of {source.name}",
        )
        for position, source in enumerate(opened)
    ]
    source = beside[0] if len(beside) == 1 else _joined(beside, logits)
    return attach(source, _loose(whole, source.shape))


def _per_file(rest: Mapping[str, Any], files: int) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Columns that are one file for each file of logits, and those that are one for all rows."""
    each: dict[str, list[str]] = {}
    whole: dict[str, Any] = {}
    for role, value in rest.items():
        found = paths.expand(value, f"{ARGUMENTS[role]} file") if is_file(value) else []
        if len(found) > 1 and len(found) != files:
            raise InputError(
                f"{ARGUMENTS[role]} must be one file, or one for each of the {files} files of "
                f"logits, got {len(found)}"
            )
        if len(found) > 1:
            each[role] = found
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


def _open_file(path: str, name: str, named: Mapping[str, str], options: _Options) -> Source:
    file, member, _ = paths.find_file(path, "logits file")
    file = file if paths.is_url(file) else os.path.abspath(file)  # noqa: PTH100  # for workers
    ending, where = paths.suffix(file), options.where
    if ending not in paths.CSV and options.header is not None:
        raise InputError(f"header must go with a CSV file, got {name}")
    if ending in paths.ARRAYS:
        for option in ("columns", "where"):
            if getattr(options, option) is not None:
                raise InputError(f"{option} must go with a table, got {name}")
        return array_files.open_file(file, member, name, named, options.class_axis)
    options.refuse_axis()
    if member and options.columns is not None:
        raise InputError(f"columns must go without #{member}, got {options.columns!r}")
    columns = member or options.columns
    if ending in paths.LOGS:
        return logs.open_log(file, name, named, columns, where)
    if ending in paths.CSV:
        return csv_files.open_file(file, name, named, columns, where, header=options.header)
    return arrow.open_file(file, name, named, columns, where)


# Memory -------------------------------------------------------------------------------------------


def _open_memory(logits: Any, class_axis: int | None) -> Source:
    if hasattr(logits, "__dask_graph__"):
        kind = type(logits).__name__
        raise InputError(f"logits must be a Dask array or data frame, got {kind}")
    if callable(logits) or _are_batches(logits):
        produce = logits if callable(logits) else lambda: iter(logits)
        return Source((CallablePart(produce, class_axis),), items=class_axis is not None)
    if isinstance(logits, Iterator):
        return Source((CallablePart(lambda: logits, class_axis),), repeatable=False)
    return from_array(validation.as_array(logits), "logits", class_axis)


def _are_batches(logits: Any) -> bool:
    some = isinstance(logits, (list, tuple)) and len(logits) > 0
    return some and all(is_frame(batch) or getattr(batch, "ndim", 0) == 2 for batch in logits)
