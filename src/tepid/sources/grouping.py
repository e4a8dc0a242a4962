"""The group of each row: a site, a device, a domain."""

import math
import os
from typing import Any

from tepid import arrays
from tepid.errors import InputError
from tepid.sources import arrow, files, places, tables


def open_groups(groups: Any, lead: tuple[int, ...] | None = None) -> Any:
    """The groups' names as a flat array of text, from an array or a path."""
    if isinstance(groups, (str, os.PathLike)):
        groups = _from_file(groups)
    column = arrays.group_column(groups)
    if lead is not None and len(column) != math.prod(lead):
        rows = math.prod(lead)
        raise InputError(
            f"groups must have one entry for each of the {rows} rows, got {len(column)}"
        )
    return column


def _from_file(path: str | os.PathLike[str]) -> Any:
    place, fragment = places.named(path)
    if places.exists(place):
        if places.suffix(place) in places.TEXT:
            return tables.text_column(place, fragment, "groups")
        if places.suffix(place) in places.ARROW:
            return arrow.column(place, fragment, "groups")
    return files.open_array(path, "groups", "groups file").column("groups")
