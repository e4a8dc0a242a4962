"""One loop that trains every network of the laboratory and ends with logits and labels on disk.

A run is a function of its recipe, its seed, its data and the number of processes. The order of the
rows, what is drawn to augment them and dropout follow from the seed and the epoch alone, so that no
state of a generator has to survive a crash. Checkpoints are written after every epoch.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tepid.errors import InputError
from tepid.lab import runs, schedule
from tepid.lab.data import Data
from tepid.lab.data.augmenting import augmented
from tepid.lab.finishing import finish
from tepid.lab.job import Job, job
from tepid.lab.parts import Parts, begun
from tepid.lab.processes import placed
from tepid.lab.recipe import Recipe

_TOLD = 20  # times in an epoch


@dataclass(frozen=True)
class Progress:
    """How far a training is: epochs with the part of the last, and the figures of that one."""

    done: float
    epochs: int
    loss: float
    accuracy: float
    seconds_left: float


def train(
    recipe: Recipe,
    data: Data,
    run: Path,
    seed: int = 0,
    *,
    download: bool = False,
    told: Callable[[Progress], None] = lambda _: None,
) -> dict[str, Any]:
    """Train to the end, write the run's folder and return the record that its `run.json` holds.

    A run that was interrupted goes on from its last epoch and ends with the same weights, to the
    last bit on a processor with as many threads; one that is done is not done again. Of several
    processes all but the first return an empty record.
    """
    run.mkdir(parents=True, exist_ok=True)
    with _deterministic(), placed() as place:
        whole = job(recipe, data, run, seed, place)
        record = runs.finished(run, whole.config) or _trained(whole, told, download=download)
        return record if place.leads else {}


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    """While this lasts, what PyTorch can do in a fixed order it does in a fixed order."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    try:
        with torch.backends.cudnn.flags(benchmark=False, deterministic=True):
            yield
    finally:
        torch.use_deterministic_algorithms(mode=before)


def _trained(whole: Job, told: Callable[[Progress], None], *, download: bool) -> dict[str, Any]:
    stored = runs.checkpoint(whole.run, whole.config, whole.place.device)
    parts = begun(whole, stored, download=download)
    history = stored["history"] if stored else []
    for epoch in range(len(history), whole.recipe.epochs):
        history.append(_epoch(whole, parts, epoch, told))
        if whole.place.leads:
            state = {"config": whole.config, "history": history, **parts.state()}
            runs.save(whole.run / runs.CHECKPOINT, state)
    return finish(whole, parts.network, history) if whole.place.leads else {}


def _epoch(
    whole: Job, parts: Parts, epoch: int, told: Callable[[Progress], None]
) -> dict[str, float]:
    """Pass once over the training set; the mean loss, the accuracy on the way and the seconds."""
    recipe, began = whole.recipe, time.monotonic()
    torch.manual_seed(_seed(whole.seed, epoch, 1 + whole.place.rank))
    parts.shared.train()
    batches = _batches(whole, epoch)
    sums = torch.zeros(3, dtype=torch.float64, device=whole.place.device)
    for number, rows in enumerate(batches):
        step = epoch * len(batches) + number
        for group in parts.optimiser.param_groups:
            group["lr"] = schedule.rate(recipe, step, recipe.epochs * len(batches))
        sums += _step(whole, parts, rows)
        done = (number + 1) / len(batches)
        if whole.place.leads and (number % -(-len(batches) // _TOLD) == 0 or done == 1):
            left = (time.monotonic() - began) * ((recipe.epochs - epoch) / done - 1)
            loss, right, seen = sums.tolist()
            told(Progress(epoch + done, recipe.epochs, loss / seen, right / seen, left))
    loss, right, seen = whole.place.total(sums).tolist()
    seconds = round(time.monotonic() - began, 1)
    return {"loss": loss / seen, "accuracy": right / seen, "seconds": seconds}


def _seed(*parts: int) -> int:
    """One seed of several numbers; zeros at the end make no difference to it."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _batches(whole: Job, epoch: int) -> list[Tensor]:
    """This process's rows of every batch of an epoch, in an order that the seed decides.

    Batch normalisation needs two rows: a last batch that has fewer is left out.
    """
    count = len(whole.data.train)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(_seed(whole.seed, epoch)))
    shares = (whole.place.own(batch) for batch in order.split(whole.recipe.batch))
    batches = [share.to(whole.place.device) for share in shares if len(share) > 1]
    if not batches:
        raise InputError(f"train_rows must be at least 2 for every process, got {count}")
    return batches


def _step(whole: Job, parts: Parts, rows: Tensor) -> Tensor:
    """Go one step down the gradient; the sums of loss and right answers, and the rows seen."""
    images = augmented(whole.normalised(whole.data.train.pixels[rows]), whole.recipe.augment)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = whole.data.train.labels[rows]
    kind = whole.place.device.type
    precision = torch.float16 if kind == "cuda" else torch.bfloat16
    with torch.autocast(kind, precision, enabled=whole.recipe.amp):
        logits = parts.shared(images)
        loss = nn.functional.cross_entropy(logits, labels)
    parts.optimiser.zero_grad(set_to_none=True)
    parts.scaler.scale(loss).backward()
    parts.scaler.step(parts.optimiser)
    parts.scaler.update()
    right = (logits.detach().argmax(1) == labels).sum()
    return torch.stack([loss.detach() * len(rows), right, torch.full_like(right, len(rows))])
