"""The checkpointed fit: killed, its kept sums damaged, its shards changed, a read that fails.

The temperature must be that of an undisturbed fit to the last bit, and of what was summed before a
kill at most one shard may be lost.
"""

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tepid
from faults.killing import Account, End, finished, killed
from tepid import records
from tepid.engines.checkpoint import Checkpointed

NAME = "checkpointed fit"
_ROWS = (6000, 12_000, 1, 9000, 30_000, 6000, 500, 18_000)
_CLASSES = 20


@dataclass(frozen=True)
class Fit:
    """Shards in a folder, the temperature that they have, and the seconds that a fit takes."""

    folder: Path
    shards: list[Path]
    temperature: float
    seconds: float
    command_seconds: float

    @property
    def kept(self) -> Path:
        """Where sums are kept."""
        return self.folder / "kept"

    @property
    def result(self) -> Path:
        """Where a fit writes its temperature."""
        return self.folder / "calibration.json"


@dataclass(frozen=True)
class _Telling:
    """Two threads, which write a byte into a pipe for each part that they have summed."""

    pipe: int
    progress: Any = None

    def each(self, *asked: Any) -> Iterator[Any]:
        for found in tepid.Threads(2).each(*asked):
            os.write(self.pipe, b".")
            yield found


def made(folder: Path, rng: np.random.Generator) -> Fit:
    """A victim, which is fitted here first."""
    folder.mkdir()
    shards = []
    for number, rows in enumerate(_ROWS):
        shards.append(folder / f"shard-{number}.npy")
        np.save(shards[-1], 4 * rng.normal(size=(rows, _CLASSES)).astype(np.float32))
    fit = Fit(folder, shards, np.nan, np.nan, np.nan)
    _run(fit, tepid.Threads(1))  # here, so that a process that is forked finds all compiled
    shutil.rmtree(fit.kept)
    _, seconds = finished(lambda: _run(fit))
    temperature = _found(fit)
    start = time.perf_counter()
    subprocess.run(_command(fit), check=True, capture_output=True)
    return Fit(folder, shards, temperature, seconds, time.perf_counter() - start)


def trial(fit: Fit, rng: np.random.Generator, account: Account) -> None:
    """A fit from nothing to its end with some kills and faults on the way."""
    shutil.rmtree(fit.kept, ignore_errors=True)
    fit.result.unlink(missing_ok=True)
    for _ in range(rng.integers(1, 4)):
        _kill(fit, rng, account)
        fault = rng.choice([None, _damage, _change_and_back, _fail_to_read])
        if fault is not None:
            fault(fit, rng, account)
    end, _ = finished(lambda: _run(fit))
    account.check(NAME, "the fit goes on to its end", holds=end is End.DONE)
    account.check(NAME, f"T is {fit.temperature} to the last bit", holds=_right(fit))
    names = {path.name for path in (*fit.shards, fit.kept, fit.result)}
    account.check_folder(NAME, fit.folder, names, {fit.result.read_bytes()})
    account.check_folder(NAME, fit.kept, {p.name for p in fit.kept.glob("*.part")}, set())


def _kill(fit: Fit, rng: np.random.Generator, account: Account) -> None:
    before = _count(fit)
    if rng.random() < 0.15:
        child = subprocess.Popen(
            _command(fit), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(rng.uniform(0.3, 1.0) * fit.command_seconds)
        child.kill()
        if child.wait() != 0:
            account.did(NAME, "kill -9 of the command")
        return
    reading, writing = os.pipe()
    end = killed(lambda: _run(fit, _Telling(writing)), rng.uniform(0, 1.1) * fit.seconds)
    os.close(writing)
    told = len(os.read(reading, 1 << 16))
    os.close(reading)
    account.check(NAME, "a fit only ends by being killed or done", holds=end is not End.FAILED)
    if end is End.KILLED:
        account.did(NAME, "kill -9")
        lost = told - (_count(fit) - before)
        account.check(NAME, f"at most one shard's work is lost, got {lost}", holds=lost <= 1)


def _damage(fit: Fit, rng: np.random.Generator, account: Account) -> None:
    """Spoil a kept sum: cut off, emptied, overwritten, a bit turned over."""
    paths = sorted(fit.kept.glob("*.part")) if fit.kept.exists() else []
    if not paths:
        return
    path = paths[rng.integers(len(paths))]
    whole = bytearray(path.read_bytes())
    kind = rng.choice(["cut off", "emptied", "garbage", "a bit turned over"])
    if kind == "cut off":
        whole = whole[: rng.integers(1, len(whole))]
    elif kind == "emptied":
        whole = bytearray()
    elif kind == "garbage":
        whole = bytearray(rng.bytes(len(whole)))
    else:
        whole[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
    path.write_bytes(whole)
    account.did(NAME, f"a kept sum {kind}")


def _change_and_back(fit: Fit, rng: np.random.Generator, account: Account) -> None:
    """Other rows in a shard give another temperature, and the old ones the old one again."""
    path = fit.shards[rng.choice([0, 1, 3, 4, 5, 7])]
    content = path.read_bytes()
    z = np.load(path)
    np.save(path, z * np.float32(0.5))
    other, _ = finished(lambda: _run(fit))
    account.check(NAME, "a changed shard is fitted", holds=other is End.DONE)
    anew = tepid.from_logits([str(shard) for shard in fit.shards], engine=tepid.Threads(1)).value
    holds = abs(_found(fit) / anew - 1) < 1e-9 and not _right(fit)
    account.check(NAME, "a changed shard is read anew", holds=holds)
    path.write_bytes(content)
    account.did(NAME, "a shard changed and changed back")


def _fail_to_read(fit: Fit, rng: np.random.Generator, account: Account) -> None:
    """A file that cannot be opened once ends the fit, and no more than that."""
    moment = int(rng.integers(4 * len(fit.shards)))
    opened, calls = np.lib.format.open_memmap, itertools.count()

    def failing(*args, **options):
        if next(calls) == moment:
            raise OSError(5, "the disk was away for a moment")
        return opened(*args, **options)

    np.lib.format.open_memmap = failing
    try:
        end, _ = finished(lambda: _run(fit))
    finally:
        np.lib.format.open_memmap = opened
    account.did(NAME, "a read that fails once")
    holds = end is End.FAILED or _right(fit)
    account.check(NAME, "a read that fails gives no temperature, or the right one", holds=holds)


def _run(fit: Fit, engine: Any = None) -> None:
    kept = Checkpointed(engine or tepid.Threads(2), fit.kept, "chaos")
    tepid.from_logits([str(path) for path in fit.shards], engine=kept).save(fit.result)


def _command(fit: Fit) -> list[str]:
    shards = [str(path) for path in fit.shards]
    kept = ["--checkpoint", str(fit.kept), "-o", str(fit.result)]
    return [sys.executable, "-m", "tepid", "fit", *shards, *kept]


def _count(fit: Fit) -> int:
    """How many sums are kept and whole."""
    whole = 0
    for path in fit.kept.glob("*.part"):
        with contextlib.suppress(*records.DAMAGE):
            records.unpacked(path.read_bytes())
            whole += 1
    return whole


def _found(fit: Fit) -> float:
    return tepid.load(fit.result).value


def _right(fit: Fit) -> bool:
    return fit.result.exists() and _found(fit) == fit.temperature
