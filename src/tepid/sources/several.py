"""What a person may name as files of logits, turned into shards with what stands beside each."""

import dataclasses
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tepid.errors import InputError
from tepid.sources import beside, grouping, places, shards
from tepid.sources.block import Source
from tepid.sources.shard import Shard
from tepid.sources.sound import sound


def are_files(logits: Any, condition: str | None) -> bool:
    """Whether it is a set of files, a table of Arrow, or a table of which some rows are wanted."""
    if not places.are_paths(logits):
        return False
    if condition or not places.is_single(logits):
        return True
    return places.suffix(places.named(logits)[0]) in places.ARROW


@dataclass(frozen=True)
class Said:
    """What was said of all files: which rows, what the numbers are, and what of a bad file."""

    filter: str = ""
    class_axis: int | None = None
    probabilities: bool = False
    skip: bool = False


def open_files(logits: Any, columns: dict[str, Any], said: Said) -> Source:
    """The rows of every file, with the columns in the files or beside them."""
    found = places.expanded(logits, "logits file")
    name = _named(logits, found)
    where = {role: beside.references(given, role, found) for role, given in columns.items()}
    made = _shards(found, {role: each for role, each in where.items() if each is not None}, said)
    loose = {
        role: given for role, given in columns.items() if given is not None and where[role] is None
    }
    _check_loose(loose, said)
    if said.skip:
        kept = sound(made, name, labelled=columns["labels"] is not None)
        source = shards.joined(kept.files, kept.looks, name)
        return dataclasses.replace(source, left_out=kept.left_out)
    source = shards.joined(made, shards.looked(made), name)
    return dataclasses.replace(source, **_opened(loose, source))


def _shards(
    found: tuple[str, ...], where: dict[str, tuple[str, ...]], said: Said
) -> tuple[Shard, ...]:
    made = []
    for i, (place, name) in enumerate(zip(found, places.shown(found), strict=True)):
        file, fragment = places.named(place)
        own: dict[str, Any] = {role: each[i] for role, each in where.items()}
        shard = Shard(places.absolute(file), name, fragment, **own)
        made.append(
            dataclasses.replace(
                shard,
                filter=said.filter,
                class_axis=said.class_axis,
                probabilities=said.probabilities,
            )
        )
    return tuple(made)


def _check_loose(loose: dict[str, Any], said: Said) -> None:
    """A column that is one for all rows cannot be told which of them are left out."""
    if loose and (said.filter or said.skip):
        name = beside.NAMES[next(iter(loose))]
        why = "rows are filtered" if said.filter else "files may be left out"
        raise InputError(
            f"{name} must be a column, or a file beside each, where {why}, got one for all"
        )


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


def columns_of(beside_: Iterable[Any], logits: Any) -> tuple[str, ...]:
    """The columns of the logits' own table that are something else and no logits."""
    if not places.is_path(logits):
        return ()
    own = places.named(logits)[0]
    named = [places.named(given) for given in beside_ if places.is_path(given)]
    return tuple(fragment for file, fragment in named if file == own and fragment)
