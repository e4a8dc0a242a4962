"""`calibrate`: a model, a loader and other evidence in, the calibrated model out."""

import dataclasses
import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from tepid import validation
from tepid.engines import Threads
from tepid.errors import InputError, RowError
from tepid.posterior.calibration import fit_evidence
from tepid.posterior.evidence import Evidence
from tepid.sources import Source, attach, open_peer
from tepid.sources.beside import AnyPeer, PeerTable
from tepid.sources.spool import Spool
from tepid.temperature import warn_unreliable
from tepid.torch.distributed import AllReduced
from tepid.torch.loader import Labels, LoaderPart, Reader, StoredPart
from tepid.torch.module import Calibrated

_SHUFFLING = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


def calibrate(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    labels: Labels = False,
    labeled: Iterable[Any] | None = None,
    accuracy: Any = None,
    models: Iterable[nn.Module] = (),
    reference: Any = None,
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
    """The model with its temperature from a loader and all that is known beside it.

    The evidence is that of `tepid.calibrate`, and so is the temperature. With the verdict `keep` it
    is T = 1. The model runs over the loader two or more times, in evaluation mode and without
    gradients. Each batch is summarized on its device, and only the summaries are kept. Afterwards
    the modes, random states and gradients are as before. Every pass starts from the same random
    state, so a loader may shuffle, and may augment with the random numbers of PyTorch, Python or
    NumPy. Unreliable fits emit `CalibrationWarning`.

    The trap: a loader that still gives other rows in every pass, because its workers persist or
    because it is a stream. This is detected and raises. `spill=True` runs the model once and keeps
    the logits in a temporary file. Iterators are always read in this way.

    Args:
        model: A module. If it is wrapped for distributed training, the wrapper is not run.
        loader: Yields inputs: a tensor, a tuple or list that begins with one, or a mapping of
            keywords, from which labels are left out.
        labels: True if the second item of each batch, or its keyword `labels`, holds the labels; or
            a function that takes them from a batch. A label of -1 is unknown.
        labeled: A second loader, of labeled batches that are not among the first.
        accuracy: The model's accuracy, as in `tepid.calibrate`.
        models: Other modules of comparable strength, which run on the same batches.
        reference: A stronger module, which runs on the same batches; or an array in the order of a
            loader that does not shuffle: logits, NaN in rows without an answer, or classes as
            integers, -1 without an answer.
        source: A loader of an older labeled set whose distribution may differ.
        forward: `forward(model, batch)` returns the output, for other kinds of batches. For padded
            sequences let it return the logits of the tokens that count, (n, k).
        device: Where batches are moved to; by default where the model is. Other modules get batches
            where they are.
        amp: The dtype for `torch.autocast`, such as `torch.bfloat16`, or True for its default.
        class_axis: The axis of the classes: 1 for images (n, k, h, w), -1 for sequences (n, t, k).
        output: The name of the logits in the model's output, if it returns more than them.
        spill: Run the models once and keep the logits in a temporary file, in this folder if it is
            a path.
        process_group: Sum over its processes, each of which has its own part of the rows.
        engine: The number of threads, and a function for progress.

    >>> import torch
    >>> images = 3 * torch.randn(5000, 10, generator=torch.Generator().manual_seed(0))
    >>> loader = torch.utils.data.DataLoader(images, batch_size=500)
    >>> calibrated = calibrate(nn.Identity(), loader, accuracy=(0.6, 0.001))
    >>> float(calibrated.probabilities(images).amax(dim=1).mean())
    0.6
    """
    core = _unwrap(model, "model")
    place = _device_of(core) if device is None else torch.device(device)
    if engine is None:
        # One thread keeps a GPU as busy as many do. An older set is compared on the CPU.
        engine = Threads(1 if place.type != "cpu" and source is None else None)
    if process_group is not None:
        engine = AllReduced(engine.count, engine.progress, process_group)
    reader = Reader(core, place, forward, amp, class_axis, output, on_host=source is not None)
    others = _other_models(models, reference)
    peers = tuple(
        dataclasses.replace(reader, model=each, device=_device_of(each), on_host=True, name=name)
        for name, each in others.items()
    )
    # Custom batches are read alike everywhere.
    of_others = labels if callable(labels) else True
    modules = (core, *others.values())
    with _evaluation_mode(*modules), _fixed_random_state(loader, labeled, source) as rewind:
        rows = _open_loader(LoaderPart(reader, loader, rewind, labels, peers), spill=spill)
        if reference is not None and "reference" not in others:
            rows = attach(rows, {}, (_open_reference(reference, rows, loader, class_axis),))
        older = {"labeled": labeled, "source": source}
        opened = {
            name: _open_loader(LoaderPart(reader, given, rewind, of_others, name=name), spill=spill)
            for name, given in older.items()
            if given is not None
        }
        evidence = Evidence(
            rows,
            models=len(others) - ("reference" in others),
            reference=reference is not None,
            labeled=opened.get("labeled"),
            source=opened.get("source"),
        )
        calibration = fit_evidence(evidence, accuracy, engine)
    warn_unreliable(calibration)
    return Calibrated(model, calibration, class_axis=class_axis, output=output)


# Modules, loaders and arrays ----------------------------------------------------------------------


def _unwrap(model: Any, name: str) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise InputError(f"{name} must be a torch.nn.Module, got {type(model).__name__}")
    return model.module if isinstance(model, DistributedDataParallel) else model


def _other_models(models: Any, reference: Any) -> dict[str, nn.Module]:
    """The modules that run on the same batches, by what errors call them."""
    if isinstance(models, nn.Module) or not isinstance(models, Iterable):
        raise InputError(f"models must be a list of modules, got {type(models).__name__}")
    named = {f"model {number}": each for number, each in enumerate(models, 1)}
    if isinstance(reference, nn.Module):
        named["reference"] = reference
    return {name: _unwrap(each, name) for name, each in named.items()}


def _open_loader(part: LoaderPart, *, spill: bool | str | os.PathLike[str]) -> Source:
    """A source over a loader; `spill` and iterators are run once."""
    _check_loader(part.loader, "loader" if part.name == "logits" else part.name)
    wanted = {"labels": part.labels, "peers": part.peers}
    columns = frozenset(name for name, there in wanted.items() if there)
    if spill is False and not isinstance(part.loader, Iterator):
        return Source((part,), part.name, columns=columns)
    part = dataclasses.replace(part, reader=dataclasses.replace(part.reader, on_host=True))
    spool = Spool(None if isinstance(spill, bool) else spill, always=True)
    return Source((StoredPart(part, spool, columns, part.name),), part.name, columns=columns)


def _check_loader(loader: Any, name: str) -> None:
    if isinstance(loader, torch.Tensor):
        raise InputError(
            f"{name} must yield batches, got a tensor of shape {tuple(loader.shape)}; "
            "[tensor] is a loader of one batch"
        )
    if not isinstance(loader, Iterable) or isinstance(loader, (str, bytes)):
        raise InputError(f"{name} must yield batches, got {type(loader).__name__}")


def _open_reference(given: Any, rows: Source, loader: Any, class_axis: int | None) -> AnyPeer:
    """A reference's logits or classes, in the order of the loader."""
    if any(isinstance(sampler, _SHUFFLING) for sampler in _samplers_of(loader)):
        raise InputError(
            "reference must be a module for a loader that shuffles, or the loader must keep the "
            f"order, got {type(given).__name__}"
        )
    given = given.detach().cpu() if isinstance(given, torch.Tensor) else given
    array = np.asarray(validation.as_array(given, "reference"))
    if array.dtype.kind not in "iu" or (array.ndim > 1 and class_axis is None):
        logits = array[:, None] if array.ndim == 1 else array
        axis = class_axis if array.ndim > 1 else None
        return open_peer(logits, rows_of=rows, name="reference", class_axis=axis)
    answers = array.reshape(-1).astype(np.int64)
    if answers.min(initial=0) < -1:
        row = int(answers.argmin())
        must = "be classes from 0, or -1 without an answer"
        raise RowError("reference", must, str(answers[row]), row)
    return PeerTable("reference", answers, np.arange(len(answers)))


def _device_of(model: nn.Module) -> torch.device:
    """The device of the first parameter or buffer; the CPU if there is none."""
    held = next(chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if held is None else held.device


# State to restore ---------------------------------------------------------------------------------


@contextmanager
def _evaluation_mode(*models: nn.Module) -> Iterator[None]:
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
def _fixed_random_state(*loaders: Any) -> Iterator[Callable[[], None]]:
    """Yield a function that resets all random states to those of now; also reset them at the end.

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


def _samplers_of(loader: Any) -> tuple[Any, ...]:
    batches = getattr(loader, "batch_sampler", None)
    return getattr(loader, "sampler", None), getattr(batches, "sampler", None)


def _generators_of(loader: Any) -> list[torch.Generator]:
    found = [getattr(holder, "generator", None) for holder in (loader, *_samplers_of(loader))]
    return [generator for generator in found if isinstance(generator, torch.Generator)]
