"""`calibrate`: a model and a loader in, the calibrated model out."""

import dataclasses
import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tepid.engines import Threads
from tepid.errors import InputError
from tepid.methods.evidence import Evidence
from tepid.sources import Source
from tepid.sources.spool import Spool
from tepid.temperature import warn_unreliable
from tepid.torch.distributed import AllReduced
from tepid.torch.loader import Labels, Reader, loader_source
from tepid.torch.module import Calibrated


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
    device: torch.device | str | None = None,
    amp: torch.dtype | bool | None = None,
    class_axis: int | None = None,
    output: str = "logits",
    spill: bool | str | os.PathLike[str] = False,
    process_group: Any = None,
    engine: Threads | None = None,
) -> Calibrated:
    """The model with the temperature of its logits over a loader, which needs no labels.

    The model runs over the loader about three times, in evaluation mode and without gradients.
    Each batch is summarized on its device, and only the summaries are kept. Afterwards the modes,
    random states and gradients are as before. Every pass starts from the same random state, so a
    loader may shuffle, and may augment with the random numbers of PyTorch, Python or NumPy.
    Unreliable fits emit `CalibrationWarning`.

    The trap: a loader that still gives other rows in every pass, because its workers persist or
    because it is a stream. This is detected and raises. `spill=True` runs the model once and keeps
    the logits in a temporary file. Iterators are always read in this way.

    Args:
        model: A module. If it is wrapped for distributed training, the wrapper is not run.
        loader: Yields inputs: a tensor, a tuple or list that begins with one, or a mapping of
            keywords, from which labels are left out.
        accuracy: The known accuracy, as in `tepid.match_accuracy`.
        guarded: Keep T = 1 unless another T is expected to help, as in `tepid.guarded`.
        deviations: As in `tepid.uts`.
        debias: As in `tepid.uts`; for fewer than 1000 rows.
        labels: Temperature scaling on labels: True for the second item of each batch, or its
            keyword `labels`; or a function that takes them from a batch.
        few: A second loader, of a few labeled batches, as in `tepid.from_few_labels`.
        source: A second loader, of an older labeled set, as in `tepid.from_source`.
        forward: `forward(model, batch)` returns the output, for other kinds of batches. For padded
            sequences let it return the logits of the tokens that count, (n, k).
        device: Where batches are moved to; by default where the model is.
        amp: The dtype for `torch.autocast`, such as `torch.bfloat16`, or True for its default.
        class_axis: The axis of the classes: 1 for images (n, k, h, w), -1 for sequences (n, t, k).
        output: The name of the logits in the model's output, if it returns more than them.
        spill: Run the model once and keep the logits in a temporary file, in this folder if it is
            a path.
        process_group: Sum over its processes, each of which has its own part of the rows.
        engine: The number of threads, and a function for progress.

    >>> import torch
    >>> images = 3 * torch.randn(5000, 10, generator=torch.Generator().manual_seed(0))
    >>> loader = torch.utils.data.DataLoader(images, batch_size=500)
    >>> calibrated = calibrate(nn.Identity(), loader, accuracy=0.6)
    >>> float(calibrated.probabilities(images).amax(dim=1).mean())
    0.6
    """
    _check_types(model, loader)
    core = model.module if isinstance(model, DistributedDataParallel) else model
    reader = Reader(core, forward, device, amp, class_axis, output, on_host=source is not None)
    with _evaluation_mode(core), _fixed_random_state(loader, few, source) as rewind:

        def open_loader(rows: Iterable[Any], labels: Labels) -> Source:
            return _open(reader, rows, rewind, labels=labels, spill=spill)

        evidence = Evidence(
            labeled=labels is not False,
            accuracy=accuracy,
            few=None if few is None else open_loader(few, labels=True),
            source=None if source is None else open_loader(source, labels=True),
            guarded=guarded,
            deviations=deviations,
            debias=debias,
        )
        evidence.check()
        threads = _choose_engine(engine, process_group, reader)
        calibration = evidence.fit(open_loader(loader, labels), threads)
    warn_unreliable(calibration)
    return Calibrated(model, calibration, class_axis=class_axis, output=output)


def _check_types(model: Any, loader: Any) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(loader, Iterable) or isinstance(loader, (str, bytes)):
        raise InputError(f"loader must yield batches, got {type(loader).__name__}")


def _open(
    reader: Reader,
    loader: Iterable[Any],
    rewind: Callable[[], None],
    *,
    labels: Labels,
    spill: bool | str | os.PathLike[str],
) -> Source:
    if spill is False and not isinstance(loader, Iterator):
        return loader_source(reader, loader, rewind, labels=labels)
    spool = Spool(None if isinstance(spill, bool) else spill, always=True)
    reader = dataclasses.replace(reader, on_host=True)
    return loader_source(reader, loader, rewind, labels=labels, spool=spool)


def _choose_engine(engine: Threads | None, group: Any, reader: Reader) -> Threads:
    # One thread keeps a GPU as busy as many do.
    on_device = reader.target.type != "cpu" and not reader.on_host
    threads = engine or Threads(1 if on_device else None)
    return threads if group is None else AllReduced(threads.count, threads.progress, group)


# State to restore ---------------------------------------------------------------------------------


@contextmanager
def _evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards every submodule has its own mode again.

    Not `inference_mode`: tensors that a model caches in it could not be used in training later.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def _fixed_random_state(*loaders: Any) -> Iterator[Callable[[], None]]:
    """Yield a function that resets all random states to those of now; also reset them at the end.

    A loader that shuffles or augments by them then gives the same rows in every pass.
    """
    rewind = _save_random_states(loaders)
    try:
        yield rewind
    finally:
        rewind()


def _save_random_states(loaders: tuple[Any, ...]) -> Callable[[], None]:
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

    return rewind


def _generators_of(loader: Any) -> list[torch.Generator]:
    holders = [loader, getattr(loader, "sampler", None)]
    holders.append(getattr(getattr(loader, "batch_sampler", None), "sampler", None))
    found = {id(g): g for g in (getattr(h, "generator", None) for h in holders)}
    return [g for g in found.values() if isinstance(g, torch.Generator)]
