"""Dask engine: each part is summed on a worker, and only summaries travel.

It uses the `distributed` client that is given or current, otherwise Dask's own scheduler.
"""

import contextlib
import dataclasses
import logging
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

try:
    import dask
    from dask.delayed import delayed
except ImportError:
    raise ImportError("tepid.engines.dask needs Dask: pip install 'tepid[dask]'") from None

from tepid.engines.engine import Progress, Summary, add_outcomes, finish, summarize_part
from tepid.engines.threads import Threads
from tepid.errors import InputError
from tepid.sources.attached import AttachedPart
from tepid.sources.batch import Batch, Part
from tepid.sources.dask import DaskPart
from tepid.sources.source import Source

# The number of summaries that one task adds.
_FAN = 8
# How often a task that fails for a reason other than its data is retried; a lost worker counts.
_RETRIES = 3


@dataclass(frozen=True)
class Dask:
    """An engine on Dask; `client` is a `distributed.Client`, by default the current one if any.

    Rows that only this process has are summed here, by threads.
    """

    client: Any = None
    progress: Progress | None = None

    def total(self, of: Callable[[Batch], Summary], source: Source, stage: str) -> Summary:
        """The sum of `of(batch)` over all batches, added as a tree in the order of the parts."""
        if not all(part.portable for part in source.parts):
            return Threads(progress=self.progress).total(of, source, stage)
        tasks = _tasks(of, source, stage)
        adding = delayed(add_outcomes, pure=False)
        while len(tasks) > 1:
            name = f"tepid-adding-{uuid.uuid4().hex}"
            tasks = [
                adding(tasks[i : i + _FAN], dask_key_name=(name, i))
                for i in range(0, len(tasks), _FAN)
            ]
        summary: Summary = finish(self._compute(tasks[0]), source)
        if self.progress:
            self.progress(stage, source.rows or 0, source.rows)
        return summary

    def _client(self) -> Any:
        if self.client is not None:
            return self.client
        try:
            from distributed import default_client  # noqa: PLC0415  # Dask alone does without

            return default_client()
        except (ImportError, ValueError):  # not installed, or nobody has made one
            return None

    def _compute(self, task: Any) -> Any:
        client = self._client()
        if client is None:
            return dask.compute(task)[0]
        from distributed import CancelledError, KilledWorker  # noqa: PLC0415  # only with a client
        from distributed.comm import CommClosedError  # noqa: PLC0415  # the same

        try:
            return client.gather(client.compute(task, retries=_RETRIES))
        except (CancelledError, CommClosedError):
            raise InputError(
                "the Dask cluster must stay until the fit is done, got one that went away"
            ) from None
        except KilledWorker as error:
            raise InputError(
                f"the Dask workers must stay until the fit is done, got {error.task} on several "
                "that died, often for lack of memory"
            ) from None


@contextlib.contextmanager
def connected(address: str | None, progress: Progress | None = None) -> Iterator[Dask]:
    """An engine on the cluster at an address, or on one that is started in this process."""
    import distributed  # noqa: PLC0415  # Dask alone does without

    # What goes wrong is reported once, by this engine.
    with _silent("distributed"), contextlib.ExitStack() as stack:
        where: Any = address
        if address is not None and not re.fullmatch(r"\w+://\S+:\d+", address):
            raise InputError(f"scheduler must be an address such as tcp://HOST:8786, got {address}")
        if address is None:
            cluster = distributed.LocalCluster(processes=False, dashboard_address="127.0.0.1:0")
            where = stack.enter_context(cluster)
        try:
            client = distributed.Client(where, timeout="10s", set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(
                f"scheduler must be the address of a cluster, got {address} ({error})"
            ) from None
        yield Dask(stack.enter_context(client), progress)


@contextlib.contextmanager
def _silent(name: str) -> Iterator[None]:
    handlers = [(handler, handler.level) for handler in logging.getLogger(name).handlers]
    for handler, _ in handlers:
        handler.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for handler, level in handlers:
            handler.setLevel(level)


def _tasks(of: Callable[[Batch], Any], source: Source, stage: str) -> list[Any]:
    """One task per part; `of` is sent once, not once per task."""
    token = uuid.uuid4().hex
    sent = delayed(of, name=f"tepid-of-{token}", traverse=False)
    name = f"tepid-{stage.replace(' ', '-')}-{token}"
    tasks = []
    bare = source.replaced(parts=(), spool=None)
    for position, (part, start) in enumerate(zip(source.parts, _starts(source), strict=False)):
        # Bound by partial: Dask would search an argument for tasks.
        work = partial(_summarize, part.map_leaves(_bare), bare, start)
        task = delayed(work, pure=False)
        lazy = [leaf.delayed for leaf in part.leaves() if isinstance(leaf, DaskPart)]
        if lazy and isinstance(part, AttachedPart) and len(part.parts) > 1:
            raise InputError(
                "labels, sample_weight, groups and other models must have the partitions of the "
                "logits, of known lengths, got others; see rechunk and compute_chunk_sizes of Dask"
            )
        tasks.append(task(sent, lazy, dask_key_name=(name, position)))
    return tasks


def _starts(source: Source) -> Iterator[int | None]:
    """The number of each part's first row, None once a part is not counted."""

    def after(start: int | None, rows: int | None) -> int | None:
        return None if start is None or rows is None else start + rows

    return accumulate((part.rows for part in source.parts), after, initial=0)


def _bare(leaf: Part) -> Part:
    """A leaf without the graph that would compute it again."""
    return dataclasses.replace(leaf, delayed=None) if isinstance(leaf, DaskPart) else leaf


def _summarize(
    part: Part, source: Source, start: int | None, of: Callable[[Batch], Any], values: list[Any]
) -> Any:
    """The sum over one part of a source, on the worker."""

    def batches(size: int) -> Iterator[Batch]:
        left = iter(values)
        computed = part.map_leaves(
            lambda leaf: leaf.computed(next(left)) if isinstance(leaf, DaskPart) else leaf
        )
        yield from computed.batches(size)

    return summarize_part(of, source, batches, start)
