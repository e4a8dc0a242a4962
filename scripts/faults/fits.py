"""A fit over several files: killed, with damaged files, with reads and writes that fail.

The temperature must be that of an undisturbed fit to the last bit, or there must be none: the file
of an earlier fit then stays as it is. Decoded rows lie in a temporary file, of which nothing may be
left.
"""

import itertools
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tepid
from faults.processes import End, Findings, run_and_kill, run_to_end

NAME = "fit"
_ROWS = (6000, 12_000, 1, 9000, 30_000, 6000, 500, 18_000)
# Arrays are memory-mapped; the others are decoded once, into the temporary file.
_ENDINGS = (".npy", ".npz", ".npy", ".csv", ".npy", ".npz", ".csv", ".npy")
_CLASSES = 20
_OLD = b"the result of an earlier fit"


@dataclass(frozen=True)
class Fit:
    """Files in a folder, what an undisturbed fit writes, and the seconds that it takes."""

    folder: Path
    files: list[Path]
    written: bytes = b""
    seconds: float = np.nan
    command_seconds: float = np.nan

    @property
    def result(self) -> Path:
        """Where a fit writes its temperature."""
        return self.folder / "calibration.json"

    @property
    def temporary(self) -> Path:
        """The folder for temporary files."""
        return self.folder / "temporary"


def prepare(folder: Path, rng: np.random.Generator) -> Fit:
    """Write files, and fit them undisturbed."""
    folder.mkdir()
    files = []
    for number, (rows, ending) in enumerate(zip(_ROWS, _ENDINGS, strict=True)):
        files.append(folder / f"part-{number}{ending}")
        _write(files[-1], 4 * rng.normal(size=(rows, _CLASSES)).astype(np.float32))
    fit = Fit(folder, files)
    fit.temporary.mkdir()
    _run(fit, 1)  # here, so that a process that is forked finds all compiled
    _, seconds = run_to_end(lambda: _run(fit))
    written = fit.result.read_bytes()
    start = time.perf_counter()
    subprocess.run(_command(fit), env=_environment(fit), check=True, capture_output=True)
    command_seconds = time.perf_counter() - start
    if fit.result.read_bytes() != written:
        raise RuntimeError("the command must write what the function writes, got other bytes")
    return Fit(folder, files, written, seconds, command_seconds)


def _write(path: Path, logits: np.ndarray) -> None:
    if path.suffix == ".npy":
        np.save(path, logits)
    elif path.suffix == ".npz":
        np.savez(path, logits=logits)
    else:
        np.savetxt(path, logits, fmt="%.9g", delimiter=",")


def trial(fit: Fit, rng: np.random.Generator, findings: Findings) -> None:
    """Some kills and faults over the result of an earlier fit, then a fit to its end."""
    fit.result.write_bytes(_OLD)
    for _ in range(rng.integers(1, 4)):
        _kill(fit, rng, findings)
        fault = rng.choice([None, _damage, _fail_to_read, _fail_to_write])
        if fault is not None:
            fault(fit, rng, findings)
    end, _ = run_to_end(lambda: _run(fit))
    findings.check(NAME, "the next fit comes to its end", holds=end is End.DONE)
    holds = fit.result.read_bytes() == fit.written
    findings.check(NAME, "the temperature is the same to the last bit", holds=holds)
    names = {path.name for path in (*fit.files, fit.result, fit.temporary)}
    findings.check_folder(NAME, fit.folder, names)


def _kill(fit: Fit, rng: np.random.Generator, findings: Findings) -> None:
    if rng.random() < 0.15:
        what, end = "kill -9 of the command", _killed_command(fit, rng)
    else:
        what, end = "kill -9", run_and_kill(lambda: _run(fit), rng.uniform(0, 1.1) * fit.seconds)
    findings.check(NAME, "a fit only ends by being killed or done", holds=end is not End.FAILED)
    if end is End.KILLED:
        findings.count(NAME, what)
    _check_files(fit, findings)


def _killed_command(fit: Fit, rng: np.random.Generator) -> End:
    quiet = subprocess.DEVNULL
    child = subprocess.Popen(_command(fit), env=_environment(fit), stdout=quiet, stderr=quiet)
    time.sleep(rng.uniform(0.3, 1.0) * fit.command_seconds)
    child.kill()
    code = child.wait()
    return End.DONE if code == 0 else End.KILLED if code < 0 else End.FAILED


def _check_files(fit: Fit, findings: Findings) -> None:
    holds = fit.result.read_bytes() in (_OLD, fit.written)
    findings.check(NAME, "the result is the old or the new one, whole", holds=holds)
    holds = not list(fit.temporary.iterdir())
    findings.check(NAME, "no temporary file is left", holds=holds)


def _damage(fit: Fit, rng: np.random.Generator, findings: Findings) -> None:
    """Spoil a file of logits; a CSV file that was cut off may look whole, so it is left alone."""
    arrays = [path for path in fit.files if path.suffix != ".csv"]
    path = arrays[rng.integers(len(arrays))]
    content = path.read_bytes()
    kind = rng.choice(["cut off", "emptied", "overwritten"])
    if kind == "cut off":
        path.write_bytes(content[: rng.integers(1, len(content))])
    else:
        path.write_bytes(b"" if kind == "emptied" else rng.bytes(len(content)))
    findings.count(NAME, f"a file {kind}")
    _check_failure(fit, findings, "a damaged file is refused", always=True)
    path.write_bytes(content)


def _fail_to_read(fit: Fit, rng: np.random.Generator, findings: Findings) -> None:
    """A file that cannot be opened once ends the fit, and no more than that."""
    moment = int(rng.integers(3 * _ENDINGS.count(".npy")))
    opened, calls = np.lib.format.open_memmap, itertools.count()

    def failing(*args, **options):
        if next(calls) == moment:
            raise OSError(5, "the disk was away for a moment")
        return opened(*args, **options)

    np.lib.format.open_memmap = failing
    try:
        _check_failure(fit, findings, "a read that fails gives no temperature, or the right one")
    finally:
        np.lib.format.open_memmap = opened
    findings.count(NAME, "a read that fails once")


def _fail_to_write(fit: Fit, rng: np.random.Generator, findings: Findings) -> None:
    """No file may grow beyond a limit, as on a full disk: the temporary one or the result."""
    limit = int(rng.integers(100, 5 * _CLASSES * sum(_ROWS)))

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        _run(fit)

    findings.count(NAME, "a full disk")
    said = "a full disk gives no temperature, or the right one"
    _check_failure(fit, findings, said, job=limited)


def _check_failure(fit, findings, sentence, *, always=False, job=None) -> None:
    """Fit once more: it fails, or it writes what it should, and never leaves anything else."""
    before = fit.result.read_bytes()
    end, _ = run_to_end(job or (lambda: _run(fit)))
    after = fit.result.read_bytes()
    holds = after == before if end is End.FAILED else not always and after == fit.written
    findings.check(NAME, sentence, holds=holds)
    _check_files(fit, findings)


def _run(fit: Fit, threads: int = 2) -> None:
    tempfile.tempdir = str(fit.temporary)
    try:
        files = [str(path) for path in fit.files]
        tepid.uts(files, engine=tepid.Threads(threads)).save(fit.result)
    finally:
        tempfile.tempdir = None


def _command(fit: Fit) -> list[str]:
    files = [str(path) for path in fit.files]
    options = ["--method", "uts", "--threads", "2", "-o", str(fit.result)]
    return [sys.executable, "-m", "tepid", "fit", *files, *options]


def _environment(fit: Fit) -> dict[str, str]:
    return os.environ | {"TMPDIR": str(fit.temporary)}
