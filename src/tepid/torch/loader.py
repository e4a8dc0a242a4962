"""A model over a data loader as a source of logits, run again in every pass."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from tepid import shapes, validation
from tepid.errors import InputError
from tepid.sources import Batch, Source
from tepid.sources.batch import mismatch
from tepid.sources.spool import Spool
from tepid.torch.module import find_logits
from tepid.validation import Array

# Whether batches have labels, or a function that takes them from a batch.
Labels: TypeAlias = Callable[[Any], Any] | bool
_LABEL_KEYS = ("labels", "label")
# Two passes over the same rows differ by rounding alone, which averages out.
_SAME_ROWS = 1e-4


@dataclass(frozen=True)
class Reader:
    """How to get logits from a model and a batch. `on_host` moves them to the CPU."""

    model: nn.Module
    forward: Callable[[Any, Any], Any] | None = None
    device: torch.device | str | None = None
    amp: torch.dtype | bool | None = None
    class_axis: int | None = None
    output: str = "logits"
    on_host: bool = False

    @property
    def target(self) -> torch.device:
        """The device that batches are moved to."""
        return _device_of(self.model) if self.device is None else torch.device(self.device)

    def logits(self, batch: Any) -> Any:
        """The logits of a batch, classes last: a new NumPy array, or a tensor off the CPU."""
        with self._autocast():
            if self.forward is None:
                answer = _run_model(self.model, batch, self.target)
            else:
                answer = self.forward(self.model, _move(batch, self.target))
        found = find_logits(answer, self.output).detach()
        # Apple's devices have no float64, which the sums need; one batch is small.
        found = found.cpu() if self.on_host or found.device.type == "mps" else found
        z = shapes.class_last(validation.as_array(found), self.class_axis)
        z = z.reshape(-1, 1) if z.ndim == 1 else z
        # A copy: the model may reuse the memory before a thread has read it.
        return z if validation.is_foreign(z) else np.array(z)

    def _autocast(self) -> AbstractContextManager[object]:
        if self.amp is None or self.amp is False:
            return nullcontext()
        context: AbstractContextManager[object] = torch.autocast(
            self.target.type, dtype=None if self.amp is True else self.amp
        )
        return context


def _device_of(model: nn.Module) -> torch.device:
    """The device of the first parameter or buffer; the CPU if there is none."""
    for held in (*model.parameters(), *model.buffers()):
        return held.device
    return torch.device("cpu")


# Batches of a loader ------------------------------------------------------------------------------


def _move(batch: Any, device: torch.device) -> Any:
    """A batch with everything in it that can be moved on a device."""
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: _move(part, device) for name, part in batch.items()}
    if isinstance(batch, (tuple, list)):
        parts = [_move(part, device) for part in batch]
        return batch._make(parts) if hasattr(batch, "_make") else type(batch)(parts)
    return batch


def _run_model(model: nn.Module, batch: Any, device: torch.device) -> Any:
    """The model's output: the first item of a sequence is its input, a mapping its keywords.

    Labels are neither moved nor passed on, since a label-free method must not see them.
    """
    if isinstance(batch, (tuple, list)):
        if not batch:
            raise InputError("loader must yield batches that hold an input, got an empty one")
        return _run_model(model, batch[0], device)
    if isinstance(batch, Mapping):
        keywords = {name: part for name, part in batch.items() if name not in _LABEL_KEYS}
        return model(**_move(keywords, device))
    return model(_move(batch, device))


def _read_labels(batch: Any, labels: Labels) -> Array:
    """The labels of a batch as a flat array: its second item, its entry `labels`, or as told."""
    if callable(labels):
        found = labels(batch)
    elif isinstance(batch, Mapping):
        found = next((batch[name] for name in _LABEL_KEYS if name in batch), None)
    else:
        found = batch[1] if isinstance(batch, (tuple, list)) and len(batch) > 1 else None
    if found is None:
        raise InputError(
            "loader must yield (input, labels), or labels among the keywords, got neither; "
            "labels may also be a function that takes them from a batch"
        )
    return np.asarray(torch.as_tensor(found).detach().cpu().reshape(-1).numpy())


# Source -------------------------------------------------------------------------------------------


def loader_source(
    reader: Reader,
    loader: Iterable[Any],
    begin: Callable[[], None],
    *,
    labels: Labels = False,
    spool: Spool | None = None,
) -> Source:
    """A source that calls `begin` and runs the model over the loader in every pass.

    With a `spool` the model runs once, and later passes read its logits from a temporary file.
    """
    if isinstance(loader, torch.Tensor):
        raise InputError(
            f"loader must yield batches, got a tensor of shape {tuple(loader.shape)}; "
            "[tensor] is a loader of one batch"
        )
    part = LoaderPart(reader, loader, begin, labels)
    return Source((part,), columns=frozenset({"labels"} if labels else ()), spool=spool)


@dataclass
class _Fingerprint:
    """The number of rows of a pass, the sum of their largest logits, and that of its magnitude."""

    rows: int = 0
    total: float = 0.0
    size: float = 0.0

    def add(self, z: Any) -> None:
        """Include a batch."""
        foreign = validation.is_foreign(z)
        top = z.amax(-1).double() if foreign else z.max(axis=-1).astype(np.float64)
        self.rows += math.prod(z.shape[:-1])
        self.total += float(top.sum())
        self.size += float(abs(top).sum())

    def check(self, first: "_Fingerprint") -> None:
        """Raise if the rows are not those of the first pass."""
        if self.rows != first.rows:
            got = f"{first.rows} rows and then {self.rows}"
        elif abs(self.total - first.total) > _SAME_ROWS * (first.size + first.rows):
            mean, then = (p.total / max(p.rows, 1) for p in (first, self))
            got = f"a mean largest logit of {mean:.6g} and then {then:.6g}"
        else:
            return
        raise InputError(
            f"loader must give the same rows on every pass, got {got}; "
            "spill=True keeps those of the first"
        )


@dataclass(frozen=True, eq=False)
class LoaderPart:
    """The logits of a model over a loader; no more than one batch is kept."""

    reader: Reader
    loader: Iterable[Any]
    begin: Callable[[], None]
    labels: Labels
    name: str = "logits"
    rows: int | None = field(default=None, init=False)
    portable: bool = field(default=False, init=False)
    _first: list[_Fingerprint] = field(default_factory=list, init=False)

    def batches(self, size: int) -> Iterator[Batch]:
        """Run the model over the loader; raises if the rows are not those of the first pass."""
        self.begin()
        seen = _Fingerprint()
        for given in self.loader:
            z = self.reader.logits(given)
            y = _read_labels(given, self.labels) if self.labels else None
            start = seen.rows
            seen.add(z)
            if y is not None and len(y) != seen.rows - start:
                raise mismatch("labels", seen.rows - start, len(y))
            step = min(size, shapes.rows_per_batch(z.shape[-1]))
            for rows in shapes.slices(z, step):
                own = None if y is None else y[: len(rows)]
                y = None if y is None else y[len(rows) :]
                yield Batch(rows, own, start=start, row=start)
                start += len(rows)
        if self._first:
            seen.check(self._first[0])
        self._first[:] = self._first or [seen]

    def select(self, keep: frozenset[str]) -> "LoaderPart":
        """The same rows, with or without labels; the passes are still compared."""
        part = dataclasses.replace(self, labels=self.labels if "labels" in keep else False)
        part._first[:] = self._first  # noqa: SLF001  # its own class
        return part
