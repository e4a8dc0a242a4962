"""What reaches the screen and the disk."""

import json
import math
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import tepid
from tepid.cli.progress import working

__all__ = [
    "console",
    "doubts",
    "json_text",
    "labels_beside",
    "note",
    "note_strangers",
    "notes",
    "print_json",
    "refuse_overwriting",
    "two_columns",
    "working",
]


def console() -> Console:
    """The terminal; a pipe gets lines as long as they need to be."""
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)


def print_json(value: Any) -> None:
    """Print strict JSON: what is not a number becomes null."""
    typer.echo(json_text(value))


def json_text(value: Any) -> str:
    """Strict JSON as text."""
    return json.dumps(_strict(value), indent=2, allow_nan=False)


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def two_columns(rows: dict[str, str], title: str) -> Table:
    """A table of names and values."""
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    for name, value in rows.items():
        table.add_row(name, Text(value))  # brackets are no markup
    return table


def note(sentence: str) -> None:
    """Say something on the side, where it does not mix with results."""
    Console(stderr=True, highlight=False).print(f"[yellow]note[/yellow] {sentence}", soft_wrap=True)


def notes(sentences: Iterable[str]) -> None:
    """Say several things on the side."""
    for sentence in sentences:
        note(sentence)


def doubts(calibrator: Any) -> None:
    """Say why a calibration is not to be used without a thought."""
    if getattr(calibrator, "status", "ok") != "ok":
        note(f"The status of this calibration is {calibrator.status}.")
    notes(calibrator.warnings)


def note_strangers(calibrator: Any, source: "tepid.sources.Source") -> None:
    """Say which rows get the temperature of all, and refuse groups that none was fitted for."""
    groups = getattr(calibrator, "groups", {})
    if source.groups is None:
        if groups:
            note("The calibration has groups; without --groups every row gets the T of all rows.")
        return
    if not groups:
        raise tepid.InputError(
            "--groups must go with a calibration that has groups, got one without"
        )
    strangers = [name not in groups for name in tepid.arrays.group_column(source.groups)]
    if any(strangers):
        note(f"{sum(strangers)} rows are of groups that were not fitted and get the T of all rows.")


def refuse_overwriting(output: Path, *inputs: str | os.PathLike[str] | None) -> None:
    """An output that is also an input is refused before anything is read."""
    names = [os.fspath(given) for given in inputs if given is not None]
    for name in [*names, *(name.rpartition("#")[0] for name in names)]:
        if name and output.exists() and Path(name).exists() and output.samefile(name):
            raise tepid.InputError(f"output must not be one of the inputs, got {output}")
    if not output.parent.is_dir():
        raise tepid.InputError(f"output must be in a folder that exists, got {output}")
    if output.exists() and not output.is_file():
        kind = "the folder " if output.is_dir() else ""
        raise tepid.InputError(f"output must be a file, got {kind}{output}")


def labels_beside(logits: str) -> str:
    """Where the labels are when only the logits were named: their own member or column."""
    places = tepid.sources.places
    place, fragment = places.named(logits)
    if fragment and fragment != "logits":
        raise tepid.InputError(f"labels must be named too where #{fragment} is, got none")
    if not places.is_single(logits):
        return f"{place}#labels"
    ending = places.suffix(place)
    if ending == ".npy":
        name = places.base(place)
        raise tepid.InputError(f"labels must be a file of their own beside {name}, got none")
    return place if ending in places.TEXT else f"{place}#labels"
