"""Which columns of an Arrow schema are logits, and how they become a matrix."""

from typing import Any

import numpy as np

from tepid.arrays import Array
from tepid.errors import InputError, RowError
from tepid.sources.columns import ASIDE
from tepid.sources.extras import needed
from tepid.sources.shard import Shard, resolved


def logit_columns(shard: Shard, schema: Any, aside: set[str]) -> tuple[str, ...]:
    """The column that is named, else the lists called `logits`, else every floating-point column.

    What is called label, weight or group is no logit, nor is a column that a filter looks at.
    """
    if shard.fragment:
        name = resolved(shard.fragment, schema.names, shard.name)
        if not _is_number(_inner(schema.field(name).type)):
            got = schema.field(name).type
            raise InputError(f"{shard.name} must hold numbers in {name!r}, got {got}")
        return (name,)
    free = [f for f in schema if f.name not in aside and f.name.lower() not in ASIDE]
    lists = [f.name for f in free if _is_list(f.type) and _is_number(_inner(f.type))]
    if "logits" in lists:
        return ("logits",)
    types = needed("pyarrow", "parquet").types
    floats = tuple(field.name for field in free if types.is_floating(field.type))
    if floats:
        return floats
    if len(lists) == 1:
        return (lists[0],)
    known = ", ".join(f"{field.name} ({field.type})" for field in list(schema)[:20]) or "none"
    raise InputError(
        f"{shard.name} must have a column 'logits' of lists, or one of floating-point numbers for "
        f"each class, got {known}"
    )


def class_count(schema: Any, logits: tuple[str, ...]) -> int | None:
    """How many numbers a row has; None where lists may have any length."""
    form = schema.field(logits[0]).type
    if not _is_list(form):
        return len(logits)
    return int(form.list_size) if _is_fixed(form) else None


def kind(schema: Any, logits: tuple[str, ...]) -> str:
    """What kind of numbers they are."""
    inner = _inner(schema.field(logits[0]).type)
    types = needed("pyarrow", "parquet").types
    return "floating-point numbers" if types.is_floating(inner) else str(inner)


def values(column: Any) -> Array:
    """A column as an array; what is missing is NaN among numbers and None among texts."""
    if hasattr(column, "dictionary_decode"):
        column = column.dictionary_decode()
    return np.asarray(column.to_numpy(zero_copy_only=False))


def lengths(column: Any) -> Array:
    """How long each list is; a number is a list of one."""
    if not _is_list(column.type):
        return np.ones(len(column), int)
    compute = needed("pyarrow.compute", "parquet")
    return np.asarray(compute.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False))


def matrix(batch: Any, logits: tuple[str, ...], name: str) -> Array:
    """The logits of a batch as (n, k)."""
    first = batch.column(logits[0])
    if not _is_list(first.type):
        return _side_by_side([values(batch.column(column)) for column in logits])
    if first.null_count:
        row = int(np.argmax(np.asarray(first.is_null())))
        raise RowError(name, f"hold a list in every row of {logits[0]!r}", "none", row)
    if _is_fixed(first.type):
        size = first.type.list_size
        inner = first.values.slice(first.offset * size, len(first) * size)
        return values(inner).reshape(len(first), size)
    count = lengths(first)
    if not len(count):
        return np.zeros((0, 0))
    wrong = count != count[0]
    if wrong.any():
        row = int(wrong.argmax())
        must = f"have {count[0]} classes in every row"
        raise RowError(name, must, str(count[row]), row)
    return values(first.flatten()).reshape(len(count), -1)


def _side_by_side(columns: list[Array]) -> Array:
    out = np.empty((len(columns[0]), len(columns)), np.result_type(*columns))
    for place, column in enumerate(columns):
        out[:, place] = column
    return out


def _is_list(form: Any) -> bool:
    types = needed("pyarrow", "parquet").types
    return bool(types.is_list(form) or types.is_large_list(form) or _is_fixed(form))


def _is_fixed(form: Any) -> bool:
    return bool(needed("pyarrow", "parquet").types.is_fixed_size_list(form))


def _inner(form: Any) -> Any:
    return form.value_type if _is_list(form) else form


def _is_number(form: Any) -> bool:
    types = needed("pyarrow", "parquet").types
    return bool(types.is_floating(form) or types.is_integer(form) or types.is_boolean(form))
