"""Fits on Dask and Spark, whose processes are killed while they work.

The temperature must be that of threads to a relative error of `PRECISION`, or the fit must fail
with one sentence. A fit that fails leaves the result of an earlier one.
"""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

import tepid
from faults.processes import Findings

PRECISION = 1e-9
_ROWS, _PARTS, _CLASSES = 36_000, 12, 20
_OLD = "the result of an earlier fit"
_SECONDS = 120  # after which a process hangs


@dataclass(frozen=True)
class Work:
    """Files of logits, the temperature of an undisturbed fit, and where to write the result."""

    folder: Path
    temperature: float

    @property
    def files(self) -> list[str]:
        """The files of logits."""
        return [str(self.folder / f"part-{number:02}.npy") for number in range(_PARTS)]

    @property
    def table(self) -> str:
        """The same rows in Parquet."""
        return str(self.folder / "rows.parquet")

    @property
    def result(self) -> Path:
        """The file with the temperature."""
        return self.folder / "calibration.json"

    def check(self, target: str, failure: str | None, findings: Findings) -> None:
        """Check the result of a fit that ended or failed with a message."""
        written = self.result.read_text(encoding="utf-8")
        if failure is not None:
            findings.check(target, "a fit that fails leaves the result", holds=written == _OLD)
            said = f"a failure is one sentence, got {_shorten(failure)}"
            findings.check(target, said, holds=0 < len(failure.splitlines()) < 2)
            return
        found = float("nan") if written == _OLD else tepid.load(self.result).value
        near = abs(found / self.temperature - 1) <= PRECISION
        findings.check(target, f"T is {self.temperature!r}, got {found!r}", holds=near)


def _shorten(failure: str) -> str:
    """A message of one line as it is; a traceback by its last line, without paths."""
    lines = failure.strip().splitlines()
    return repr(failure) if len(lines) < 2 else f"{len(lines)} lines, {lines[-1][:100]!r} the last"


def prepare(folder: Path, rng: np.random.Generator) -> Work:
    """Write the rows and fit them on threads."""
    import pyarrow as pa  # noqa: PLC0415  # only here
    from pyarrow import parquet  # noqa: PLC0415  # the same

    folder.mkdir()
    z = (4 * rng.normal(size=(_ROWS, _CLASSES))).astype(np.float32)
    work = Work(folder, float(tepid.uts(z)))
    for path, part in zip(work.files, np.array_split(z, _PARTS), strict=True):
        np.save(path, part)
    parquet.write_table(pa.table({f"c{k}": z[:, k] for k in range(_CLASSES)}), work.table)
    return work


# --- Dask


def try_dask(work: Work, rng: np.random.Generator, findings: Findings, *, kills: int) -> None:
    """Kill workers that work, then a worker without retries, then the scheduler."""
    with _dask_cluster(retries=True) as cluster:
        cluster.fit(work)  # workers import tepid
        seconds = cluster.fit(work)[1]
        for _ in range(kills):
            _try_worker(cluster, work, rng.uniform(0, seconds), findings)
        work.result.write_text(_OLD, encoding="utf-8")
        failure, late = _kill_while(cluster, work, cluster.scheduler, seconds / 2)
        _finish(work, "Dask: scheduler", failure, findings, late=late)
    with _dask_cluster(retries=False) as cluster:
        cluster.fit(work)
        _try_worker(cluster, work, 0.05, findings)  # while both have tasks


def _try_worker(cluster: "_Cluster", work: Work, moment: float, findings: Findings) -> None:
    target = "Dask: worker" if cluster.retries else "Dask: worker, no retries allowed"
    work.result.write_text(_OLD, encoding="utf-8")
    worker = cluster.workers.pop(0)
    failure, late = _kill_while(cluster, work, worker, moment)
    _finish(work, target, failure, findings, late=late)
    if cluster.retries:
        findings.check(target, f"the other workers finish, got {failure}", holds=failure is None)
    cluster.add_worker()


def _finish(
    work: Work, target: str, failure: str | None, findings: Findings, *, late: bool
) -> None:
    if not late:
        findings.count(target, "kill -9")
    work.check(target, failure, findings)


def _kill_while(
    cluster: "_Cluster", work: Work, process: subprocess.Popen[bytes], moment: float
) -> tuple[str | None, bool]:
    """Kill a process during a fit; the message of a failure, and whether the kill was too late."""
    results: list[str | None] = []
    begun = threading.Event()
    thread = threading.Thread(
        target=lambda: results.append(cluster.fit(work, begun)[0]), daemon=True
    )
    thread.start()
    begun.wait(_SECONDS)
    thread.join(moment)
    late = not thread.is_alive()
    process.kill()
    process.wait()
    thread.join(_SECONDS)
    return (results[0] if results else f"no answer\nin {_SECONDS} s"), late


class _Cluster:
    """A scheduler and two workers, in processes of their own."""

    def __init__(self, *, retries: bool) -> None:
        self.retries = retries
        # By default a task is tried again after three workers that died with it.
        option = (
            "" if retries else "dask.config.set({'distributed.scheduler.allowed-failures': 0});"
        )
        code = (
            f"import asyncio, dask, distributed; {option}\n"
            "async def run():\n"
            "    options = {'host': '127.0.0.1', 'port': 0, 'dashboard': False}\n"
            "    async with distributed.Scheduler(**options) as s:\n"
            "        print(s.address, flush=True)\n"
            "        await s.finished()\n"
            "asyncio.run(run())"
        )
        command = [sys.executable, "-c", code]
        self.scheduler = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self.scheduler.stdout is not None
        self.address = self.scheduler.stdout.readline().decode().strip()
        self.workers: list[subprocess.Popen[bytes]] = []
        for _ in range(2):
            self.add_worker()

    def add_worker(self) -> None:
        code = (
            "import asyncio, distributed, sys\n"
            "async def run():\n"
            "    async with distributed.Worker(sys.argv[1], nthreads=1, dashboard=False) as w:\n"
            "        await w.finished()\n"
            "asyncio.run(run())"
        )
        command = [sys.executable, "-c", code, self.address]
        self.workers.append(
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )

    def fit(self, work: Work, begun: threading.Event | None = None) -> tuple[str | None, float]:
        """Fit and write the result; the message of a failure, and the seconds."""
        from tepid.engines.dask import connected  # noqa: PLC0415  # slow to import

        try:
            with connected(self.address) as engine:
                engine.client.wait_for_workers(2, timeout=60)
                start = time.perf_counter()
                if begun is not None:
                    begun.set()
                tepid.uts(work.files, engine=engine).save(work.result)
                return None, time.perf_counter() - start
        except Exception as error:  # noqa: BLE001  # the message is checked
            return _message(error), float("nan")

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@contextlib.contextmanager
def _dask_cluster(*, retries: bool) -> Iterator[_Cluster]:
    cluster = _Cluster(retries=retries)
    try:
        yield cluster
    finally:
        cluster.close()


def _message(error: Exception) -> str:
    """The message of an error about the input; others are tracebacks for a user."""
    return str(error) if isinstance(error, tepid.InputError) else f"{type(error)}:\n{error}"


# --- Spark


def try_spark(work: Work, rng: np.random.Generator, findings: Findings, *, kills: int) -> None:
    """Kill Python workers of Spark with and without retries, then its Java process."""
    worker, java = "Spark: Python worker", "Spark: Java process"
    with _spark_session(work, "local[2,4]") as session:
        session.fit()  # Spark starts its Python processes
        seconds = session.fit()[1]
        for _ in range(kills):
            failure = _try_spark(session, worker, rng.uniform(0, 0.5) * seconds, findings)
            said = f"a failed task is tried again, got {failure}"
            findings.check(worker, said, holds=failure is None)
    with _spark_session(work, "local[2,1]") as session:
        session.fit()  # Spark starts its Python processes
        seconds = session.fit()[1]
        _try_spark(
            session, f"{worker}, no retries allowed", rng.uniform(0, 0.5) * seconds, findings
        )
        _try_spark(session, java, rng.uniform(0, 0.5) * seconds, findings)


def _try_spark(session: "_Session", target: str, moment: float, findings: Findings) -> str | None:
    session.work.result.write_text(_OLD, encoding="utf-8")
    timer = threading.Timer(moment, lambda: killed.append(session.kill(java="Java" in target)))
    killed: list[bool] = []
    timer.start()
    failure, _ = session.fit()
    late = not killed or not killed[0]
    timer.cancel()
    _finish(session.work, target, failure, findings, late=late)
    return failure


class _Session:
    """A process with a Spark session."""

    def __init__(self, work: Work, master: str) -> None:
        self.work = work
        command = [sys.executable, "-m", "faults.spark_job", master, work.table, str(work.result)]
        self.process = subprocess.Popen(
            command,
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        used = self.process.stdout.readline().strip()
        if used != tepid.__file__:
            self.close()
            raise RuntimeError(f"the process must use the tepid of this one, got {used!r}")

    def fit(self) -> tuple[str | None, float]:
        """Fit and write the result; the message of a failure, and the seconds."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("fit\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return tuple(json.loads(answer)) if answer else ("the process\nended", float("nan"))

    def kill(self, *, java: bool) -> bool:
        """Kill the Java process, or a Python process that Spark forked; False if there is none."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                above = process.parent()
                forked = above is not None and "pyspark.daemon" in " ".join(above.cmdline())
                if process.name() == "java" if java else forked and "java" not in above.name():
                    process.kill()
                    return True
        return False

    def close(self) -> None:
        """End the process and those that it started."""
        started = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait()
        for process in started:
            with contextlib.suppress(psutil.Error):
                process.kill()


@contextlib.contextmanager
def _spark_session(work: Work, master: str) -> Iterator[_Session]:
    session = _Session(work, master)
    try:
        yield session
    finally:
        session.close()
