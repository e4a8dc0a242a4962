"""`--engine` and `--scheduler`: Dask returns the temperature that threads return."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

distributed = pytest.importorskip("distributed", reason="Dask is not installed")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    Path("shards").mkdir()
    for i, n in enumerate((400, 1, 700, 250, 30, 600)):
        z = (5 * rng.normal(size=(n, 5))).astype(np.float32)
        y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
        np.savez(f"shards/{i}.npz", logits=z, labels=y)
    return tmp_path


@pytest.fixture
def fitted(tepid_here):
    def fit(*options):
        code, out, err = tepid_here("fit", "shards", "--json", *options)
        assert code == 0, err
        return json.loads(out)["temperature"]

    return fit


@pytest.mark.parametrize(
    "evidence", [(), ("--accuracy", "0.6"), ("--labels", "labels"), ("--labels", "shards/")]
)
def test_dask_gives_what_threads_give(fitted, evidence):
    assert fitted(*evidence, "--engine", "dask") == pytest.approx(fitted(*evidence), rel=1e-9)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--engine", "ray"), "--engine must be threads or dask, got ray"),
        (("--scheduler", "tcp://127.0.0.1:1"), "--scheduler must go with --engine dask"),
        (("--engine", "dask", "--threads", "2"), "--threads must go without --engine dask"),
        (("--engine", "dask", "--scheduler", "here"), "such as tcp://HOST:8786, got here"),
        (
            ("--engine", "dask", "--labels", "labels", "--method", "vector"),
            "--engine must be threads for --method vector, got dask",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(tepid_here, options, sentence):
    code, out, err = tepid_here("fit", "shards", *options)
    assert (code, out) == (2, "")
    assert err.startswith("tepid: ")
    assert sentence in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("engine", ["threads", "dask"])
def test_a_bad_row_of_a_file_is_named_wherever_it_is_read(tepid_here, engine):
    z = np.load("shards/3.npz")["logits"]
    z[17, 2] = np.nan
    np.savez("shards/3.npz", logits=z)
    code, out, err = tepid_here("fit", "shards", "--engine", engine, "-o", "cal.json")
    assert (code, out) == (2, "")
    assert err.startswith("tepid: 3.npz must be finite, or -inf for a masked class, got nan for")
    assert err.endswith("at row 17\n")
    assert not Path("cal.json").exists()


# --- a cluster of other processes


@pytest.mark.slow
def test_a_cluster_gives_what_threads_give_and_its_loss_is_one_sentence(fitted, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    scheduler, worker = _cluster(port, address)
    begun = None
    try:
        there = fitted("--engine", "dask", "--scheduler", address)
        assert there == pytest.approx(fitted(), rel=1e-9)
        begun = _begin(_vast(tmp_path), "--engine", "dask", "--scheduler", address)
        _wait_for_work(address)
        scheduler.kill()
        out, err = begun.communicate(timeout=120)
        assert (begun.returncode, out) == (2, "")
        assert err.startswith("tepid: the Dask cluster must stay until the fit is done")
        assert err.count("\n") == 1
    finally:
        _end([process for process in (scheduler, worker, begun) if process is not None])


def _vast(folder):
    """Logits of 40 GB that take no room on the disk, so that reading them takes a while."""
    path = folder / "vast.npy"
    header = {"descr": "<f4", "fortran_order": False, "shape": (10_000_000, 1000)}
    try:
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + 4 * 10_000_000 * 1000)
    except OSError:
        pytest.skip("the disk has no files with holes")
    if path.stat().st_blocks > 1000:
        pytest.skip("the disk has no files with holes")
    return path


def _begin(*arguments):
    command = [sys.executable, "-m", "tepid", "fit", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _wait_for_work(address):
    deadline = time.monotonic() + 90
    with distributed.Client(address, timeout="30s", set_as_default=False) as client:
        while not any(client.processing().values()):
            assert time.monotonic() < deadline, "the worker has nothing to do"
            time.sleep(0.05)


def _cluster(port, address):
    dask = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    scheduler = [*dask, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    worker = [*dask, "worker", address, "--nworkers", "2", "--nthreads", "1", "--no-dashboard"]
    return [subprocess.Popen(command, env=own, **quiet) for command in (scheduler, worker)]


def _end(processes):
    for process in reversed(processes):
        process.terminate()
    for process in processes:
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
