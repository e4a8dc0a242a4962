"""What reaches the screen and the disk."""

import contextlib
import functools
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
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
    "is_file_of",
    "json_text",
    "note",
    "note_strangers",
    "noted",
    "notes",
    "print_json",
    "refuse_overwriting",
    "two_columns",
    "with_notes",
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
    said = Text.assemble(("note", "yellow"), " ", sentence)  # a file's name is no markup
    Console(stderr=True, highlight=False).print(said, soft_wrap=True)


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
    if not source.grouped:
        if groups:
            note("The calibration has groups; without --groups every row gets the T of all rows.")
        return
    if not groups:
        raise tepid.InputError(
            "--groups must go with a calibration that has groups, got one without"
        )
    strangers = 0
    for batch in source.batches(1 << 16):
        strangers += sum(name not in groups for name in batch.group)
    if strangers:
        note(f"{strangers} rows are of groups that were not fitted and get the T of all rows.")


def refuse_overwriting(output: Path, *inputs: str | os.PathLike[str] | None) -> None:
    """An output that is also an input is refused before anything is read."""
    given = [os.fspath(each) for each in inputs if each is not None]
    if output.exists() and any(is_file_of(each, output) for each in given):
        raise tepid.InputError(f"output must not be one of the inputs, got {output}")
    if not output.parent.is_dir():
        raise tepid.InputError(f"output must be in a folder that exists, got {output}")
    if output.exists() and not output.is_file():
        kind = "the folder " if output.is_dir() else ""
        raise tepid.InputError(f"output must be a file, got {kind}{output}")


def is_file_of(given: str, file: Path) -> bool:
    """Whether a file that exists is among those that a path, a folder or a glob names."""
    paths = tepid.sources.paths
    names = [given, paths.split_member(given)[0]]
    if not paths.is_url(given) and not paths.is_single(given):
        with contextlib.suppress(tepid.InputError):  # no files; the reader says so
            names += [paths.split_member(path)[0] for path in paths.expand(given, "input")]
    return any(Path(name).exists() and file.samefile(name) for name in names if name)


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """No second note about arrays in memory: reading them gave one, with the name of the file."""
    with warnings.catch_warnings():
        kind = tepid.errors.ProbabilityWarning
        warnings.filterwarnings("ignore", "The values of logits look", kind)
        yield


def with_notes(command: Callable[..., None]) -> Callable[..., None]:
    """The same command, which prints each warning about probabilities once, as a note."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        said: set[str] = set()
        with warnings.catch_warnings():
            warnings.simplefilter("always", tepid.errors.ProbabilityWarning)
            usual = warnings.showwarning

            def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
                if not issubclass(category, tepid.errors.ProbabilityWarning):
                    usual(message, category, *where, **more)
                elif str(message) not in said:
                    said.add(str(message))
                    note(str(message))

            warnings.showwarning = show
            command(*args, **options)

    return run
