"""Labels, weights and groups beside files of logits: in them, in as many other files, or given."""

import math
import os
from typing import Any

from tepid import arrays
from tepid.errors import InputError
from tepid.sources import arrow, files, grouping, places
from tepid.sources.columns import LABELS
from tepid.sources.shard import Shard

# What a column is called to people, and the member of a file that holds it unless another is named.
NAMES = {"labels": "labels", "weight": "sample_weight", "groups": "groups"}


def is_own_name(given: str) -> bool:
    """Whether a text names a column of the logits' own file: no data, and nothing like a file.

    A folder that happens to be called like the column, and holds something else, does not count.
    """
    plain = not any(sign in given for sign in "/\\#*?[") and not places.suffix(given)
    return plain and not places.holds_data(given)


def references(given: Any, role: str, logits: tuple[str, ...]) -> tuple[str, ...] | None:
    """Where each file of logits has this column; None where it is one column for all of them."""
    if not places.are_paths(given):
        return None
    if places.is_path(given) and is_own_name(os.fspath(given)):
        return (f"#{os.fspath(given)}",) * len(logits)
    found = places.expanded(given, f"{NAMES[role]} file")
    if len(found) == 1 < len(logits) and places.is_path(given) and os.fspath(given) == found[0]:
        return None
    if len(found) != len(logits):
        raise InputError(
            f"{NAMES[role]} must be one file for each of the {len(logits)} of logits, "
            f"got {len(found)}"
        )
    return tuple(_own(place, own, role) for place, own in zip(found, logits, strict=True))


def _own(place: str, logits: str, role: str) -> str:
    file, fragment = places.named(place)
    if file == places.named(logits)[0]:
        return f"#{fragment or NAMES[role]}"
    return places.with_fragment(places.absolute(file), fragment)


def column(where: str, role: str, shard: Shard) -> Any:
    """All of a column that lies in another file, or in a member of an array's own."""
    path = f"{shard.place}{where}" if where.startswith("#") else where
    if where == "#labels" and not shard.is_table:
        path = f"{shard.place}#{_label_member(shard.place)}"
    if role == "groups":
        return grouping.open_groups(path)
    return column_of(path, NAMES[role], None)


def loaded(path: str | os.PathLike[str], name: str) -> Any:
    """Labels or weights of a file."""
    place, fragment = places.named(path)
    if places.suffix(place) in places.ARROW and places.exists(place):
        return arrow.column(place, fragment, name)
    return files.open_array(path, name, f"{name} file").column(name)


def column_of(given: Any, name: str, lead: tuple[int, ...] | None) -> Any:
    """Labels or weights as a flat array, from an array or a path; one for each row of `lead`."""
    column = loaded(given, name) if places.is_path(given) else given
    array = arrays.as_array(column, name)
    if lead is not None and array.size != math.prod(lead):
        got = len(array) if array.ndim == 1 else f"shape {array.shape}"
        rows = math.prod(lead)
        raise InputError(f"{name} must have one entry for each of the {rows} rows, got {got}")
    return array.reshape(-1)


def _label_member(place: str) -> str:
    return next((name for name in files.members(place) if name in LABELS), "labels")


def mismatch(role: str, name: str, rows: int, got: int) -> InputError:
    """A column that has more or fewer entries than there are rows."""
    return InputError(
        f"{NAMES[role]} of {name} must have one entry for each of the {rows} rows, got {got}"
    )
