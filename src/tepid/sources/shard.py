"""One file of many: what is read of it, and what can be seen before it is read."""

from collections.abc import Iterable
from dataclasses import dataclass

from tepid.errors import InputError
from tepid.sources import filters, places
from tepid.sources.columns import LABELS


@dataclass(frozen=True)
class Shard:
    """A file of logits by its place, with the columns beside them and the rows that are wanted.

    A column is a place too; `#name` is a column or member of the file itself. `row_groups` are the
    first of Parquet's that is wanted and the first that is not, None for all.
    """

    place: str
    name: str
    fragment: str = ""
    labels: str = ""
    weight: str = ""
    groups: str = ""
    filter: str = ""
    class_axis: int | None = None
    probabilities: bool = False
    row_groups: tuple[int, int] | None = None

    @property
    def is_table(self) -> bool:
        """Whether it has columns with names."""
        return places.suffix(self.place) in (*places.ARROW, *places.TEXT)

    @property
    def is_text(self) -> bool:
        """Whether it is a table of text."""
        return places.suffix(self.place) in places.TEXT

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are wanted beside the logits, by what they are for."""
        wanted = {"labels": self.labels, "weight": self.weight, "groups": self.groups}
        return {role: where for role, where in wanted.items() if where}

    @property
    def own(self) -> dict[str, str]:
        """Those of them that are in the file itself, by name."""
        return {role: where[1:] for role, where in self.columns.items() if where[0] == "#"}

    @property
    def condition(self) -> filters.Filter | None:
        """Which rows are wanted, None for all."""
        return filters.parsed(self.filter) if self.filter else None


@dataclass(frozen=True)
class Look:
    """What a file says of itself before its rows are read.

    `logits` are columns of a table, `row_groups` how many rows each of Parquet's has.
    """

    classes: int | None
    kind: str
    logits: tuple[str, ...] = ()
    labelled: bool = False
    rows: int | None = None
    estimate: int | None = None
    lead: tuple[int, ...] | None = None
    binary: bool = False
    row_groups: tuple[int, ...] = ()

    @property
    def layout(self) -> tuple[object, ...]:
        """What must be the same for every file of a set."""
        return self.classes, self.kind, self.logits, self.labelled


def resolved(name: str, names: Iterable[str], file: str) -> str:
    """The column of that name; `labels` is also `label`, in whatever letters."""
    names = tuple(names)
    if name in names:
        return name
    if name in LABELS:
        for found in names:
            if found.lower() in LABELS:
                return found
    known = ", ".join(names[:20]) or "none with a name"
    raise InputError(f"{file} must have a column {name!r}, got {known}")


def apart(shard: Shard, names: Iterable[str]) -> tuple[set[str], dict[str, str]]:
    """The columns that are no logits because something else was said of them; and those beside."""
    names = tuple(names)
    beside = {role: resolved(name, names, shard.name) for role, name in shard.own.items()}
    condition = shard.condition
    needed = () if condition is None else condition.names
    for name in needed:
        if name not in names:
            known = ", ".join(names[:20]) or "none with a name"
            raise InputError(
                f"filter must name columns of {shard.name}, which has {known}, got {name}"
            )
    return {*beside.values(), *needed}, beside
