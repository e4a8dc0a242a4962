"""What every engine does: the sum of a summary over all blocks of a source."""

from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from tepid.sources.block import Block, Source


class Adds(Protocol):
    """A summary."""

    def __add__(self, other: Self, /) -> Self: ...


Summary = TypeVar("Summary", bound=Adds)
# Called with what is being done, how many rows are done, and about how many there are; from any
# thread, but one at a time.
Progress = Callable[[str, int, int | None], None]


class Engine(Protocol):
    """Threads here, or workers elsewhere; every one gives the same sum."""

    @property
    def progress(self) -> Progress | None:
        """Whom to tell how far it is."""
        ...

    def total(self, of: Callable[[Block], Summary], source: Source, stage: str) -> Summary:
        """The sum of `of(block)` over all blocks; `of` travels to where the blocks are."""
        ...
