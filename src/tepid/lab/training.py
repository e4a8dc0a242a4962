"""Train any network of the laboratory and write its test logits and labels to disk.

A run is a function of its recipe, its seed, its data and the number of processes. The order of the
rows, the augmentation and dropout follow from the seed and the epoch alone, so that no state of a
generator has to survive a crash. A checkpoint is written after every epoch. Under `torchrun`,
several processes share each batch, each on its own device.

The folder of a run holds logits and labels, weights, and a record of how they came about.
`run.json` is written last, so that a folder which has it is finished.
"""

import contextlib
import dataclasses
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

try:
    import torch
    import torch.distributed as dist
    from torch import Tensor, nn
except ImportError:
    raise ImportError("tepid.lab.training needs PyTorch: pip install 'tepid[lab]'") from None

from tepid.errors import InputError
from tepid.lab import networks
from tepid.lab.datasets import Data, augment, normalization
from tepid.lab.recipe import Recipe
from tepid.lab.sets import RUN, WEIGHTS, read_run
from tepid.store import atomic_write

_CHECKPOINT = "checkpoint.pt"
_REPORTS = 20  # of progress, per epoch


@dataclass(frozen=True)
class Progress:
    """Epochs done, with the fraction of the last, and its loss and accuracy so far."""

    done: float
    epochs: int
    loss: float
    accuracy: float
    seconds_left: float


@dataclass(frozen=True)
class Process:
    """The rank of this process, the number of processes, and its device."""

    rank: int
    processes: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def own(self, rows: Tensor) -> Tensor:
        """The rows of a batch for this process; equal numbers, so a remainder is left out."""
        return rows[: len(rows) // self.processes * self.processes][self.rank :: self.processes]

    def total(self, values: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.processes > 1:
            dist.all_reduce(values)
        return values

    def shared(self, network: nn.Module) -> nn.Module:
        """The network whose gradients are the mean over all processes."""
        if self.processes == 1:
            return network
        devices = [self.device] if self.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(network, device_ids=devices)


@dataclass(frozen=True)
class Job:
    """The constants of a training: recipe, data on a device, folder, seed and normalization."""

    recipe: Recipe
    data: Data
    run: Path
    seed: int
    process: Process
    mean: Tensor
    deviation: Tensor

    @property
    def config(self) -> dict[str, Any]:
        """All that decides the weights, as in JSON: two runs of equal config are the same run."""
        recipe = json.loads(json.dumps(dataclasses.asdict(self.recipe)))
        rows = {"train": len(self.data.train), "test": len(self.data.test)}
        return {**recipe, "seed": self.seed, "processes": self.process.processes, "rows": rows}


@dataclass(frozen=True)
class State:
    """The variables of a training: network, the same shared by processes, optimizer and scaler."""

    network: nn.Module
    shared: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler

    def parts(self) -> dict[str, Any]:
        """The parts that a checkpoint holds, each with a `state_dict`."""
        return {"network": self.network, "optimizer": self.optimizer, "scaler": self.scaler}


def train(
    recipe: Recipe,
    data: Data,
    run: Path,
    seed: int = 0,
    *,
    download: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> dict[str, Any]:
    """Train, write the run's folder and return the record in its `run.json`.

    An interrupted run resumes at its last epoch and ends with the same weights, bit for bit on a
    CPU with as many threads; a finished run is not trained again. `progress` is called several
    times per epoch. Of several processes, all but the first return an empty record.
    """
    run.mkdir(parents=True, exist_ok=True)
    with _deterministic(), _current_process() as process:
        moments = normalization(recipe.normalize, data.train.pixels)
        mean, deviation = (part.to(process.device) for part in moments)
        data = dataclasses.replace(
            data, train=data.train.to(process.device), test=data.test.to(process.device)
        )
        job = Job(recipe, data, run, seed, process, mean, deviation)
        record = _finished(run, job.config) or _train(job, progress, download=download)
        return record if process.leads else {}


def _train(job: Job, progress: Callable[[Progress], None], *, download: bool) -> dict[str, Any]:
    stored = _checkpoint(job.run, job.config, job.process.device)
    state = _start_or_resume(job, stored, download=download)
    history = stored["history"] if stored else []
    for epoch in range(len(history), job.recipe.epochs):
        history.append(_train_epoch(job, state, epoch, progress))
        if job.process.leads:
            parts = {name: part.state_dict() for name, part in state.parts().items()}
            _save(job.run / _CHECKPOINT, {"config": job.config, "history": history, **parts})
    return _write_results(job, state.network, history) if job.process.leads else {}


def _train_epoch(
    job: Job, state: State, epoch: int, progress: Callable[[Progress], None]
) -> dict[str, float]:
    """One pass over the training set: its mean loss, training accuracy and seconds."""
    recipe, began = job.recipe, time.monotonic()
    torch.manual_seed(_seed(job.seed, epoch, 1 + job.process.rank))
    state.shared.train()
    batches = _batches(job, epoch)
    sums = torch.zeros(3, dtype=torch.float64, device=job.process.device)
    for number, rows in enumerate(batches):
        step = epoch * len(batches) + number
        for group in state.optimizer.param_groups:
            group["lr"] = recipe.learning_rate(step, recipe.epochs * len(batches))
        sums += _step(job, state, rows)
        done = (number + 1) / len(batches)
        if job.process.leads and (number % -(-len(batches) // _REPORTS) == 0 or done == 1):
            left = (time.monotonic() - began) * ((recipe.epochs - epoch) / done - 1)
            loss, right, seen = sums.tolist()
            progress(Progress(epoch + done, recipe.epochs, loss / seen, right / seen, left))
    loss, right, seen = job.process.total(sums).tolist()
    seconds = round(time.monotonic() - began, 1)
    return {"loss": loss / seen, "accuracy": right / seen, "seconds": seconds}


def _seed(*parts: int) -> int:
    """One seed from several numbers; trailing zeros do not change it."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _batches(job: Job, epoch: int) -> list[Tensor]:
    """This process's rows of every batch of an epoch, shuffled by the seed.

    Batch normalization needs two rows: a last batch of fewer is left out.
    """
    count = len(job.data.train)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(_seed(job.seed, epoch)))
    shares = (job.process.own(batch) for batch in order.split(job.recipe.batch))
    batches = [share.to(job.process.device) for share in shares if len(share) > 1]
    if not batches:
        raise InputError(f"train_rows must be at least 2 for every process, got {count}")
    return batches


def _step(job: Job, state: State, rows: Tensor) -> Tensor:
    """One gradient step; the sum of the losses, the number of correct rows, and of rows."""
    normalized = (job.data.train.pixels[rows].float() - job.mean) / job.deviation
    images = augment(normalized, job.recipe.augment)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = job.data.train.labels[rows]
    kind = job.process.device.type
    precision = torch.float16 if kind == "cuda" else torch.bfloat16
    with torch.autocast(kind, precision, enabled=job.recipe.amp):
        logits = state.shared(images)
        loss = nn.functional.cross_entropy(logits, labels)
    state.optimizer.zero_grad(set_to_none=True)
    state.scaler.scale(loss).backward()
    state.scaler.step(state.optimizer)
    state.scaler.update()
    right = (logits.detach().argmax(1) == labels).sum()
    return torch.stack([loss.detach() * len(rows), right, torch.full_like(right, len(rows))])


def _start_or_resume(job: Job, stored: dict[str, Any] | None, *, download: bool) -> State:
    """The initial state, or that of a checkpoint."""
    torch.manual_seed(job.seed)
    recipe = job.recipe
    if stored is not None:  # do not download weights that the checkpoint replaces
        recipe = dataclasses.replace(recipe, pretrained=False)
    channels = job.data.train.pixels.shape[1]
    network = networks.build(recipe, len(job.data.names), channels, download=download)
    network = network.to(job.process.device, memory_format=torch.channels_last)
    scaler = torch.amp.GradScaler("cuda", enabled=recipe.amp and job.process.device.type == "cuda")
    state = State(network, job.process.shared(network), _optimizer(recipe, network), scaler)
    if stored is not None:
        for name, part in state.parts().items():
            part.load_state_dict(stored[name])
    return state


def _optimizer(recipe: Recipe, network: nn.Module) -> torch.optim.Optimizer:
    weights, decay = network.parameters(), recipe.weight_decay
    if recipe.optimizer == "adam":
        return torch.optim.Adam(weights, recipe.rate, weight_decay=decay)
    pull = {"momentum": recipe.momentum, "nesterov": recipe.nesterov}
    return torch.optim.SGD(weights, recipe.rate, weight_decay=decay, **pull)


def _write_results(job: Job, network: nn.Module, history: list[dict[str, float]]) -> dict[str, Any]:
    """Write logits, labels, weights and the record, and remove the checkpoint.

    The test set is used here only: no epoch is chosen by it.
    """
    logits = networks.run_network(network, job.data.test.pixels, job.mean, job.deviation)
    labels = job.data.test.labels.cpu().numpy()
    if not np.isfinite(logits).all():
        raise InputError(f"rate must let the training converge, got {job.recipe.rate:g}")
    arrays = {"logits": logits, "labels": labels, "rows": job.data.rows}
    for name, array in arrays.items():
        if array is not None:
            with atomic_write(job.run / f"{name}.npy") as file:
                np.save(file, array, allow_pickle=False)
    _save(job.run / WEIGHTS, {name: value.cpu() for name, value in network.state_dict().items()})
    record = _record(job, float((logits.argmax(axis=1) == labels).mean()), history)
    with atomic_write(job.run / RUN) as file:
        file.write((json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())
    (job.run / _CHECKPOINT).unlink(missing_ok=True)
    return record


def _record(job: Job, accuracy: float, history: list[dict[str, float]]) -> dict[str, Any]:
    recipe, device = job.recipe, job.process.device
    return {
        "recipe": recipe.name,
        "network": recipe.network,
        "data": recipe.data,
        "classes": list(job.data.names),
        "seed": job.seed,
        "accuracy": accuracy,
        "seconds": round(sum(epoch["seconds"] for epoch in history), 1),
        "mean": job.mean.flatten().tolist(),
        "deviation": job.deviation.flatten().tolist(),
        "checksums": job.data.checked,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "threads": torch.get_num_threads(),
        "processors": os.cpu_count(),
        "versions": _versions(),
        "history": history,
        "config": job.config,
    }


@contextlib.contextmanager
def _current_process() -> Iterator[Process]:
    """This process and its device, as `torchrun` numbers them in the environment."""
    several, device = int(os.environ.get("WORLD_SIZE", "1")), torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if several == 1:
        yield Process(0, 1, device)
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Process(dist.get_rank(), several, device)
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    """Ask PyTorch for deterministic algorithms, and restore the setting afterwards."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    try:
        with torch.backends.cudnn.flags(benchmark=False, deterministic=True):
            yield
    finally:
        torch.use_deterministic_algorithms(mode=before)


# The folder of a run ------------------------------------------------------------------------------


def _save(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values atomically."""
    with atomic_write(path) as file:
        torch.save(state, file)


def _checkpoint(run: Path, config: dict[str, Any], device: torch.device) -> dict[str, Any] | None:
    """The checkpoint of an interrupted run of the same config, or None."""
    path = run / _CHECKPOINT
    if not path.exists():
        return None
    stored: dict[str, Any] = torch.load(path, weights_only=True, map_location=device)
    _refuse_other(run, stored["config"], config)
    return stored


def _finished(run: Path, config: dict[str, Any]) -> dict[str, Any] | None:
    """The record of a finished run of the same config, or None."""
    if not (run / RUN).exists():
        return None
    record = read_run(run)
    _refuse_other(run, record["config"], config)
    return record


def _versions() -> dict[str, str]:
    """The versions of Python and of the packages that a training uses."""
    found = {"python": platform.python_version()}
    for name in ("tepid", "torch", "torchvision", "numpy"):
        with contextlib.suppress(PackageNotFoundError):  # torchvision is optional
            found[name] = version(name)
    return found


def _refuse_other(run: Path, stored: dict[str, Any], config: dict[str, Any]) -> None:
    for key in sorted(stored.keys() | config.keys()):
        if stored.get(key) != config.get(key):
            raise InputError(
                f"{run} must be a new folder or a run of the same recipe, got {key} = "
                f"{config.get(key)!r} where it has {stored.get(key)!r}"
            )
