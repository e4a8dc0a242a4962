"""`--engine`, `--scheduler`, `--checkpoint`: the same temperature wherever and after whatever."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tepid

pytest.importorskip("distributed", reason="Dask is not installed")


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


def _temperature(told):
    return json.loads(told)["temperature"]


@pytest.fixture
def fitted(tepid_here):
    def fit(*options):
        code, out, err = tepid_here("fit", "shards", "--json", *options)
        assert code == 0, err
        return _temperature(out), err

    return fit


@pytest.mark.parametrize("evidence", [(), ("--accuracy", "0.6"), ("--labels", "shards")])
def test_dask_gives_what_threads_give(fitted, evidence):
    here, _ = fitted(*evidence)
    assert fitted(*evidence, "--engine", "dask")[0] == pytest.approx(here, rel=1e-9)


@pytest.mark.parametrize("engine", ["threads", "dask"])
def test_a_second_run_finds_every_sum(fitted, engine):
    first, said = fitted("--checkpoint", "kept", "--engine", engine)
    assert "were there already" not in said
    again, said = fitted("--checkpoint", "kept", "--engine", engine)
    assert again == first == pytest.approx(fitted()[0], rel=1e-9)
    assert "18 of 18 sums over files were there already." in said


def test_a_shard_that_has_changed_is_not_taken_from_the_checkpoint(fitted):
    before, _ = fitted("--checkpoint", "kept")
    rng = np.random.default_rng(0)
    np.savez("shards/3.npz", logits=rng.normal(size=(250, 5)), labels=np.zeros(250, int))
    after, said = fitted("--checkpoint", "kept")
    assert after == fitted()[0] != before
    assert "5 of 18 sums" in said  # the tails of the others


def test_options_that_change_the_fit_find_nothing(fitted):
    fitted("--checkpoint", "kept", "--accuracy", "0.6")
    t, said = fitted("--checkpoint", "kept", "--accuracy", "0.7")
    assert t == fitted("--accuracy", "0.7")[0]
    assert "were there already" not in said


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--engine", "ray"), "--engine must be threads or dask, got ray"),
        (("--scheduler", "tcp://127.0.0.1:1"), "--scheduler must go with --engine dask"),
        (("--engine", "dask", "--threads", "2"), "--threads must go without --engine dask"),
        (("--engine", "dask", "--scheduler", "here"), "such as tcp://HOST:8786, got here"),
        (("--checkpoint", "shards/0.npz"), "--checkpoint must be a folder, got shards/0.npz"),
    ],
)
def test_what_does_not_go_together_is_refused(tepid_here, options, sentence):
    code, out, err = tepid_here("fit", "shards", *options)
    assert (code, out) == (2, "")
    assert sentence in err


@pytest.mark.parametrize("name", ["rows.npz", "rows.npy", "rows.csv"])
def test_one_file_is_a_shard_too(tepid_here, name):
    z = np.load("shards/2.npz")["logits"]
    np.savez("rows.npz", logits=z)
    np.save("rows.npy", z)
    np.savetxt("rows.csv", z, delimiter=",")
    for _ in range(2):
        code, out, said = tepid_here("fit", name, "--json", "--checkpoint", "kept")
        assert code == 0
        assert _temperature(out) == pytest.approx(tepid.from_logits(z).value, rel=1e-6)
    assert "3 of 3 sums" in said


def test_probabilities_find_nothing_of_logits(tepid_here):
    z = np.load("shards/2.npz")["logits"].astype(float)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    np.savez("p.npz", logits=p)
    assert tepid_here("fit", "p.npz", "--checkpoint", "kept", "--json")[0] == 0
    options = ("fit", "p.npz", "--checkpoint", "kept", "--json", "--probabilities")
    _, out, said = tepid_here(*options)
    assert _temperature(out) == pytest.approx(tepid.from_logits(z).value, rel=1e-6)
    assert "were there already" not in said


# ---- killed, and done again

_SLOWLY = """
import sys, time
import tepid.records as records
save = records.save
def slowly(*arguments):
    save(*arguments)
    time.sleep(0.3)
records.save = slowly
sys.argv = ["tepid", *sys.argv[1:]]
from tepid.cli.start import main
main()
"""


def _begin(*options):
    command = [sys.executable, "-c", _SLOWLY, "fit", "shards", "--json", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _wait(count, folder=Path("kept")):
    deadline = time.monotonic() + 90
    while not folder.is_dir() or len(list(folder.glob("*.part"))) < count:
        assert time.monotonic() < deadline, "nothing was kept"
        time.sleep(0.02)


@pytest.mark.slow
def test_a_fit_that_is_killed_goes_on_and_leaves_nothing_half_written(fitted):
    undisturbed, _ = fitted()
    for count in (2, 7, 13):
        begun = _begin("--checkpoint", "kept")
        _wait(count)
        begun.send_signal(signal.SIGKILL)
        begun.communicate()
    kept = list(Path("kept").glob("*.part"))
    t, said = fitted("--checkpoint", "kept")
    assert t == pytest.approx(undisturbed, rel=1e-12)
    assert f"{len(kept)} of 18 sums over files" in said


@pytest.mark.slow
def test_a_scheduler_that_is_restarted_finds_the_checkpoint(fitted):
    undisturbed, _ = fitted()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    first = _cluster(port, address)
    try:
        begun = _begin("--checkpoint", "kept", "--engine", "dask", "--scheduler", address)
        _wait(4)
        first[0].kill()
        _, said = begun.communicate(timeout=120)
        assert begun.returncode == 2
        assert said.startswith("tepid: the Dask cluster must stay until the fit is done")
    finally:
        _end(first)
    second = _cluster(port, address)
    try:
        t, said = fitted("--checkpoint", "kept", "--engine", "dask", "--scheduler", address)
    finally:
        _end(second)
    assert t == pytest.approx(undisturbed, rel=1e-9)
    assert "of 18 sums over files were there already" in said


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
