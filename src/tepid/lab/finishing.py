"""The end of a training: logits of the test set, in the order of its files, and their record."""

import os
from typing import Any

import numpy as np
import torch
from torch import nn

from tepid.errors import InputError
from tepid.lab import runs
from tepid.lab.job import Job

_AT_ONCE = 500  # rows of a forward pass without gradients


def finish(job: Job, network: nn.Module, history: list[dict[str, float]]) -> dict[str, Any]:
    """Write logits and labels to files of their own, the weights and the record; give the record.

    The test set is looked at here and nowhere before: no epoch is chosen by it.
    """
    logits = predicted(job, network)
    labels = job.data.test.labels.cpu().numpy()
    if not np.isfinite(logits).all():
        raise InputError(f"rate must let the training converge, got {job.recipe.rate:g}")
    accuracy = float((logits.argmax(axis=1) == labels).mean())
    arrays = {"labels": labels} | ({} if job.data.rows is None else {"rows": job.data.rows})
    weights = {name: value.cpu() for name, value in network.state_dict().items()}
    record = _record(job, accuracy, history)
    runs.write(job.run, arrays | {"logits": logits}, weights, record)
    return record


def predicted(job: Job, network: nn.Module) -> Any:
    """The logits (n, classes) of the test set in single precision."""
    network.eval()
    with torch.inference_mode():
        parts = [
            network(job.normalised(pixels).contiguous(memory_format=torch.channels_last))
            for pixels in job.data.test.pixels.split(_AT_ONCE)
        ]
    return torch.cat(parts).float().cpu().numpy()


def _record(job: Job, accuracy: float, history: list[dict[str, float]]) -> dict[str, Any]:
    recipe, device = job.recipe, job.place.device
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
        "versions": runs.versions(),
        "history": history,
        "config": job.config,
    }
