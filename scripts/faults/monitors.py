"""The monitor's state: killed while it runs, it goes on from the last batch that was saved."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tepid
from faults.processes import End, Findings, run_and_kill, run_to_end
from tepid.online import Monitor, Outputs, Rules, read_log

NAME = "monitor"
_BATCH, _BATCHES, _CLASSES = 200, 120, 20


@dataclass(frozen=True)
class Watch:
    """Batches to be served, and what a monitor says of them that nobody disturbs."""

    folder: Path
    batches: Any
    history: list[dict[str, Any]]
    temperature: float
    seconds: float

    @property
    def state(self) -> Path:
        """Where the monitor saves itself after every batch."""
        return self.folder / "monitor.npz"

    @property
    def log(self) -> Path:
        """Where it writes a line for each chunk."""
        return self.folder / "monitor.jsonl"


def prepare(folder: Path, rng: np.random.Generator) -> Watch:
    """Draw batches, and serve them undisturbed."""
    folder.mkdir()
    batches = 4 * rng.normal(size=(_BATCHES, _BATCH, _CLASSES)).astype(np.float32)
    watch = Watch(folder, batches, [], np.nan, np.nan)
    _begin(watch)
    _, seconds = run_to_end(lambda: _serve(watch))
    monitor = Monitor.load(watch.state)
    return Watch(folder, batches, monitor.history, monitor.estimate().value, seconds)


def trial(watch: Watch, rng: np.random.Generator, findings: Findings) -> None:
    """From the first batch to the last, killed on the way."""
    _begin(watch)
    try:
        _disturb(watch, rng, findings)
    except tepid.InputError:
        findings.check(NAME, "the saved state can be loaded", holds=False)


def _disturb(watch: Watch, rng: np.random.Generator, findings: Findings) -> None:
    for _ in range(rng.integers(1, 4)):
        before = _seen(watch)
        reading, writing = os.pipe()
        moment = rng.uniform(0, 0.7) * watch.seconds
        end = run_and_kill(lambda pipe=writing: _serve(watch, pipe), moment)
        os.close(writing)
        told = before + len(os.read(reading, 1 << 16))
        os.close(reading)
        findings.check(NAME, "it only ends by being killed or done", holds=end is not End.FAILED)
        if end is End.KILLED:
            findings.count(NAME, "kill -9")
            lost = told - _seen(watch)
            findings.check(NAME, f"no saved batch is lost, got {lost}", holds=lost <= 0)
    run_to_end(lambda: _serve(watch))
    monitor = Monitor.load(watch.state)
    findings.check(NAME, "the history is the same", holds=_same(monitor.history, watch.history))
    logged = [row["chunk"] for row in read_log(watch.log)]
    every = [row["chunk"] for row in watch.history]
    findings.check(NAME, "every chunk is logged once", holds=logged == every)
    found = monitor.estimate().value
    holds = found == watch.temperature
    findings.check(NAME, f"T is {watch.temperature}, got {found}", holds=holds)
    names = {watch.state.name, watch.log.name}
    findings.check_folder(NAME, watch.folder, names)


def _begin(watch: Watch) -> None:
    watch.log.unlink(missing_ok=True)
    rules = Rules(reestimate=True)
    reference = watch.batches[:20].reshape(-1, _CLASSES)
    Monitor.from_reference(reference, 1.5, chunk=1000, rules=rules).save(watch.state)


def _serve(watch: Watch, pipe: int | None = None) -> None:
    """Go on after the last batch that is in the state; each is told once it is saved."""
    outputs = Outputs(autosave=watch.state, log=watch.log)
    monitor = Monitor.load(watch.state, outputs=outputs)
    for number in range(_seen(watch), _BATCHES):
        monitor.update(watch.batches[number], time=float(number))
        if pipe is not None:
            os.write(pipe, b".")


def _seen(watch: Watch) -> int:
    return Monitor.load(watch.state).reading()["rows_total"] // _BATCH


def _same(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> bool:
    return repr(a) == repr(b)
