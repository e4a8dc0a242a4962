"""Distributed engine: every process sums its own rows, and the sums are added."""

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
    """An engine that sums over the rows of all processes of a group, by default the default group.

    Every process calls the same method with its own rows, which may be none. All of them get the
    same temperature, bit for bit. They exchange one summary, O(k) numbers, per pass. If one
    process fails, all of them raise.

    The trap: rows that two processes hold count twice, so labeled rows must be split too. Methods
    that read a whole column see only that of their own process, so `groups` cannot be used.
    """

    group: Any = None

    def total(self, of: Callable[[Batch], Summary], source: Source, stage: str) -> Summary:
        """The sum of `of(batch)` over all batches of all processes, in the order of their ranks."""
        own: Total | None = None
        try:
            own = self._sum(of, source, stage)
        except Exception as error:
            self._exchange(None, f"{type(error).__name__}: {error}")
            raise
        parts = [part for part in self._exchange(own, None) if part is not None]
        summary: Summary = finish(add_up(parts), source)
        return summary

    def _exchange(self, part: Total | None, failure: str | None) -> list[Total | None]:
        """The sums of all processes; raises if another process failed and this one did not."""
        gathered: list[Any] = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(gathered, (part, failure), group=self.group)
        for rank, (_, wrong) in enumerate(gathered):
            if wrong is not None and failure is None:
                raise InputError(f"every rank must finish its pass, got on rank {rank}: {wrong}")
        return [theirs for theirs, _ in gathered]
