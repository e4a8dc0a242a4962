"""What reaches the screen: lines, tables, JSON, notes on standard error, and progress.

Text is printed as it is, except that control characters are escaped. File names contain brackets
and colons, which are neither markup nor emoji codes here.
"""

import contextlib
import functools
import json
import math
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

import tepid

if TYPE_CHECKING:  # rich takes longer to import than NumPy; what prints JSON does without
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.table import Table
    from rich.text import Text

# All control characters but tabs and line breaks.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Work that is done sooner shows no progress bar, which would only flash.
_SECONDS_BEFORE_PROGRESS = 1.5


def console(*, stderr: bool = False) -> "Console":
    """A console without markup; tables in a pipe may be 160 columns wide."""
    from rich import console, text  # noqa: PLC0415  # see above

    class Plain(console.Console):
        def render_str(self, text: str, **options: Any) -> text.Text:
            return super().render_str(escape(text), **options)

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 160
    return Plain(width=width, stderr=stderr, highlight=False, markup=False, emoji=False)


def escape(text: str) -> str:
    """Control characters as Python writes them: what a file holds must not steer a terminal."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def print_line(text: str) -> None:
    """Print a line of text, which the terminal may wrap."""
    console().print(text.replace("\n", r"\n"), soft_wrap=True)


def print_json(value: Any) -> None:
    """Print strict JSON: NaN and infinity become null."""
    typer.echo(json_text(value))


def json_text(value: Any) -> str:
    """Strict JSON as text."""
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def table(
    *columns: str, title: str | None = None, left: int = 1, padding: int = 2, wrap: bool = True
) -> "Table":
    """A table without rows; `left` columns are aligned to the left, the others to the right."""
    from rich.table import Table  # noqa: PLC0415  # see above

    drawn = Table(box=None, padding=(0, padding), title=title, title_justify="left")
    for number, name in enumerate(columns):
        drawn.add_column(name, justify="left" if number < left else "right", no_wrap=not wrap)
    return drawn


def print_pairs(title: str, pairs: Mapping[str, str], *, wrap: bool = True) -> None:
    """Print a table of names and values."""
    drawn = table("", "", title=title, left=2)
    drawn.show_header, drawn.columns[0].style = False, "bold"
    for name, value in pairs.items():
        drawn.add_row(name, value)
    console().print(drawn, soft_wrap=not wrap)


def styled(text: str, style: str = "") -> "Text":
    """Text with a style."""
    from rich.text import Text  # noqa: PLC0415  # see above

    return Text(text, style=style)


# --- notes


def note(sentence: str) -> None:
    """Print a note on standard error, where it does not mix with results."""
    plain = escape(sentence).replace("\n", r"\n")
    text = styled("").append("note", "yellow").append(f" {plain}")
    console(stderr=True).print(text, soft_wrap=True)


def notes(sentences: Iterable[str]) -> None:
    """Print several notes."""
    for sentence in sentences:
        note(sentence)


@contextlib.contextmanager
def without_array_warnings() -> Iterator[None]:
    """Drop the warning about probabilities in an array: reading the file gave it with its name."""
    with warnings.catch_warnings():
        kind = tepid.errors.ProbabilityWarning
        warnings.filterwarnings("ignore", "The values of logits look", kind)
        yield


@contextlib.contextmanager
def without_calibration_warnings() -> Iterator[None]:
    """Drop `CalibrationWarning`: the command prints the warnings of the result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tepid.CalibrationWarning)
        yield


def with_notes(command: Callable[..., None]) -> Callable[..., None]:
    """The same command, which prints each warning about files and speed once, as a note."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        printed: set[str] = set()
        kinds = (
            tepid.errors.ProbabilityWarning,
            tepid.errors.LogWarning,
            tepid.errors.PerformanceWarning,
        )
        with warnings.catch_warnings():
            for kind in kinds:
                warnings.simplefilter("always", kind)
            usual = warnings.showwarning

            def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
                if not issubclass(category, kinds):
                    usual(message, category, *where, **more)
                elif str(message) not in printed:
                    printed.add(str(message))
                    note(str(message))

            warnings.showwarning = show
            command(*args, **options)

    return run


# --- progress


@contextlib.contextmanager
def threads_with_progress(threads: int | None) -> Iterator["tepid.Threads"]:
    """A thread-pool engine; on a terminal, long work draws its progress, rate and time left.

    Raises if the number of threads is none, whether or not there is work for them.
    """
    tepid.Threads(threads).threads  # noqa: B018  # raises
    if not sys.stderr.isatty():
        yield tepid.Threads(threads)
        return
    from rich import progress, text  # noqa: PLC0415  # see above

    class Rate(progress.ProgressColumn):
        def render(self, task: progress.Task) -> text.Text:
            return text.Text(f"{task.speed:,.0f}/s" if task.speed else "")

    bar = progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(bar_width=20),
        progress.TaskProgressColumn(),
        Rate(),
        progress.TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    )
    # A timer starts the bar, so that a first run that compiles kernels is not silent either.
    timer = threading.Timer(_SECONDS_BEFORE_PROGRESS, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield tepid.Threads(threads, _reporter(bar))
    finally:
        timer.cancel()
        timer.join()
        if bar.live.is_started:
            bar.stop()


def _reporter(bar: "Progress") -> "tepid.engines.Progress":
    preparing = bar.add_task("preparing", total=None)
    stages: dict[str, TaskID] = {}
    lock = threading.Lock()

    def report(name: str, done: int, total: int | None) -> None:
        with lock:
            bar.update(preparing, visible=False)
            if name not in stages:
                stages[name] = bar.add_task(name, total=total)
            bar.update(stages[name], completed=done, total=total)

    return report
