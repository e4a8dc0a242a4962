"""Several processes, each with its own part of the rows: their summaries add, and that is all."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import torch.distributed as dist

from tepid.engines import Threads
from tepid.engines.engine import Summary
from tepid.errors import InputError
from tepid.sources import Block, Source


@dataclass(frozen=True)
class AllReduced(Threads):
    """An engine whose sums are over the rows of every process of a group, the default one by None.

    Every process calls the same method with its own part, which may be empty; each gets the same
    temperature, to the last bit. What goes between them is a summary, O(k) numbers per pass. If
    one of them fails, all of them raise.

    The trap: rows that two processes hold count twice, so that labelled rows must be parts too. A
    method that looks at a whole column by itself sees that of its own process: `groups`, and
    `tepid.from_source` with `shift="label"`, are not for this engine.
    """

    group: Any = None

    def total(self, of: Callable[[Block], Summary], source: Source, stage: str) -> Summary:
        """The sum of `of(block)` over all blocks of all processes, in the order of their ranks."""
        rows = _Count()
        own = dataclasses.replace(source, read=rows.counting(source.read), parts=())
        part: Any = None
        try:
            part = super().total(of, own, stage)
        except Exception as error:
            if not rows.none:
                self._told(None, f"{type(error).__name__}: {error}")
                raise
        parts = [told for told in self._told(part, None) if told is not None]
        if not parts:
            raise InputError(f"{source.name} must have at least one row, got none on any rank")
        return reduce(add, parts)  # type: ignore[no-any-return]  # they crossed as objects

    def _told(self, part: Any, failure: str | None) -> list[Any]:
        """What every process has to say; raises where another one failed and this one did not."""
        told: list[Any] = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(told, (part, failure), group=self.group)
        for rank, (_, wrong) in enumerate(told):
            if wrong is not None and failure is None:
                raise InputError(f"every rank must finish its pass, got on rank {rank}: {wrong}")
        return [theirs for theirs, _ in told]


@dataclass
class _Count:
    """How many rows have been read, and whether that was all."""

    seen: int = 0
    ended: bool = False

    @property
    def none(self) -> bool:
        """Whether there are no rows."""
        return self.ended and not self.seen

    def counting(self, read: Callable[[int], Iterator[Any]]) -> Callable[[int], Iterator[Any]]:
        """The same reading, counted."""

        def counted(rows: int) -> Iterator[Any]:
            for block in read(rows):
                self.seen += len(block.logits if isinstance(block, Block) else block)
                yield block
            self.ended = True

        return counted
