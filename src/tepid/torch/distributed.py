"""Several processes, each with its own part of the rows: their summaries add, and that is all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from tepid.engines import Threads
from tepid.engines.engine import Summary, Total, add_up, finish
from tepid.errors import InputError
from tepid.sources import Batch, Source


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

    def total(self, of: Callable[[Batch], Summary], source: Source, stage: str) -> Summary:
        """The sum of `of(batch)` over all blocks of all processes, in the order of their ranks."""
        part: Total | None = None
        try:
            part = self._sum(of, source, stage)
        except Exception as error:
            self._told(None, f"{type(error).__name__}: {error}")
            raise
        told = [theirs for theirs in self._told(part, None) if theirs is not None]
        summary: Summary = finish(add_up(told), source)
        return summary

    def _told(self, part: Any, failure: str | None) -> list[Any]:
        """What every process has to say; raises where another one failed and this one did not."""
        told: list[Any] = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(told, (part, failure), group=self.group)
        for rank, (_, wrong) in enumerate(told):
            if wrong is not None and failure is None:
                raise InputError(f"every rank must finish its pass, got on rank {rank}: {wrong}")
        return [theirs for theirs, _ in told]
