"""What every engine does: sum a summary over all batches of a source."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from tepid import validation
from tepid.errors import InputError
from tepid.shapes import rows_per_batch
from tepid.sources.batch import Batch
from tepid.sources.source import Source


class Adds(Protocol):
    """A summary."""

    def __add__(self, other: Self, /) -> Self: ...


Summary = TypeVar("Summary", bound=Adds)
# Called with the name of the stage, the rows done, and the number of rows if it is known; from any
# thread, but from one at a time.
Progress = Callable[[str, int, int | None], None]


class Engine(Protocol):
    """Threads here, or workers elsewhere; every engine returns the same sum."""

    @property
    def progress(self) -> Progress | None:
        """Called as rows are done."""
        ...

    def total(self, of: Callable[[Batch], Summary], source: Source, stage: str) -> Summary:
        """The sum of `of(batch)` over all batches; `of` travels to where the batches are."""
        ...


@dataclass(frozen=True)
class Total:
    """A sum, and whether every row in it looked like probabilities."""

    summary: Any
    suspicious: bool

    def __add__(self, other: "Total") -> "Total":
        return Total(self.summary + other.summary, self.suspicious and other.suspicious)


def summarize(of: Callable[[Batch], Any], batch: Batch) -> Total:
    """`of(batch)`; an error about a row names the file or source and the row in it."""
    with batch.locating():
        return Total(of(batch), validation.look_like_probabilities(batch.logits))


@dataclass(frozen=True)
class Refused:
    """An error about the data, as the result of a task: a retry would not help."""

    error: InputError


def summarize_part(
    of: Callable[[Batch], Any],
    source: Source,
    batches: Callable[[int], Iterator[Batch]],
    start: int | None,
) -> Total | Refused | None:
    """The sum over one part of a source, which begins at row `start`; runs on a worker."""
    read = batches(rows_per_batch(source.classes or 64))
    try:
        return add_up(summarize(of, batch) for batch in source.checked(read, start))
    except InputError as error:
        return Refused(error)


def add_outcomes(outcomes: Iterable[Total | Refused | None]) -> Total | Refused | None:
    """The sum of what tasks returned; the first refusal outweighs it."""
    found = list(outcomes)
    refused = next((outcome for outcome in found if isinstance(outcome, Refused)), None)
    return refused or add_up(outcome for outcome in found if isinstance(outcome, Total))


def add_up(totals: Iterable[Total]) -> Total | None:
    """The sum in the order given; None of nothing."""
    total: Total | None = None
    for part in totals:
        total = part if total is None else total + part
    return total


def finish(total: Total | Refused | None, source: Source) -> Any:
    """The summary; raises if there were no rows, warns if they look like probabilities."""
    if isinstance(total, Refused):
        raise total.error
    if total is None:
        raise InputError(f"{source.name} must have at least one row, got none")
    if total.suspicious:
        validation.warn_probabilities(source.name)
    return total.summary
