"""What a person may name as files of logits, turned into shards with what stands beside each."""

import dataclasses
import os
from typing import Any

from tepid.errors import InputError
from tepid.sources import beside, grouping, places, shards
from tepid.sources.block import Source
from tepid.sources.shard import Shard


def are_files(logits: Any, condition: str | None) -> bool:
    """Whether it is a set of files, a table of Arrow, or a table of which some rows are wanted."""
    if not places.are_paths(logits):
        return False
    if condition or not places.is_single(logits):
        return True
    return places.suffix(places.named(logits)[0]) in places.ARROW


def open_files(
    logits: Any,
    columns: dict[str, Any],
    *,
    filter: str | None = None,  # noqa: A002  # what tables call it
    class_axis: int | None = None,
    probabilities: bool = False,
) -> Source:
    """The rows of every file, with the columns in the files or beside them."""
    found = places.expanded(logits, "logits file")
    where = {role: beside.references(given, role, found) for role, given in columns.items()}
    made = []
    for i, (place, name) in enumerate(zip(found, places.shown(found), strict=True)):
        file, fragment = places.named(place)
        own: dict[str, Any] = {role: each[i] for role, each in where.items() if each is not None}
        own |= {"class_axis": class_axis, "probabilities": probabilities, "filter": filter or ""}
        made.append(Shard(places.absolute(file), name, fragment, **own))
    source = shards.opened(tuple(made), _named(logits, found))
    loose = {
        role: given for role, given in columns.items() if given is not None and where[role] is None
    }
    if loose and filter:
        name = beside.NAMES[next(iter(loose))]
        raise InputError(
            f"{name} must be a column, or a file beside each, where rows are filtered, "
            "got one for all"
        )
    return dataclasses.replace(source, **_opened(loose, source))


def _opened(loose: dict[str, Any], source: Source) -> dict[str, Any]:
    opened = {}
    for role, given in loose.items():
        if role == "groups":
            opened[role] = grouping.open_groups(given, source.lead)
        else:
            opened[role] = beside.column_of(given, beside.NAMES[role], source.lead)
    return opened


def _named(logits: Any, found: tuple[str, ...]) -> str:
    if len(found) == 1:
        return places.base(found[0])
    return os.fspath(logits) if places.is_path(logits) else "logits"


def within(given: Any, logits: Any) -> Any:
    """A bare name that is no file as a column or member of the file that the logits are in."""
    if places.is_path(given) and places.is_path(logits) and beside.is_own_name(os.fspath(given)):
        return places.with_fragment(places.named(logits)[0], os.fspath(given))
    return given


def column_of(given: Any, logits: Any) -> str:
    """The column of the logits' own table that is something else and no logit."""
    if not places.is_path(given) or not places.is_path(logits):
        return ""
    file, fragment = places.named(given)
    return fragment if file == places.named(logits)[0] else ""
