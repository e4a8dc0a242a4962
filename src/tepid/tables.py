"""Tables: which columns are the logits, and how they become an array.

The rule is the same for every kind of table:

1. The columns that the caller names.
2. Otherwise the only column of lists.
3. Otherwise the only set of numbered columns: `0…K−1` or `1…K`, with or without one prefix.

Anything else is an error that lists the columns. Columns that the caller named as labels, weights
or groups are taken out first. No other name has a meaning, and no other column is read.
"""

import contextlib
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tepid.errors import InputError, RowError, reading, require

Array = NDArray[Any]
# The columns that may lie beside the logits, and the argument that names each.
ARGUMENTS = {
    "labels": "labels",
    "weight": "sample_weight",
    "group": "groups",
    "id": "ids",
    "cluster": "clusters",
}
# Those that are read as text.
TEXT = ("groups", "ids", "clusters")
# The libraries whose data frames narwhals reads.
_LIBRARIES = ("pandas", "polars", "pyarrow", "duckdb", "modin", "cudf")
Holds = Literal["number", "list", "other"]


@dataclass(frozen=True)
class Columns:
    """The columns that are logits, or the one that holds lists of them, and those beside them.

    `beside` maps `labels`, `weight`, `group`, `id` and `cluster` to the column of each.
    """

    logits: tuple[str, ...]
    lists: bool
    beside: Mapping[str, str]

    @property
    def every(self) -> list[str]:
        """All columns that are read."""
        return list(dict.fromkeys((*self.logits, *self.beside.values())))

    @property
    def classes(self) -> int | None:
        """The number of classes, or None if lists must be read to know."""
        return None if self.lists else max(len(self.logits), 2)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the classes, if there is one column per class and none is numbered."""
        named = len(self.logits) > 1 and not _numbered(self.logits)
        return self.logits if named and not any(map(is_number, self.logits)) else None

    def select(self, keep: frozenset[str]) -> "Columns":
        """The same logits with fewer columns beside them."""
        beside = {role: name for role, name in self.beside.items() if role in keep}
        return Columns(self.logits, self.lists, beside)


def choose_columns(
    kinds: Mapping[str, Holds],
    beside: Mapping[str, str],
    columns: str | Sequence[str] | None,
    table: str,
) -> Columns:
    """Apply the rule to the columns of a table and their kinds."""
    for role, name in beside.items():
        if name not in kinds:
            raise InputError(
                f"{ARGUMENTS[role]} must name a column of {table}, which has {_listed(kinds)}, "
                f"got {name!r}"
            )
    if columns is not None:
        return _named(kinds, beside, columns, table)
    free = {name: kind for name, kind in kinds.items() if name not in beside.values()}
    lists = [(name,) for name, kind in free.items() if kind == "list"]
    numbered = _numbered([name for name, kind in free.items() if kind == "number"])
    candidates = [*lists, *numbered]
    if len(candidates) == 1:
        return Columns(candidates[0], not numbered, dict(beside))
    why = "it has no numbered columns and no column of lists"
    if candidates:
        several = " or ".join(_short(columns) for columns in candidates[:5])
        why = f"they could be {several}"
    raise InputError(
        f"columns (--columns) must name the logits of {table}, since {why}; "
        f"its columns are {_listed(kinds)}"
    )


def choose_column(names: Sequence[str], column: str, argument: str, table: str) -> str:
    """The column of an argument: `column`, else the only one, else that of the argument's name."""
    column = column or (names[0] if len(names) == 1 else argument)
    if column not in names:
        got = ", ".join(names[:20])
        raise InputError(f"{table} must have a column {column!r}, or name one after #, got {got}")
    return column


def text_conditions(where: Any, kind: str) -> dict[str, str]:
    """Conditions on text, by column; `kind` says in an error what is read."""
    if not isinstance(where, Mapping | None):
        found = type(where).__name__
        raise InputError(f"where must map columns to values for {kind}, got {found}")
    return {column: str(value) for column, value in (where or {}).items()}


def name_rows(table: str, where: Any) -> str:
    """What errors call the rows that a condition leaves, whose numbers are not those of the table.

    >>> name_rows("z.csv", {"split": "test", "site": 1})
    'z.csv where split=test and site=1'
    """
    if where is None:
        return table
    if isinstance(where, Mapping):
        where = " and ".join(f"{column}={value}" for column, value in where.items())
    return f"{table} where {where}"


def check_where(where: Mapping[str, Any], kinds: Mapping[str, Holds], table: str) -> None:
    """Raise if a condition names a column that the table does not have."""
    for column in where:
        if column not in kinds:
            raise InputError(
                f"where must name a column of {table}, which has {_listed(kinds)}, got {column!r}"
            )


def _named(
    kinds: Mapping[str, Holds],
    beside: Mapping[str, str],
    columns: str | Sequence[str],
    table: str,
) -> Columns:
    wanted: list[str] = []
    for name in [columns] if isinstance(columns, str) else [str(name) for name in columns]:
        found = [name] if name in kinds else []
        if "*" in name and not found:
            found = _in_order(
                [
                    other
                    for other in kinds
                    if fnmatchcase(other, name) and other not in beside.values()
                ]
            )
        if not found:
            raise InputError(f"columns must be among {_listed(kinds)} of {table}, got {name!r}")
        wanted += found
    chosen = tuple(wanted)
    if not chosen or len(set(chosen)) < len(chosen):
        raise InputError(f"columns must name each column of logits once, got {list(chosen)}")
    twice = next((name for name in chosen if name in beside.values()), None)
    if twice is not None:
        raise InputError(f"columns must not name labels, weights, groups or ids, got {twice!r}")
    text = next((name for name in chosen if kinds[name] == "other"), None)
    if text is not None:
        raise InputError(f"columns must hold numbers, got {text!r} of {table}, which does not")
    lists = [name for name in chosen if kinds[name] == "list"]
    if lists and len(chosen) > 1:
        raise InputError(
            f"columns must be one column of lists or one per class, got {list(chosen)}"
        )
    return Columns(chosen, bool(lists), dict(beside))


def _in_order(names: list[str]) -> list[str]:
    """Columns that are numbered by their numbers, others as they are in the table."""
    sets = _numbered(names)
    return list(sets[0]) if len(sets) == 1 and len(sets[0]) == len(names) else names


def _numbered(names: Sequence[str]) -> list[tuple[str, ...]]:
    """The sets of columns that share a prefix and are numbered 0…K−1 or 1…K, K of at least 2."""
    sets: dict[str, dict[int, str]] = {}
    broken: set[str] = set()
    for name in names:
        match = re.fullmatch(r"(.*[^0-9]|)([0-9]{1,9})", name, re.DOTALL)
        if match is None:
            continue
        members = sets.setdefault(match[1], {})
        if int(match[2]) in members:
            broken.add(match[1])
        members[int(match[2])] = name
    found = []
    for prefix, members in sets.items():
        numbers = sorted(members)
        complete = numbers[0] in (0, 1) and numbers[-1] - numbers[0] + 1 == len(numbers)
        if complete and len(numbers) > 1 and prefix not in broken:
            found.append(tuple(members[number] for number in numbers))
    return found


def is_number(text: str, *, finite: bool = True) -> bool:
    """Whether text is a number; 1_000, which is Python's own notation, is none.

    >>> is_number("1e3"), is_number("nan"), is_number("nan", finite=False)
    (True, False, True)
    """
    try:
        number = float(text)
    except ValueError:
        return False
    return "_" not in text and (math.isfinite(number) or not finite)


def _short(columns: tuple[str, ...]) -> str:
    return f"{columns[0]!r}…{columns[-1]!r}" if len(columns) > 1 else repr(columns[0])


def _listed(names: Mapping[str, Holds]) -> str:
    shown = list(names)[:20]
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return (", ".join(repr(name) for name in shown) or "no columns") + more


# Data frames in memory, through narwhals ----------------------------------------------------------


def is_frame(data: Any) -> bool:
    """Whether narwhals knows this data frame; a column or an array is none."""
    library = type(data).__module__.partition(".")[0].lstrip("_")
    if library not in _LIBRARIES or library not in sys.modules:
        return False
    kind = type(data)  # asking a lazy frame itself would compute its schema
    return hasattr(kind, "columns") or hasattr(kind, "column_names")


def frame_matrix(frame: Any, columns: Columns) -> Array:
    """The logits of an eager narwhals frame as (n, k)."""
    if is_arrow(frame.to_native()):
        return arrow_matrix(frame.to_native(), columns)
    if columns.lists:
        return np.asarray(_frame_lists(frame[columns.logits[0]], columns.logits[0]))
    return column_values(frame.select(columns.logits))


def column_values(frame: Any) -> Array:
    """Numeric columns of an eager narwhals frame as an array, NaN where a value is missing."""
    values = np.asarray(frame.to_numpy())
    if values.dtype != object:
        return values
    import narwhals as nw  # noqa: PLC0415  # only where a frame is passed

    # Decimals, nullable numbers and Arrow-backed pandas columns are objects to NumPy.
    native = frame.select(nw.all().cast(nw.Float64)).to_native()
    if hasattr(native, "set_axis"):  # pandas, whose missing values are no floats
        return np.asarray(native.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(native.to_numpy(), np.float64)


def read_frame(data: Any, columns: str | Sequence[str] | None = None) -> Array:
    """The logits of a data frame as (n, k), by the rule for columns."""
    import narwhals as nw  # noqa: PLC0415  # only where a frame is passed

    with reading("logits"):
        frame, chosen = collect_columns(data, {}, columns, None, "logits")
        return frame_matrix(nw.from_native(frame, eager_only=True), chosen)


def collect_columns(
    data: Any,
    beside: Mapping[str, str],
    columns: str | Sequence[str] | None,
    where: Any,
    name: str,
) -> tuple[Any, Columns]:
    """A data frame in memory with the columns that the rule chooses and no others."""
    import narwhals as nw  # noqa: PLC0415  # only where a frame is passed

    native = with_text_names(data)
    frame = nw.from_native(native)
    kinds = frame_kinds(frame.collect_schema(), native)
    chosen = choose_columns(kinds, beside, columns, name)
    if isinstance(where, Mapping):
        check_where(where, kinds, name)
        frame = frame.filter(
            [nw.col(key) == _wanted(value, key, kinds[key]) for key, value in where.items()]
        )
    elif where is not None:
        if not is_arrow(native):
            kind = type(where).__name__
            raise InputError(f"where must map columns to values for a data frame, got {kind}")
        frame = nw.from_native(native.filter(where))
    frame = frame.select(chosen.every)
    eager = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    return eager.to_native(), chosen


def _wanted(value: Any, column: str, kind: Holds) -> Any:
    """The value of a condition; text is a number where the column holds numbers."""
    if kind != "number" or not isinstance(value, str):
        return value
    for number in (int, float):
        with contextlib.suppress(ValueError):
            return number(value)
    raise InputError(f"where must compare {column} with a number, got {value!r}")


def with_text_names(data: Any) -> Any:
    """The frame with the names of its columns as text; pandas also has numbers."""
    if type(data).__name__ == "RecordBatch":  # which narwhals does not read
        return needs_arrow().Table.from_batches([data])
    if not hasattr(type(data), "set_axis") or all(isinstance(name, str) for name in data.columns):
        return data
    return data.set_axis([str(name) for name in data.columns], axis=1)


def frame_kinds(schema: Mapping[str, Any], frame: Any = None) -> dict[str, Holds]:
    """What each column of a narwhals schema holds; objects of pandas are looked at."""
    kinds: dict[str, Holds] = {}
    for name, form in schema.items():
        inner = getattr(form, "inner", None)
        if inner is not None:
            kinds[name] = "list" if _is_numeric(inner) else "other"
        elif str(form) == "Object" and frame is not None:
            kinds[name] = "list" if holds_lists(frame[name]) else "other"
        else:
            kinds[name] = "number" if _is_numeric(form) else "other"
    return kinds


def _is_numeric(form: Any) -> bool:
    form = form() if isinstance(form, type) else form
    return bool(form.is_numeric()) or str(form) == "Boolean"


def holds_lists(column: Any) -> bool:
    """Whether a pandas column of objects begins with a list or an array."""
    first = next(iter(column[:1]), None)
    return isinstance(first, (list, tuple, np.ndarray))


def _frame_lists(column: Any, name: str) -> Any:
    if str(column.dtype) != "Object":
        return list_matrix(column.to_arrow(), name)
    with reading(f"column {name!r}"):
        rows = [np.asarray(row) for row in column.to_list()]
    for position, row in enumerate(rows):
        if row.shape != rows[0].shape or row.ndim != 1:
            must = f"have {rows[0].size} classes in every row"
            raise RowError("logits", must, str(row.size), position)
    return np.stack(rows) if rows else np.zeros((0, 2))


# Arrow ------------------------------------------------------------------------------------------


def needs_arrow(module: str = "pyarrow", what: str = "Reading Arrow data") -> Any:
    """A module of pyarrow."""
    return require(module, "parquet", what)


def is_arrow(data: Any) -> bool:
    """Whether this is an object of pyarrow."""
    return type(data).__module__.partition(".")[0] == "pyarrow"


def arrow_kinds(schema: Any) -> dict[str, Holds]:
    """What each column of an Arrow schema holds."""
    return {field.name: _arrow_kind(field.type) for field in schema}


def _arrow_kind(form: Any) -> Holds:
    types = needs_arrow().types
    if _is_list(form):
        return "list" if _arrow_kind(form.value_type) == "number" else "other"
    numeric = types.is_floating(form) or types.is_integer(form) or types.is_decimal(form)
    return "number" if numeric or types.is_boolean(form) else "other"


def _is_list(form: Any) -> bool:
    types = needs_arrow().types
    return bool(types.is_list(form) or types.is_large_list(form) or types.is_fixed_size_list(form))


def arrow_matrix(table: Any, columns: Columns) -> Array:
    """The logits of an Arrow table or record batch as (n, k)."""
    if columns.lists:
        return list_matrix(table.column(columns.logits[0]), columns.logits[0])
    values = [arrow_values(table.column(name)) for name in columns.logits]
    out = np.empty((len(values[0]), len(values)), np.result_type(*values))
    for position, column in enumerate(values):
        out[:, position] = column
    return out


def list_matrix(column: Any, name: str) -> Array:
    """A column of lists of one length as (n, k)."""
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
        if hasattr(column, "chunks"):
            column = needs_arrow().concat_arrays(column.chunks)
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null())))
        raise RowError("logits", f"hold a list in every row of {name!r}", "none", row)
    if not len(column):
        return np.zeros((0, 2))
    lengths = np.asarray(needs_arrow("pyarrow.compute").list_value_length(column))
    wrong = lengths != lengths[0]
    if wrong.any():
        row = int(wrong.argmax())
        raise RowError("logits", f"have {lengths[0]} classes in every row", str(lengths[row]), row)
    return arrow_values(column.flatten()).reshape(len(column), int(lengths[0]))


def arrow_values(column: Any) -> Array:
    """A column as an array; a missing number is NaN and a missing text None."""
    types = needs_arrow().types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_decimal(column.type):
        column = column.cast(needs_arrow().float64())
    if types.is_boolean(column.type) and column.null_count:
        column = column.cast(needs_arrow().int8())
    if hasattr(column, "combine_chunks"):
        return np.asarray(column.to_numpy())
    return np.asarray(column.to_numpy(zero_copy_only=False))
