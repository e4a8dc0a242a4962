"""A model over a loader as a source: batch by batch, on its device, as often as a method asks."""

import dataclasses
import itertools
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tepid import arrays, shapes
from tepid.errors import InputError
from tepid.sources import Source, open_source, write_blocks
from tepid.torch import batches, outputs

# Two passes over the same rows differ by rounding alone, which averages out; other rows do not.
_SAME = 1e-4


@dataclass(frozen=True)
class Reader:
    """How logits come out of a model and a batch."""

    model: Any
    forward: Callable[[Any, Any], Any] | None = None
    device: Any = None
    amp: Any = None
    class_axis: int | None = None
    output: str = "logits"
    on_host: bool = False

    @property
    def where(self) -> Any:
        """The device that batches go to."""
        return device_of(self.model) if self.device is None else torch.device(self.device)

    def logits(self, batch: Any) -> Any:
        """The logits of a batch, classes last, in memory of their own or on the model's device."""
        with _autocast(self.amp, self.where):
            if self.forward is None:
                answer = batches.answered(self.model, batch, self.where)
            else:
                answer = self.forward(self.model, batches.moved(batch, self.where))
        found = outputs.logits_in(answer, self.output).detach()
        # Apple's devices know no float64, which the sums are in; one batch is small.
        found = found.cpu() if self.on_host or found.device.type == "mps" else found
        z = shapes.class_last(arrays.as_array(found), self.class_axis)
        z = z.reshape(-1, 1) if z.ndim == 1 else z
        # The model may write into the same memory again before a thread has read it.
        return z if arrays.is_foreign(z) else np.array(z)


def device_of(model: Any) -> Any:
    """Where a model's first parameter or buffer is; the processor if it has none."""
    for held in (*model.parameters(), *model.buffers()):
        return held.device
    return torch.device("cpu")


def _autocast(amp: Any, device: Any) -> Any:
    if amp is None or amp is False:
        return nullcontext()
    return torch.autocast(device.type, dtype=None if amp is True else amp)


@dataclass
class _Column:
    """The labels of the batches read so far in this pass."""

    values: Any = field(default_factory=lambda: np.empty(0, np.int64))
    count: int = 0

    def append(self, part: Any) -> None:
        """Add a batch's; the memory doubles, so that a batch is copied twice at most."""
        end = self.count + len(part)
        if end > len(self.values):
            self.values = np.resize(self.values.astype(part.dtype), max(end, 2 * self.count))
        self.values[self.count : end] = part
        self.count = end

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: slice) -> Any:
        return self.values[: self.count][rows]


@dataclass
class _Print:
    """How many rows a pass had, and the sum of their largest logits."""

    rows: int = 0
    total: float = 0.0
    size: float = 0.0

    def add(self, z: Any) -> None:
        """Count a batch in."""
        foreign = arrays.is_foreign(z)
        top = z.amax(-1).double() if foreign else z.max(axis=-1).astype(np.float64)
        self.rows += math.prod(z.shape[:-1])
        self.total += float(top.sum())
        self.size += float(abs(top).sum())

    def check(self, first: "_Print") -> None:
        """Refuse other rows than those of the first pass."""
        if self.rows != first.rows:
            got = f"{first.rows} rows and then {self.rows}"
        elif abs(self.total - first.total) > _SAME * (first.size + first.rows):
            mean, then = (p.total / max(p.rows, 1) for p in (first, self))
            got = f"a mean largest logit of {mean:.6g} and then {then:.6g}"
        else:
            return
        raise InputError(
            f"loader must give the same rows on every pass, got {got}; "
            "spill=True keeps those of the first"
        )


def loader_source(
    reader: Reader,
    loader: Iterable[Any],
    begin: Callable[[], None],
    *,
    labels: batches.Labels = False,
) -> Source:
    """A source that runs the model over the loader afresh for every pass, and begins it so.

    Nothing is kept but a batch and, where labels are asked for, one of them for each row.
    """
    if isinstance(loader, torch.Tensor):
        raise InputError(
            f"loader must yield batches, got a tensor of shape {tuple(loader.shape)}; "
            "[tensor] is a loader of one batch"
        )
    column = _Column()
    before: list[_Print] = []

    def read(rows: int) -> Iterator[Any]:
        begin()
        column.count = 0
        seen = _Print()
        for batch in loader:
            z = reader.logits(batch)
            if labels:
                column.append(batches.labels_of(batch, labels))
            seen.add(z)
            yield from shapes.slices(z, min(rows, shapes.rows_per_block(z.shape[-1])))
        if before:
            seen.check(before[0])
        before[:] = before or [seen]

    return Source(read, labels=column if labels else None)


@contextmanager
def spilled(source: Source, folder: str | os.PathLike[str] | None = None) -> Iterator[Source]:
    """The same rows read once, their logits in a temporary file that goes at the end."""
    with tempfile.TemporaryDirectory(prefix="tepid-", dir=folder) as temporary:
        path = Path(temporary) / "logits.npy"
        kept: list[Source] = []

        def read(rows: int) -> Iterator[Any]:
            # At the first pass and not before: a failure is then one of that pass.
            kept[:] = kept or [_written(path, source)]
            yield from kept[0].read(rows)

        yield dataclasses.replace(source, read=read)


def _written(path: Path, source: Source) -> Source:
    blocks = (_host(z) for z in source.logits(1 << 16))
    first = next(blocks, None)
    if first is None:
        return source
    write_blocks(path, itertools.chain([first], blocks))
    return open_source(path)


def _host(z: Any) -> Any:
    return arrays.as_array(z.cpu() if arrays.is_foreign(z) else z)
