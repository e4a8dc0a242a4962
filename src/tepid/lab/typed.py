"""Values from outside that become a dataclass: each key known, each value of its field's type."""

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from tepid.errors import InputError

Kind = TypeVar("Kind")


def refuse_unknown(given: Iterable[str], known: Iterable[str], what: str) -> None:
    """Raise where a given key is not a known one."""
    strange = sorted(set(given) - set(known))
    if strange:
        wanted = ", ".join(sorted(known))
        raise InputError(f"{what} must use the keys {wanted}, got {', '.join(strange)}")


def typed(kind: type[Kind], given: Mapping[str, Any], what: str) -> Kind:
    """The dataclass `kind` with the given values, each of the type that its field says."""
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    refuse_unknown(given, fields, what)
    for name, field in fields.items():
        if field.default is dataclasses.MISSING and name not in given:
            raise InputError(f"{what} must have {name}, got none")
    kinds = typing.get_type_hints(kind)
    return kind(**{key: _value(given[key], kinds[key], f"{what}: {key}") for key in given})


def _value(value: Any, kind: Any, what: str) -> Any:
    if isinstance(kind, types.UnionType):  # of one type and None
        return value if value is None else _value(value, typing.get_args(kind)[0], what)
    if typing.get_origin(kind) is tuple:
        return _items(value, typing.get_args(kind)[0], what)
    if isinstance(value, Mapping) and dataclasses.is_dataclass(kind):
        return typed(kind, value, what)  # type: ignore[arg-type]
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise InputError(f"{what} must be of type {kind.__name__}, got {value!r}")
    return value


def _items(value: Any, kind: Any, what: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise InputError(f"{what} must be a list, got {value!r}")
    return tuple(_value(item, kind, what) for item in value)
