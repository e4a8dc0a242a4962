"""Dask: each part is summed where it is, and only the summaries travel.

With a `distributed` client, or with the one that is there already, on its workers; otherwise with
whatever scheduler Dask is set to.
"""

import contextlib
import logging
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

import dask
from dask.delayed import delayed

from tepid.engines.engine import Progress, Summary
from tepid.engines.portions import Portion, portions, summed
from tepid.engines.threads import Threads
from tepid.errors import InputError
from tepid.sources.block import Block, Part, Source
from tepid.sources.partitions import arrived
from tepid.sources.parts import carried, carrying, finer, reading

# How many summaries one task adds.
_FAN = 8
# How often a task that fails for no fault of the data is tried again; a lost worker counts too.
_RETRIES = 3


@dataclass(frozen=True)
class Dask:
    """An engine on Dask; `client` is a `distributed.Client`, by default the current one if any.

    Rows that are in this process and nowhere else are summed here, by threads.
    """

    client: Any = None
    progress: Progress | None = None

    def total(self, of: Callable[[Block], Summary], source: Source, stage: str) -> Summary:
        """The sum of `of(block)` over all blocks, added as a tree in the order of the parts."""
        if not source.parts:
            return Threads(progress=self.progress).total(of, source, stage)
        tasks = _summing(of, finer(source), stage)
        adding = delayed(_added, pure=False)
        while len(tasks) > 1:
            name = f"tepid-adding-{uuid.uuid4().hex}"
            tasks = [
                adding(tasks[i : i + _FAN], dask_key_name=(name, i))
                for i in range(0, len(tasks), _FAN)
            ]
        (outcome,) = self._computed(tasks)
        total: Summary | None = _accepted(outcome)
        if self.progress:
            self.progress(stage, source.expected or 0, source.expected)
        if total is None:
            raise InputError(f"{source.name} must have at least one row, got none")
        return total

    def each(
        self, of: Callable[[Block], Summary], source: Source, stage: str, wanted: list[int]
    ) -> Iterator[tuple[int, Summary | None]]:
        """The sum over each wanted part of a source, as they are done; None of no rows."""
        tasks = _summing(of, source, stage)
        client = self._client()
        if client is None:
            for place in wanted:
                (outcome,) = dask.compute(tasks[place])
                yield place, _accepted(outcome)
            return
        from distributed import as_completed  # noqa: PLC0415  # only with a client

        with _staying():
            futures = client.compute([tasks[place] for place in wanted], retries=_RETRIES)
            places = {future.key: place for future, place in zip(futures, wanted, strict=True)}
            for future in as_completed(futures, loop=client.loop):
                yield places[future.key], _accepted(future.result())

    def _client(self) -> Any:
        if self.client is not None:
            return self.client
        try:
            from distributed import default_client  # noqa: PLC0415  # Dask alone does without

            return default_client()
        except (ImportError, ValueError):  # not installed, or nobody has made one
            return None

    def _computed(self, tasks: list[Any]) -> tuple[Any, ...]:
        client = self._client()
        if client is None:
            return tuple(dask.compute(*tasks))
        with _staying():
            return tuple(client.gather(client.compute(tasks, retries=_RETRIES)))


@contextlib.contextmanager
def _staying() -> Iterator[None]:
    """Say in one sentence that the cluster has gone."""
    from distributed import CancelledError  # noqa: PLC0415  # only with a client
    from distributed.comm import CommClosedError  # noqa: PLC0415

    try:
        yield
    except (CancelledError, CommClosedError):
        raise InputError(
            "the Dask cluster must stay until the fit is done, got one that went away; with a "
            "checkpoint, another run goes on from here"
        ) from None


@contextlib.contextmanager
def connected(address: str | None, progress: Progress | None = None) -> Iterator[Dask]:
    """An engine on the cluster at an address, or on one that is started here, in this process."""
    import distributed  # noqa: PLC0415  # Dask alone does without

    # What goes wrong is said once, by this engine.
    with _silent("distributed"), contextlib.ExitStack() as open_until_the_end:
        where: Any = address
        if address is not None and not re.fullmatch(r"\w+://\S+:\d+", address):
            raise InputError(f"scheduler must be an address such as tcp://HOST:8786, got {address}")
        if address is None:
            cluster = distributed.LocalCluster(processes=False, dashboard_address=":0")
            where = open_until_the_end.enter_context(cluster)
        try:
            client = distributed.Client(where, timeout="10s", set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(
                f"scheduler must be the address of a cluster, got {address} ({error})"
            ) from None
        yield Dask(open_until_the_end.enter_context(client), progress)


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


@dataclass(frozen=True)
class _Refused:
    """What is wrong with a part. It comes back as a value, since trying again would not help."""

    error: InputError


def _summing(of: Callable[[Block], Any], source: Source, stage: str) -> list[Any]:
    """A task for the sum of each part; the question is sent once, not once for each."""
    token = uuid.uuid4().hex
    asked = delayed(of, name=f"tepid-question-{token}", traverse=False)
    name = f"tepid-{stage.replace(' ', '-')}-{token}"
    return [
        _task(portion)(asked, _lazy(portion), dask_key_name=(name, place))
        for place, portion in enumerate(portions(source))
    ]


def _task(portion: Portion) -> Any:
    """What sums a portion, bound to it: in an argument Dask would look for tasks, all through."""
    bare = _with(portion, [_bare(part) for part in _parts(portion)])
    return delayed(partial(_outcome, bare), pure=False)


def _lazy(portion: Portion) -> list[Any]:
    """What is lazy in a portion, which becomes a dependency of its task."""
    return [part.lazy for part in _parts(portion)]


def _bare(part: Part) -> Part:
    """A lazy part without the graph that would compute it again."""
    return part if part.lazy is None else Part(part.name, _unread, part.rows)


def _unread(rows: int) -> Iterator[Block]:
    raise NotImplementedError(f"a lazy part is read where its task runs, not {rows} rows here")


def _parts(portion: Portion) -> list[Part]:
    return [portion.part, *(peer.parts[0] for peer in portion.source.peers)]


def _with(portion: Portion, parts: list[Part]) -> Portion:
    """The same portion of other parts."""
    own, *others = parts
    peers = tuple(
        replace(peer, parts=(part,), read=reading((part,)))
        for peer, part in zip(portion.source.peers, others, strict=True)
    )
    columns = carried((own,), carrying(portion.source))
    source = replace(portion.source, parts=(own,), read=reading((own,)), peers=peers, **columns)
    return Portion(source, portion.start)


def _outcome(portion: Portion, of: Callable[[Block], Any], lazy: list[Any]) -> Any:
    """The sum over a portion, on the worker."""
    parts = [
        part if columns is None else arrived(part, columns)
        for part, columns in zip(_parts(portion), lazy, strict=True)
    ]
    try:
        return summed(of, _with(portion, parts))
    except InputError as error:
        return _Refused(error)


def _added(outcomes: list[Any]) -> Any:
    """The sum of what is there; the first refusal outweighs all."""
    for outcome in outcomes:
        if isinstance(outcome, _Refused):
            return outcome
    some = [outcome for outcome in outcomes if outcome is not None]
    return reduce(add, some) if some else None


def _accepted(outcome: Any) -> Any:
    if isinstance(outcome, _Refused):
        raise outcome.error
    return outcome
