"""A model and an unlabelled loader in, the calibrated model out."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tepid.engines import Threads
from tepid.errors import InputError
from tepid.sources import Source
from tepid.sources.spool import Spool
from tepid.torch import speaking, states
from tepid.torch.batches import Labels
from tepid.torch.calibrated import Calibrated
from tepid.torch.distributed import AllReduced
from tepid.torch.evidence import Evidence
from tepid.torch.reading import Reader, loader_source


def calibrate(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    accuracy: Any = None,
    guarded: bool = False,
    deviations: float = 1.0,
    debias: bool = False,
    labels: Labels = False,
    few: Iterable[Any] | None = None,
    source: Iterable[Any] | None = None,
    forward: Callable[[Any, Any], Any] | None = None,
    device: Any = None,
    amp: Any = None,
    class_axis: int | None = None,
    output: str = "logits",
    spill: bool | str | os.PathLike[str] = False,
    process_group: Any = None,
    engine: Threads | None = None,
) -> Calibrated:
    """The model with the temperature of its logits over a loader, which needs no labels.

    The model runs over the loader some three times, in evaluation mode and without gradients, and
    each batch is summarised where it is; no more than that is kept. Modes, random numbers and
    gradients are afterwards as before. Every pass starts from the same random state, so that a
    loader may shuffle, and may augment with PyTorch's, Python's or NumPy's own random numbers.

    The trap: a loader that gives other rows on every pass all the same, from workers that persist
    or from a stream. It is refused by name; `spill=True` runs the model once and keeps the logits
    in a temporary file. An iterator is always read so.

    Args:
        model: A module; one wrapped for distributed training is run without its wrapper.
        loader: Yields inputs: a tensor, a tuple or list that begins with one, or a mapping of
            keywords, from which labels are left out.
        accuracy: The known accuracy, as in `tepid.from_accuracy`.
        guarded: Abstain, with T = 1, unless it can help, as `tepid.guarded`.
        deviations: As in `tepid.from_logits`.
        debias: As in `tepid.from_logits`; for fewer than 1000 rows.
        labels: Temperature scaling on labels: True for the second of each batch, or its keyword
            `labels`; or a function that takes them from a batch.
        few: A second loader, of a few labelled batches, as in `tepid.from_few_labels`.
        source: A second loader, of an older labelled set, as in `tepid.from_source`.
        forward: `forward(model, batch)` gives the output where the above does not hold. For
            padded sequences let it return the logits of the tokens that count, (n, k).
        device: Where batches go; by default where the model is.
        amp: The type for `torch.autocast`, such as `torch.bfloat16`, or True for its default.
        class_axis: Where the classes are: 1 for images (n, k, h, w), -1 for sequences (n, t, k).
        output: The name of the logits in the model's output, where it returns more than those.
        spill: Run the model once and keep the logits in a temporary file; a path says where.
        process_group: Sum over its processes, each of which has its own part of the rows.
        engine: How many threads, and whom to tell of progress.

    >>> import torch
    >>> images = 3 * torch.randn(5000, 10, generator=torch.Generator().manual_seed(0))
    >>> loader = torch.utils.data.DataLoader(images, batch_size=500)
    >>> calibrated = calibrate(nn.Identity(), loader, accuracy=0.6)
    >>> float(calibrated.probabilities(images).amax(dim=1).mean())
    0.6
    """
    evidence = Evidence(accuracy, guarded, deviations, debias, labels, few, source)
    evidence.check()
    _check(model, loader)
    core = model.module if isinstance(model, DistributedDataParallel) else model
    reader = Reader(core, forward, device, amp, class_axis, output, on_host=source is not None)
    other = source if few is None else few
    with ExitStack() as stack:
        stack.enter_context(states.evaluating(core))
        begin = stack.enter_context(states.same_randomness(loader, other))
        rows = _rows(reader, loader, begin, labels=labels, spill=spill)
        past = None
        if other is not None:
            past = _rows(reader, other, begin, labels=True, spill=spill)
        threads = _engine(engine, process_group, reader)
        calibration = evidence.temperature(rows, past, threads)
    speaking.doubts(calibration)
    return Calibrated(model, calibration, class_axis=class_axis, output=output)


def _check(model: Any, loader: Any) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(loader, Iterable) or isinstance(loader, (str, bytes)):
        raise InputError(f"loader must yield batches, got {type(loader).__name__}")


def _rows(
    reader: Reader,
    loader: Any,
    begin: Callable[[], None],
    *,
    labels: Labels,
    spill: bool | str | os.PathLike[str],
) -> Source:
    if spill is False and not isinstance(loader, Iterator):
        return loader_source(reader, loader, begin, labels=labels)
    spool = Spool(None if isinstance(spill, bool) else spill, always=True)
    here = dataclasses.replace(reader, on_host=True)
    return loader_source(here, loader, begin, labels=labels, spool=spool)


def _engine(engine: Threads | None, group: Any, reader: Reader) -> Threads:
    # One thread feeds a GPU as well as many.
    elsewhere = reader.where.type != "cpu" and not reader.on_host
    plain = engine or Threads(1 if elsewhere else None)
    return plain if group is None else AllReduced(plain.count, plain.progress, group)
