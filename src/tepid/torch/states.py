"""A model and a loader used and left as they were: modes, gradients and random numbers."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode without gradients; every submodule gets its own mode back, also on error.

    Not `inference_mode`: what a model caches in it, such as positions, could never be trained with.
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
def same_randomness(*loaders: Any) -> Iterator[Callable[[], None]]:
    """A function that sets every random state back to what it is now, as does the end.

    A loader that shuffles or augments by them then gives the same rows on every pass.
    """
    again = _restorer(loaders)
    try:
        yield again
    finally:
        again()


def _restorer(loaders: tuple[Any, ...]) -> Callable[[], None]:
    generators = [(g, g.get_state()) for loader in loaders for g in _generators(loader)]
    python, processor = random.getstate(), torch.get_rng_state()
    numpy = np.random.get_state()  # noqa: NPY002  # what old augmentations draw from
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None

    def again() -> None:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002  # the same
        torch.set_rng_state(processor)
        if devices is not None:
            torch.cuda.set_rng_state_all(devices)
        for generator, state in generators:
            generator.set_state(state)

    return again


def _generators(loader: Any) -> list[Any]:
    holders = [loader, getattr(loader, "sampler", None)]
    holders.append(getattr(getattr(loader, "batch_sampler", None), "sampler", None))
    found = {id(g): g for g in (getattr(h, "generator", None) for h in holders)}
    return [g for g in found.values() if isinstance(g, torch.Generator)]
