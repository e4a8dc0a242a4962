"""A model over a data loader as a source of logits, run again in every pass or once."""

import dataclasses
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from tepid import shapes, validation
from tepid.errors import InputError, RowError
from tepid.sources import Batch
from tepid.sources.batch import ItemCounter, mismatch, unit_of
from tepid.sources.beside import check_classes, peer_logits
from tepid.sources.multilabel import read_labels
from tepid.sources.spool import Spool
from tepid.torch.modules import find_logits
from tepid.validation import Array

# Whether batches have labels, or a function that takes them from a batch.
Labels: TypeAlias = Callable[[Any], Any] | bool
# Gets the output of a model from a batch.
Forward: TypeAlias = Callable[[Any, Any], Any]
LABEL_KEYS = ("labels", "label")
# What PyTorch's losses and Hugging Face's collators mark as unknown.
_IGNORED = -100
# Two passes over the same rows differ by rounding alone, which averages out.
_SAME_ROWS = 1e-4


# One batch ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """How to get logits from a model and a batch. `on_host` moves them to the CPU.

    `name` is what errors call the model's logits.
    """

    model: nn.Module
    device: torch.device
    forward: Forward | None
    amp: torch.dtype | bool | None
    class_axis: int | None
    output: str
    on_host: bool
    name: str = "logits"

    def logits(self, batch: Any) -> Any:
        """The logits of a batch, classes last: a new NumPy array, or a tensor off the CPU."""
        dtype = self.amp if isinstance(self.amp, torch.dtype) else None
        with torch.autocast(self.device.type, dtype=dtype) if self.amp else nullcontext():
            answer = run_model(self.model, batch, self.device, self.forward)
        found = find_logits(answer, self.output).detach()
        # Apple's devices have no float64, which the sums need; one batch is small.
        found = found.cpu() if self.on_host or found.device.type == "mps" else found
        z = shapes.class_last(validation.as_array(found), self.class_axis)
        z = z.reshape(-1, 1) if z.ndim == 1 else z
        # A copy: the model may reuse the memory before a thread has read it.
        return z if validation.is_foreign(z) else np.array(z)


def _move(batch: Any, device: torch.device) -> Any:
    """The batch on a device."""
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: _move(part, device) for name, part in batch.items()}
    if isinstance(batch, (tuple, list)):
        parts = [_move(part, device) for part in batch]
        return batch._make(parts) if hasattr(batch, "_make") else type(batch)(parts)
    return batch


def run_model(
    model: nn.Module, batch: Any, device: torch.device, forward: Forward | None = None
) -> Any:
    """The model's output: the first item of a sequence is its input, a mapping its keywords.

    Labels are neither moved nor passed on, since a label-free method must not see them, unless a
    caller's own `forward` takes the whole batch.
    """
    if forward is not None:
        return forward(model, _move(batch, device))
    if isinstance(batch, (tuple, list)):
        if not batch:
            raise InputError("loader must yield batches that hold an input, got an empty one")
        return run_model(model, batch[0], device)
    if isinstance(batch, Mapping):
        keywords = {name: part for name, part in batch.items() if name not in LABEL_KEYS}
        return model(**_move(keywords, device))
    return model(_move(batch, device))


def _find_labels(batch: Any, labels: Labels) -> Array:
    """The labels of a batch: its second item, its entry `labels`, or what `labels` returns."""
    if callable(labels):
        found = labels(batch)
    elif isinstance(batch, Mapping):
        found = next((batch[name] for name in LABEL_KEYS if name in batch), None)
    else:
        found = batch[1] if isinstance(batch, (tuple, list)) and len(batch) > 1 else None
    if found is None:
        raise InputError(
            "loader must yield (input, labels), or labels among the keywords, got neither; "
            "labels may also be a function that takes them from a batch"
        )
    values = np.asarray(torch.as_tensor(found).detach().cpu().numpy())
    signed = values.dtype.kind in "if"
    return np.where(values == _IGNORED, values.dtype.type(-1), values) if signed else values


# All batches --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LoaderPart:
    """The logits of a model over a loader; no more than one batch is kept.

    `peers` are other models, which run on the same batches. `begin` is called before each pass.
    With `multilabel` the labels are (n, K), as the logits. `most` is the number of batches to read.
    `first` is what `batches` saw in the first pass: the number of rows, the sum of their largest
    logits, and the sum of their magnitudes.
    """

    reader: Reader
    loader: Iterable[Any]
    begin: Callable[[], None]
    labels: Labels
    peers: tuple[Reader, ...] = ()
    first: list[tuple[int, float, float]] = field(default_factory=list)
    name: str = "logits"
    multilabel: bool = False
    most: int | None = None
    rows: int | None = field(default=None, init=False)
    portable: bool = field(default=False, init=False)

    def batches(self, size: int) -> Iterator[Batch]:
        """Run the models over the loader; raises if the rows are not those of the first pass."""
        self.begin()
        row, total, magnitude, items = 0, 0.0, 0.0, ItemCounter()
        for given in islice(self.loader, self.most):
            z = self.reader.logits(given)
            y = self._labels(given, z, row) if self.labels else None
            others = [_run_peer(peer, given, z, row) for peer in self.peers]
            foreign = validation.is_foreign(z)
            top = z.amax(-1).double() if foreign else z.max(axis=-1).astype(np.float64)
            total, magnitude = total + float(top.sum()), magnitude + float(abs(top).sum())
            begin, place = row, items.place(unit_of(z), row)
            for rows in shapes.slices(z, min(size, shapes.rows_per_batch(z.shape[-1]))):
                chosen = slice(row - begin, row - begin + len(rows))
                own = None if y is None else y[chosen]
                peers = tuple(other[chosen] for other in others)
                yield Batch(rows, own, start=row, peers=peers, name=self.name, row=row, **place)
                row += len(rows)
        self._compare(row, total, magnitude)

    def _labels(self, given: Any, z: Any, row: int) -> Array:
        """The labels of a batch, which begins at this row: (n,), or (n, K) if multi-label."""
        found = _find_labels(given, self.labels)
        count = math.prod(z.shape[:-1])
        if not self.multilabel:
            if found.size != count:
                each = found.size == count * z.shape[-1]
                hint = "; multilabel=True is for labels (n, K)" if each else ""
                raise mismatch("labels", count, f"{found.size}{hint}")
            return found.reshape(-1)
        k = z.shape[-1]
        if found.ndim > 2:
            found = shapes.class_last(found, self.reader.class_axis)
            found = found.reshape(-1, found.shape[-1])
        try:
            return read_labels(found, count, k)
        except RowError as error:
            raise error.moved(row) from None

    def _compare(self, rows: int, total: float, magnitude: float) -> None:
        """Raise if this pass saw other rows than the first."""
        if not self.first:
            self.first.append((rows, total, magnitude))
        once, before, scale = self.first[0]
        if rows != once:
            got = f"{once} rows and then {rows}"
        elif abs(total - before) > _SAME_ROWS * (scale + once):
            mean, then = before / max(once, 1), total / max(once, 1)
            got = f"a mean largest logit of {mean:.6g} and then {then:.6g}"
        else:
            return
        raise InputError(
            f"loader must give the same rows on every pass, got {got}; "
            "spill=True keeps those of the first"
        )

    def select(self, keep: frozenset[str]) -> "LoaderPart":
        """The same rows, with or without labels and peers; the passes are still compared."""
        return dataclasses.replace(
            self,
            labels=self.labels if "labels" in keep else False,
            peers=self.peers if "peers" in keep else (),
        )


def _run_peer(peer: Reader, batch: Any, logits: Any, row: int) -> Array:
    """Another model's logits (n, k) of the same batch, which begins at this row of the loader."""
    found = peer.logits(batch)
    found = found.reshape(-1, found.shape[-1])
    rows = math.prod(logits.shape[:-1])
    if len(found) != rows:
        raise mismatch(peer.name, rows, len(found))
    check_classes(peer.name, found, Batch(logits))
    try:
        return peer_logits(found, peer.name)
    except RowError as error:
        raise error.moved(row) from None


@dataclass(frozen=True, eq=False)
class StoredPart:
    """A loader that is run once: later passes read its rows from a temporary file.

    `columns` are those of `labels` and `peers` that are wanted.
    """

    part: LoaderPart
    spool: Spool
    columns: frozenset[str]
    name: str = "logits"
    portable: bool = field(default=False, init=False)

    @property
    def rows(self) -> int | None:
        """The number of rows, once all are stored."""
        return self.spool.rows

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the rows of the loader, or those in the file."""
        for batch in self.spool.through(self.part.batches(size), size, store=True):
            yield batch if "labels" in self.columns else batch._replace(labels=None)

    def select(self, keep: frozenset[str]) -> "StoredPart":
        """The same rows with fewer columns, from the same file."""
        return dataclasses.replace(self, columns=keep)


# Around a run -------------------------------------------------------------------------------------


def device_of(model: nn.Module) -> torch.device:
    """The device of the first parameter or buffer; the CPU if there is none."""
    held = next(chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if held is None else held.device


def without_wrappers(model: Any) -> Any:
    """The model inside the wrappers of distributed training and of `torch.compile`."""
    while True:
        if isinstance(model, (DataParallel, DistributedDataParallel)):
            model = model.module
        elif isinstance(model, nn.Module) and hasattr(model, "_orig_mod"):
            model = model._orig_mod  # noqa: SLF001  # of torch.compile, which has no other name
        else:
            return model


@contextmanager
def evaluation_mode(*models: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards every submodule has its own mode again.

    Not `inference_mode`: tensors that a model caches in it could not be used in training later.
    """
    modes = [(module, module.training) for model in models for module in model.modules()]
    for model in models:
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def fixed_random_state(*loaders: Any) -> Iterator[Callable[[], None]]:
    """Yield a function that restores the present random states; also restore them at the end.

    A loader that shuffles or augments by them then gives the same rows in every pass.
    """
    generators = [(g, g.get_state()) for loader in loaders for g in _generators_of(loader)]
    of_python, of_torch = random.getstate(), torch.get_rng_state()
    of_numpy = np.random.get_state()  # noqa: NPY002  # older augmentations draw from it
    of_cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None

    def rewind() -> None:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002  # the same
        torch.set_rng_state(of_torch)
        if of_cuda is not None:
            torch.cuda.set_rng_state_all(of_cuda)
        for generator, state in generators:
            generator.set_state(state)

    try:
        yield rewind
    finally:
        rewind()


def samplers_of(loader: Any) -> tuple[Any, ...]:
    """The sampler of a loader and that of its batches; None where there is none."""
    batches = getattr(loader, "batch_sampler", None)
    return getattr(loader, "sampler", None), getattr(batches, "sampler", None)


def _generators_of(loader: Any) -> list[torch.Generator]:
    found = [getattr(holder, "generator", None) for holder in (loader, *samplers_of(loader))]
    return [generator for generator in found if isinstance(generator, torch.Generator)]
