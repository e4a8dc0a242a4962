"""The group of each row: a site, a device, a domain."""

import math
import os
from typing import Any

from tepid import arrays
from tepid.errors import InputError
from tepid.sources import files, tables


def place(groups: Any, logits: Any) -> tuple[Any, str]:
    """Where the groups are, and the column of the logits' table that is theirs and no logit.

    A bare name that is no file means a column or member of the file that the logits are in.
    """
    if not isinstance(groups, (str, os.PathLike)):
        return groups, ""
    file, fragment = files.named(groups)
    if not isinstance(logits, (str, os.PathLike)):
        return groups, ""
    own = files.named(logits)[0]
    if not fragment and not file.exists() and not file.suffix:
        return f"{own}#{groups}", os.fspath(groups)
    return groups, fragment if file == own else ""


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
    file, fragment = files.named(path)
    if file.suffix.lower() == ".csv" and file.is_file():
        return tables.text_column(file, fragment or "groups")
    return files.open_array(path, "groups", "groups file").column("groups")
