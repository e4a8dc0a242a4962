"""Two processes that calibrate together; each writes its results to `FOLDER/RANK.json`.

`python ranks.py FOLDER CASE …`, where the folder holds `logits.npy` and `labels.npy`.
"""

import datetime
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tepid


def _shard(case, rank):
    """The rows of a rank."""
    if case in ("empty", "no-labels"):
        return slice(0, 0) if rank else slice(None)
    return slice(500) if rank else slice(500, None)


def _load(folder):
    return (
        torch.from_numpy(np.load(Path(folder) / f"{name}.npy")) for name in ("logits", "labels")
    )


def _evidence(case, rank, z, y):
    if case in ("labels", "no-labels"):
        return {"labels": True, "multilabel": "per-label"}
    if case != "evidence":
        return {"accuracy": 0.7}
    old = slice(50) if rank else slice(50, 1000)
    return {
        "accuracy": 0.7,
        "labels": True,
        "models": [nn.Hardtanh(-5, 5)],
        "reference": y[_shard(case, rank)],
        "source": [(z[old], y[old])],
    }


def _calibrate(rank, folder, case):
    z, y = _load(folder)
    if case == "nan" and rank:
        z[200, 2] = float("nan")
    if case in ("labels", "no-labels"):
        y = torch.eye(z.shape[1])[y]
    own = _shard(case, rank)
    loader = DataLoader(TensorDataset(z[own], y[own]), batch_size=64)
    model = nn.Identity()
    if case == "wrapped":
        # The wrapper broadcasts buffers in every forward pass, and the ranks have unequal numbers
        # of passes, so it must not run.
        model = nn.parallel.DistributedDataParallel(nn.BatchNorm1d(z.shape[1], eps=0.0))
    rows = iter(loader) if case == "spilled" else loader
    options = _evidence(case, rank, z, y)
    try:
        found = tepid.torch.calibrate(model, rows, process_group=dist.group.WORLD, **options)
    except tepid.InputError as error:
        return {"error": str(error)}
    return {
        "value": found.calibration.value,
        "samples": found.calibration.samples,
        "per_label": found.calibration.per_label,
    }


def work(rank, folder, cases):
    """Calibrate this rank's part of each case, and write the results."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=2,
        timeout=datetime.timedelta(seconds=120),
    )
    found = {case: _calibrate(rank, folder, case) for case in cases}
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (sys.argv[1], sys.argv[2:]), nprocs=2)
