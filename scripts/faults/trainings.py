"""A training in the laboratory: killed while it runs, it resumes and ends with the same network.

`tepid lab train` and `tepid lab isic` write their files in this one function.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import tepid
from faults.processes import End, Findings, run_and_kill, run_to_end

if TYPE_CHECKING:
    from tepid.lab.datasets import Data

NAME = "training"
_ROWS = {"train": 600, "test": 200}
# `run.json` has durations, so only the others are compared.
_FILES = ("logits.npy", "labels.npy", "weights.pt")
_RECORD = "run.json"


@dataclass(frozen=True)
class Training:
    """Images, the folder of the run, and what an undisturbed training writes."""

    run: Path
    data: "Data"
    written: tuple[bytes, ...] = ()
    seconds: float = np.nan

    def train(self) -> None:
        """Train, or resume."""
        import torch  # noqa: PLC0415  # slow to import

        from tepid.lab import training  # noqa: PLC0415  # the same

        torch.set_num_threads(1)
        recipe = tepid.lab.named("lenet5-mnist").with_settings(["epochs=8", "batch=50"])
        training.train(recipe, self.data, self.run)

    def read(self) -> tuple[bytes, ...]:
        """The files that are compared."""
        return tuple((self.run / name).read_bytes() for name in _FILES)


def prepare(folder: Path, rng: np.random.Generator) -> Training:
    """Draw images, and train undisturbed."""
    from tepid.lab import datasets  # noqa: PLC0415  # PyTorch

    drawn = {
        name: datasets.as_images(
            rng.integers(0, 256, (n, 28, 28), dtype=np.uint8), rng.integers(0, 10, n)
        )
        for name, n in _ROWS.items()
    }
    training = Training(folder, datasets.Data(**drawn, names=tuple("0123456789")))
    _, seconds = run_to_end(training.train)
    return Training(folder, training.data, training.read(), seconds)


def trial(training: Training, rng: np.random.Generator, findings: Findings) -> None:
    """Kill a training up to three times, then let it end."""
    shutil.rmtree(training.run)
    for _ in range(rng.integers(1, 4)):
        end = run_and_kill(training.train, rng.uniform(0, 0.7) * training.seconds)
        findings.check(NAME, "it only ends by being killed or done", holds=end is not End.FAILED)
        if end is End.KILLED:
            findings.count(NAME, "kill -9")
        finished = (training.run / _RECORD).exists()
        holds = not finished or training.read() == training.written
        findings.check(NAME, "a run with a record has all its files", holds=holds)
    end, _ = run_to_end(training.train)
    findings.check(NAME, "the next training comes to its end", holds=end is End.DONE)
    holds = training.read() == training.written
    findings.check(NAME, "weights and logits are the same to the last bit", holds=holds)
    record = json.loads((training.run / _RECORD).read_text(encoding="utf-8"))
    epochs = record["config"]["epochs"]
    findings.check(NAME, "each epoch is trained once", holds=len(record["history"]) == epochs)
    findings.check_folder(NAME, training.run, {*_FILES, _RECORD})
