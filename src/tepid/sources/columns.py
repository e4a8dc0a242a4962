"""Which columns of a table are the logits, and which are known of each row beside them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid import arrays
from tepid.errors import InputError

LABELS = ("label", "labels")
WEIGHTS = ("weight", "weights", "sample_weight")
GROUPS = ("group", "groups")
# Columns of these names are no logits, whatever they hold.
ASIDE = (*LABELS, *WEIGHTS, *GROUPS)
LISTS = "logits"


@dataclass(frozen=True)
class Chosen:
    """The columns that are logits, or the one that holds `lists` of them, and those beside them."""

    logits: tuple[str, ...]
    beside: dict[str, str]
    lists: bool = False


def choose(kinds: dict[str, str], wanted: dict[str, Any]) -> Chosen:
    """What a table holds; `wanted` names the columns beside the logits.

    `kinds` are NumPy's, and `l` for a column that is known to hold lists. A column called `label`
    or `labels` holds the labels without being named. One called `logits` holds the logits as lists;
    otherwise every column of fractions that has no other name of `ASIDE` is a class, or the only
    lists are the logits.
    """
    names = list(kinds)
    beside = {kind: _known(kind, name, names) for kind, name in wanted.items() if name is not None}
    aside = [name for name in names if str(name).lower() in ASIDE]
    own = [name for name in aside if str(name).lower() in LABELS]
    if "labels" not in beside and own:
        beside["labels"] = own[0]
    if LISTS in names:
        return Chosen((LISTS,), beside, lists=True)
    taken = {*beside.values(), *aside}
    logits = tuple(name for name in names if name not in taken and kinds[name] == "f")
    lists = [name for name in names if name not in taken and kinds[name] == "l"]
    if not logits and len(lists) == 1:
        return Chosen((lists[0],), beside, lists=True)
    if not logits:
        raise InputError(f"logits must have columns of fractions, got {_listed(names)}")
    return Chosen(logits, beside)


def _known(kind: str, name: Any, names: list[str]) -> str:
    if name not in names:
        raise InputError(f"{kind} must name one of the columns {_listed(names)}, got {name!r}")
    return str(name)


def _listed(names: list[str]) -> str:
    return ", ".join(str(name) for name in names) or "none"


def of_table(table: Any, chosen: Chosen) -> dict[str, Any]:
    """The columns of a pandas table as arrays: logits (n, k), and one array for each beside."""
    if chosen.lists:
        rows = [np.asarray(row) for row in table[chosen.logits[0]]]
        logits = np.stack(rows) if rows else np.zeros((0, 2))
    else:
        logits = table[list(chosen.logits)].to_numpy()
    columns = {"logits": arrays.as_array(logits)}
    for kind, name in chosen.beside.items():
        column = table[name].to_numpy()
        columns[kind] = arrays.group_column(column) if kind == "groups" else column
    return columns
