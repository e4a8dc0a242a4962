"""Files that change, wait, claim too much or have odd names: one sentence, and no crash."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tepid
from tests import containers
from tests.needs import needed

TABLE = containers.made(rows=60)
Z, Y = TABLE.logits, TABLE.beside["y"]


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _refusal(call, *args, **options):
    with pytest.raises(tepid.InputError) as caught:
        call(*args, **options)
    said = str(caught.value)
    assert said.isprintable()
    return said


def _refused(result):
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.startswith("tepid: ")
    assert err.count("\n") == 1
    return err


# --- files that change while they are read

WRITERS = {
    ".npy": np.save,
    ".safetensors": lambda path, z: needed("safetensors.numpy").save_file({"logits": z}, path),
}
CHANGE = """
import os, sys
import numpy as np
import tepid

path, moment = sys.argv[1:]

def truncate():
    os.truncate(path, os.path.getsize(path) // 1000)

def on_progress(stage, done, rows):
    if (done < rows) == (moment == "batch"):
        truncate()

try:
    if moment == "iteration":
        batches = tepid.open_source(path).batches(1000)
        next(batches)
        truncate()
        print(sum(float(batch.logits.sum()) for batch in batches))
    elif moment == "opened":
        source = tepid.open_source(path)
        truncate()
        tepid.uts(source)
    elif moment == "labels":
        source = tepid.open_source(np.zeros((100_000, 2)), labels=path)
        truncate()
        print(sum(int(batch.labels.sum()) for batch in source.batches(1000)))
    else:
        tepid.uts(path, engine=tepid.Threads(1, on_progress))
except tepid.InputError as error:
    print(error)
    sys.exit(2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("moment", ["iteration", "opened", "batch", "pass"])
def test_a_file_that_is_truncated_while_it_is_read_is_refused(ending, moment, work):
    z = np.random.default_rng(0).normal(size=(10_000, 200)).astype(np.float32)  # two batches
    path = work / f"z{ending}"
    WRITERS[ending](path, z)
    command = [sys.executable, "-c", CHANGE, str(path), moment]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert f"z{ending} must stay as it is while it is read" in done.stdout


def test_labels_are_not_read_from_a_file_that_is_gone(work):
    path = work / "y.npy"
    np.save(path, np.ones(100_000, int))
    command = [sys.executable, "-c", CHANGE, str(path), "labels"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "100000\n"), done.stderr


@pytest.mark.parametrize("ending", WRITERS)
def test_a_file_that_is_rewritten_between_two_passes_is_refused(ending, work):
    path = work / f"z{ending}"
    WRITERS[ending](path, Z)
    source = tepid.open_source(path)
    assert tepid.uts(source).samples == len(Z)
    WRITERS[ending](path, 2 * Z)  # the same size
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert "must stay as it is" in _refusal(tepid.uts, source)
    path.unlink()
    assert "got none any more" in _refusal(tepid.uts, source)


# --- what is no regular file


def _socket(path):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    return server


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
@pytest.mark.parametrize("ending", [".npy", ".npz", ".csv", ".csv.gz", ".parquet", ".h5", ".jsonl"])
def test_a_fifo_is_refused_and_not_waited_for(ending, work, tepid_here):
    os.mkfifo(work / f"z{ending}")
    signal.alarm(20)  # otherwise this test would wait as the command did
    try:
        assert "regular file" in _refused(tepid_here("fit", f"z{ending}"))
        assert "regular file" in _refusal(tepid.calibrate, Z, work / f"z{ending}")
    finally:
        signal.alarm(0)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_fifo_inside_of_folders_and_stores_is_refused(work, tepid_here):
    Path("parts").mkdir()
    np.save("parts/a.npy", Z)
    os.mkfifo("parts/b.npy")
    containers.write_zarr(work / "z.zarr", TABLE.without("site"))
    os.mkfifo("z.zarr/logits/c/9")
    signal.alarm(20)
    try:
        for given in ("parts", "parts/*.npy", "z.zarr"):
            assert "got a FIFO" in _refused(tepid_here("fit", given))
    finally:
        signal.alarm(0)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_no_loader_waits_for_a_fifo(work, tepid_here):
    os.mkfifo("saved.json")
    os.mkfifo("saved.npz")
    np.save("z.npy", Z)
    signal.alarm(20)
    try:
        for load, path in [
            (tepid.load, "saved.json"),
            (tepid.Summaries.load, "saved.npz"),
            (tepid.scaling.load, "saved.npz"),
            (tepid.online.Monitor.load, "saved.npz"),
        ]:
            assert "got a FIFO or pipe" in _refusal(load, work / path)
        _refused(tepid_here("apply", "saved.json", "z.npy", "-o", "out.npy"))
        _refused(tepid_here("fit", "z.npy", "--classes", "saved.json"))
    finally:
        signal.alarm(0)


def test_a_socket_and_a_device_are_refused(work, tepid_here):
    with _socket(work / "z.npy"):
        assert "got a socket" in _refused(tepid_here("fit", "z.npy"))
    Path("zero.csv").symlink_to("/dev/zero")
    assert "got a device" in _refused(tepid_here("fit", "zero.csv"))


@pytest.mark.parametrize("scheme", ["file", "local"])
def test_a_fifo_behind_a_url_is_refused(work, scheme, tepid_here):
    pytest.importorskip("fsspec")
    (work / "z.zarr").mkdir()
    for name in ("z.npy", "z.csv", "z.zarr/c"):
        os.mkfifo(work / name)
    signal.alarm(60)
    try:
        for name in ("z.npy", "z.csv", "z.zarr"):
            error = _refused(tepid_here("fit", f"{scheme}://{work}/{name}"))
            assert "must be a regular file, got a FIFO or pipe" in error
    finally:
        signal.alarm(0)


def test_standard_input_is_refused_unless_it_is_a_file():
    tepid.temperature_scaling(Z, Y).save("t.json")
    command = [sys.executable, "-c", "import tepid; print(tepid.load('/dev/stdin').samples)"]
    with Path("t.json").open() as file:
        done = subprocess.run(command, stdin=file, capture_output=True, check=True)
        assert done.stdout == b"60\n"
    done = subprocess.run(command, input=b"{}", capture_output=True, check=False)
    assert b"/dev/stdin must be a regular file, got a FIFO or pipe" in done.stderr


def test_a_link_to_a_file_is_a_file():
    np.save("z.npy", Z)
    Path("link.npy").symlink_to("z.npy")
    assert stat.S_ISLNK(os.lstat("link.npy").st_mode)
    assert tepid.uts("link.npy").samples == len(Z)


# --- one sentence is one line

ODD = "a\nb\r\u2028\x1b[31mc"


def test_names_with_line_breaks_are_shown_on_one_line(work, tepid_here):
    odd = f"{ODD}.npy"
    Path(odd).write_bytes(b"no array")
    assert "a\\nb\\r" in _refused(tepid_here("fit", odd))
    assert "a\\nb\\r" in _refusal(tepid.uts, odd)
    _refusal(tepid.uts, f"missing {odd}")
    _refusal(tepid.load, odd)
    _refused(tepid_here("apply", f"missing {odd}", odd, "-o", "out.npy"))
    _refused(tepid_here("fit", odd, "-o", f"none/{ODD}"))
    # names of columns, groups, classes and members
    table = containers.Table(Z, {"y": Y}, tuple(f"{ODD}{k}x" for k in range(4)))
    frame = containers.pandas_numbered(table)
    assert "a\\nb" in _refusal(tepid.uts, frame)
    _refusal(tepid.uts, frame, columns=[ODD])
    _refusal(tepid.calibrate, Z, [ODD] * len(Z), classes=["0", "1", "2", f"3{ODD}"])
    _refusal(tepid.calibrate, Z, Y, classes=[ODD, ODD, "c", "d"])
    containers.write_parquet(work / "z.parquet", containers.arrow_numbered(table))
    assert "a\\nb" in _refused(tepid_here("fit", "z.parquet"))
    np.savez("z.npz", **{ODD: Z, "b": Z})
    assert "a\\nb" in _refused(tepid_here("fit", "z.npz"))
    t = tepid.calibrate(Z, Y, groups=[ODD] * len(Z))
    t.save("t.json")
    stored = json.loads(Path("t.json").read_text("utf-8"))
    stored["groups"][ODD]["temperature"] = -1
    Path("t.json").write_text(json.dumps(stored), "utf-8")
    assert "a\\nb" in _refusal(tepid.load, "t.json")


def test_a_refusal_does_not_repeat_a_long_value(tepid_here):
    Path("z.csv").write_text("x" * 50_000 + ",b\n1,2\n", "utf-8")
    said = _refused(tepid_here("fit", "z.csv"))
    assert len(said) < 700
    assert said.startswith("tepid: columns")


# --- optional packages

BLOCKED = (
    "dask", "distributed", "pyspark", "torch", "torchvision", "onnx", "onnxruntime", "sklearn",
    "prometheus_client", "pandas", "polars", "pyarrow", "h5py", "zarr", "safetensors", "matplotlib",
    "scipy", "fsspec",
)  # fmt: skip
IMPORT_ALL = f"""
import importlib, pkgutil, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
import tepid

for module in pkgutil.walk_packages(tepid.__path__, "tepid.", onerror=lambda name: None):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            print(module.name, "|", error)
"""


def test_a_module_without_its_extra_names_the_extra():
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=True
    )
    said = dict(line.split(" | ") for line in done.stdout.splitlines())
    for module, extra in {
        "tepid.engines.dask": "dask",
        "tepid.engines.spark": "spark",
        "tepid.lab.training": "lab",
        "tepid.onnx": "onnx",
        "tepid.sklearn": "sklearn",
        "tepid.torch": "torch",
    }.items():
        assert said[module].endswith(f": pip install 'tepid[{extra}]'")
    assert all("pip install 'tepid[" in sentence for sentence in said.values())


def test_an_engine_or_a_gauge_without_its_package_names_the_extra(monkeypatch):
    for name in ("dask", "prometheus_client"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "tepid.engines.dask", raising=False)
    with pytest.raises(ImportError, match=r"Dask: pip install 'tepid\[dask\]'"):
        __import__("tepid.engines.dask")
    monitor = tepid.online.Monitor.from_reference(Z, 1.5, chunk=20)
    said = _refusal(tepid.online.prometheus.exposition, monitor)
    assert "pip install 'tepid[online]'" in said


# --- arrays that claim more than is stored


def _sparse_zarr(path, rows):
    options = {"shape": (rows, 4), "chunks": (1000, 4), "dtype": "f4"}
    group = needed("zarr").open_group(str(path), mode="w")
    group.create_array("logits", **options)[:1000] = np.resize(Z, (1000, 4))


def _sparse_hdf5(path, rows):
    with needed("h5py").File(path, "w") as file:
        file.create_dataset("logits", (rows, 4), "f4", chunks=(1000, 4))[:1000] = np.resize(
            Z, (1000, 4)
        )


def _empty_hdf5(path, rows):
    with needed("h5py").File(path, "w") as file:
        file.create_dataset("logits", (rows, 4), "f4")


SPARSE = {".zarr": _sparse_zarr, ".h5": _sparse_hdf5, ".hdf5": _empty_hdf5}


@pytest.mark.parametrize("ending", SPARSE)
def test_rows_that_are_claimed_but_not_stored_are_refused(ending, work, tepid_here):
    path = work / f"z{ending}"
    SPARSE[ending](path, 1 << 31)
    assert "chunks are stored" in _refused(tepid_here("fit", f"z{ending}"))
    assert "claims the shape (2147483648, 4)" in _refusal(tepid.uts, path)


def test_many_small_chunks_that_are_not_stored_are_refused(work):
    array = needed("zarr").create_array(
        str(work / "z.zarr"), shape=(12, 65_535), chunks=(5, 1), dtype="f4"
    )
    array[:, :2] = Z[:12, :2]
    assert "only 6 of 196605 chunks are stored" in _refusal(tepid.uts, "z.zarr")


@pytest.mark.parametrize("ending", [".zarr", ".h5"])
def test_chunks_of_zeros_may_be_missing(ending, work):
    path = work / f"z{ending}"
    SPARSE[ending](path, 3000)
    logits = np.concatenate([batch.logits for batch in tepid.open_source(path).batches(1 << 14)])
    assert logits.shape == (3000, 4)
    assert not logits[1000:].any()


# --- text


def test_zero_bytes_in_text_are_refused(tepid_here):
    """NumPy drops them at the end of a text, so that two ids were one."""
    Path("answers.csv").write_bytes(b"id,label\n3,1\n3\x00,0\n")
    np.save("z.npy", Z)
    said = _refused(tepid_here("fit", "z.npy", "--labels", "answers.csv"))
    assert "zero byte at line 3" in said
