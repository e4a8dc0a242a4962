"""The engine that a verb was told to use."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tepid
from tepid.cli import output


@dataclass(frozen=True)
class Machine:
    """The options that say where the sums are made."""

    threads: int | None = None
    engine: str = "threads"
    scheduler: str | None = None

    def check(self) -> None:
        """Refuse what does not go together."""
        if self.engine not in ("threads", "dask"):
            raise tepid.InputError(f"--engine must be threads or dask, got {self.engine}")
        if self.scheduler is not None and self.engine != "dask":
            raise tepid.InputError("--scheduler must go with --engine dask, got it alone")
        if self.threads is not None and self.engine == "dask":
            raise tepid.InputError("--threads must go without --engine dask, got both")

    @contextlib.contextmanager
    def working(self) -> Iterator["tepid.engines.Engine"]:
        """The engine, which shows its progress."""
        with output.working(self.threads) as here, self._elsewhere(here) as engine:
            yield engine

    @contextlib.contextmanager
    def _elsewhere(self, here: "tepid.Threads") -> Iterator[Any]:
        if self.engine == "threads":
            yield here
            return
        try:
            from tepid.engines.dask import connected  # noqa: PLC0415  # optional
        except ImportError:
            raise tepid.InputError(
                "--engine dask must have Dask installed, got none: pip install 'tepid[dask]'"
            ) from None
        with connected(self.scheduler, here.progress) as engine:
            yield engine
