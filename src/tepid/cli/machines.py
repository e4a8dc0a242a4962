"""The engine that a verb was told to use."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tepid
from tepid.cli import output


@dataclass(frozen=True)
class Machine:
    """The options that say where the sums are made, and whether they are kept on the way."""

    threads: int | None = None
    engine: str = "threads"
    scheduler: str | None = None
    checkpoint: Path | None = None

    def check(self) -> None:
        """Refuse what does not go together."""
        if self.engine not in ("threads", "dask"):
            raise tepid.InputError(f"--engine must be threads or dask, got {self.engine}")
        if self.scheduler is not None and self.engine != "dask":
            raise tepid.InputError("--scheduler must go with --engine dask, got it alone")
        if self.threads is not None and self.engine == "dask":
            raise tepid.InputError("--threads must go without --engine dask, got both")
        if (
            self.checkpoint is not None
            and self.checkpoint.exists()
            and not self.checkpoint.is_dir()
        ):
            raise tepid.InputError(f"--checkpoint must be a folder, got {self.checkpoint}")

    def files(self, logits: list[str]) -> str | list[str]:
        """The logits as they are to be opened: where files are summed apart, one is a shard too.

        A `.npy` file is cut into ranges by itself.
        """
        alone = len(logits) == 1 and (
            logits[0].lower().endswith(".npy")
            or (self.engine == "threads" and self.checkpoint is None)
        )
        return logits[0] if alone else logits

    @contextlib.contextmanager
    def working(self, about: str = "") -> Iterator["tepid.engines.Engine"]:
        """The engine, which shows how far it is; `about` tells this fit from others."""
        with output.working(self.threads) as here, self._elsewhere(here) as engine:
            if self.checkpoint is None:
                yield engine
                return
            from tepid.engines.checkpoint import Checkpointed  # noqa: PLC0415  # only when asked

            kept = Checkpointed(engine, self.checkpoint, about)
            yield kept
            if kept.found:
                output.note(f"{kept.found} of {kept.asked} sums over files were there already.")

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
