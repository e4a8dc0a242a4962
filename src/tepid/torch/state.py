"""A model around a run: its device, its wrappers, and what is restored afterwards."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel


def device_of(model: nn.Module) -> torch.device:
    """The device of the first parameter or buffer; the CPU if there is none."""
    held = next(chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if held is None else held.device


def without_wrappers(model: Any) -> Any:
    """The model inside those of distributed training and of `torch.compile`."""
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


def samplers_of(loader: Any) -> tuple[Any, ...]:
    """The sampler of a loader and that of its batches; None where there is none."""
    batches = getattr(loader, "batch_sampler", None)
    return getattr(loader, "sampler", None), getattr(batches, "sampler", None)


def _generators_of(loader: Any) -> list[torch.Generator]:
    found = [getattr(holder, "generator", None) for holder in (loader, *samplers_of(loader))]
    return [generator for generator in found if isinstance(generator, torch.Generator)]
