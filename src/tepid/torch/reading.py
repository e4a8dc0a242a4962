"""A model over a loader as a source: batch by batch, on its device, as often as a method asks."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from tepid import arrays, shapes
from tepid.errors import InputError
from tepid.sources import Batch, Source
from tepid.sources.batch import mismatch
from tepid.sources.spool import Spool
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
    spool: Spool | None = None,
) -> Source:
    """A source that runs the model over the loader afresh for every pass, and begins it so.

    With a `spool` the model runs once, and later passes read its logits from a temporary file.
    """
    if isinstance(loader, torch.Tensor):
        raise InputError(
            f"loader must yield batches, got a tensor of shape {tuple(loader.shape)}; "
            "[tensor] is a loader of one batch"
        )
    part = LoaderPart(reader, loader, begin, labels)
    return Source((part,), columns=frozenset({"labels"} if labels else ()), spool=spool)


@dataclass(frozen=True, eq=False)
class LoaderPart:
    """The rows of a loader, as a model sees them; nothing is kept but a batch."""

    reader: Reader
    loader: Iterable[Any]
    begin: Callable[[], None]
    labels: batches.Labels
    name: str = "logits"
    rows: int | None = field(default=None, init=False)
    portable: bool = field(default=False, init=False)
    _before: list[_Print] = field(default_factory=list, init=False)

    def batches(self, size: int) -> Iterator[Batch]:
        """Run the model over the loader; raises if the rows are not those of the first pass."""
        self.begin()
        seen = _Print()
        for given in self.loader:
            z = self.reader.logits(given)
            y = batches.labels_of(given, self.labels) if self.labels else None
            first = seen.rows
            seen.add(z)
            if y is not None and len(y) != seen.rows - first:
                raise mismatch("labels", seen.rows - first, len(y))
            step = min(size, shapes.rows_per_block(z.shape[-1]))
            for rows in shapes.slices(z, step):
                stop = first + len(rows)
                own = None if y is None else y[: len(rows)]
                y = None if y is None else y[len(rows) :]
                yield Batch(rows, own, start=first, row=first)
                first = stop
        if self._before:
            seen.check(self._before[0])
        self._before[:] = self._before or [seen]

    def select(self, keep: frozenset[str]) -> "LoaderPart":
        """The same rows, with or without labels; the passes are still compared."""
        part = dataclasses.replace(self, labels=self.labels if "labels" in keep else False)
        part._before[:] = self._before  # noqa: SLF001  # its own class
        return part
