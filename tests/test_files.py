"""Every format of files: one file, many files, and files behind URLs."""

import contextlib
import functools
import http.server
import itertools
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tepid
from tepid.sources import open_column, open_source
from tests import containers, written
from tests.needs import needed

CUTS = (0, 1, 100, 301)
SPOOLED = ("csv", "csv.gz", "parquet", "feather", "npz", "h5", "pt")
READERS = {"parquet": "pyarrow", "h5": "h5py", "safetensors": "safetensors", "pt": "torch"}


@pytest.fixture(scope="module")
def made():
    """Float32 logits that float16 holds exactly, with labels."""
    rng = np.random.default_rng(5)
    posterior = rng.integers(-12, 13, size=(301, 4)) / 4
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    return (2 * posterior).astype(np.float32), labels


def _parts(folder, kind, made, cuts=CUTS):
    """The rows in several files, by default of 1, 99 and 201 rows."""
    folder.mkdir(exist_ok=True)
    for i, (a, b) in enumerate(itertools.pairwise(cuts)):
        written.write(folder / f"part-{i}.{kind}", made[0][a:b], made[1][a:b])
    return folder


def _logits(source, size=64):
    return np.concatenate([np.array(batch.logits) for batch in source.batches(size)])


def _refusal(*args, **options):
    with pytest.raises(tepid.InputError) as caught:
        open_source(*args, **options).whole()
    return str(caught.value)


def _close(t, known):
    assert t.value == pytest.approx(known.value, rel=1e-9)


# --- one file


@pytest.mark.parametrize("kind", written.EVERY)
def test_a_file_of_any_format_is_its_rows(kind, made, tmp_path):
    path = written.write(tmp_path / f"z.{kind}", *made)
    source = open_source(path)
    assert (source.classes, source.name) in ((4, path.name), (None, path.name))
    # The first pass decodes; the others may read what it stored.
    for size in (64, 7, 1000):
        batches = list(source.batches(size))
        np.testing.assert_array_equal(np.concatenate([b.logits for b in batches]), made[0])
        assert max(len(b.logits) for b in batches) <= size
        starts = np.cumsum([0, *(len(b.logits) for b in batches)])[:-1].tolist()
        assert [b.start for b in batches] == [b.row for b in batches] == starts
    labels = made[1] if kind == "npy" else f"{path}#{written.label_name(kind)}"
    np.testing.assert_array_equal(open_column(labels, "labels"), made[1])
    _close(tepid.temperature_scaling(path, labels), tepid.temperature_scaling(*made))


@pytest.mark.parametrize(
    "kind", ["npy", "npz", "h5", "zarr", "safetensors", "pt", "parquet", "columns.parquet"]
)
@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.int64])
def test_numbers_of_other_types_are_read_as_they_are(kind, dtype, made, tmp_path):
    z = made[0].astype(dtype)
    path = written.write(tmp_path / f"z.{kind}", z, made[1])
    whole = open_source(path).whole().logits
    assert whole.dtype == dtype
    np.testing.assert_array_equal(whole, z)
    _close(tepid.temperature_scaling(path, made[1]), tepid.temperature_scaling(z, made[1]))


def test_brain_floats_are_read_from_tensors(made, tmp_path):
    torch, safetensors = needed("torch"), needed("safetensors.torch")
    tensor = torch.as_tensor(made[0]).bfloat16()
    torch.save(tensor, tmp_path / "z.pt")
    np.testing.assert_array_equal(open_source(tmp_path / "z.pt").whole().logits, made[0])
    safetensors.save_file({"logits": tensor}, tmp_path / "z.safetensors")
    np.testing.assert_array_equal(open_source(tmp_path / "z.safetensors").whole().logits, made[0])


def test_a_column_of_a_table_is_named_by_a_hash(made, tmp_path):
    pa, pq = needed("pyarrow"), needed("pyarrow.parquet")
    rows = {"scores": list(-made[0]), "other": list(made[0]), "truth": made[1]}
    pq.write_table(pa.table(rows), tmp_path / "z.parquet")
    path = f"{tmp_path}/z.parquet"
    np.testing.assert_array_equal(open_source(f"{path}#scores").whole().logits, -made[0])
    np.testing.assert_array_equal(open_column(f"{path}#truth", "labels"), made[1])
    assert "'scores', 'other', 'truth' of z.parquet, got 'x'" in _refusal(f"{path}#x")
    assert "columns must go without #scores" in _refusal(f"{path}#scores", columns="other")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ([1.0, 2.0], "z.parquet must have 3 classes in every row, got 2 at row 100"),
        (None, "z.parquet must hold a list in every row of 'logits', got none at row 100"),
        ([1.0, None, 2.0], r"z.parquet must be finite.* got nan for class 1 at row 100"),
    ],
)
def test_a_bad_row_of_lists_is_named(bad, said, tmp_path):
    pa, pq = needed("pyarrow"), needed("pyarrow.parquet")
    rows = [[1.0, 2.0, 3.0]] * 100
    table = pa.table({"logits": [*rows, bad, *rows]})
    pq.write_table(table, tmp_path / "z.parquet", row_group_size=80)
    with pytest.raises(tepid.InputError, match=f"^{said}$"):
        tepid.uts(tmp_path / "z.parquet")


@pytest.mark.parametrize("columns", ["name", "words", ["score", "name"]])
def test_text_is_no_logits(columns, tmp_path):
    pa, pq = needed("pyarrow"), needed("pyarrow.parquet")
    table = pa.table({"words": [["a", "b"]], "score": [1.0], "name": ["x"]})
    pq.write_table(table, tmp_path / "z.parquet")
    with pytest.raises(tepid.InputError):
        tepid.match_accuracy(tmp_path / "z.parquet", 0.6, columns=columns)
    assert "numbers" in _refusal(tmp_path / "z.parquet", columns=columns)


@pytest.mark.parametrize("kind", written.ARRAYS)
def test_a_class_axis_counts_for_arrays_of_every_format(kind, made, tmp_path):
    grid = np.moveaxis(made[0].reshape(7, 43, 4), -1, 1)
    path = written.write(tmp_path / f"z.{kind}", grid)
    t = tepid.uts(path, class_axis=1)
    assert (t.samples, t.classes) == (301, 4)
    _close(t, tepid.uts(made[0]))
    assert tepid.uts([path, path], class_axis=1).samples == 602
    assert "class_axis" in _refusal(path)


@pytest.mark.parametrize("kind", written.ARRAYS)
@pytest.mark.parametrize("shape", [(200,), (200, 1)])
def test_binary_logits_are_read_from_every_array(kind, shape, tmp_path, rng):
    z = (3 * rng.normal(size=shape)).astype(np.float32)
    path = written.write(tmp_path / f"z.{kind}", z)
    source = open_source(path)
    assert source.binary
    t = tepid.uts(source)
    assert (t.samples, t.classes) == (200, 2)
    _close(t, tepid.uts(z))


@pytest.mark.parametrize("kind", [kind for kind in written.ARRAYS if kind != "npy"])
def test_a_missing_member_lists_the_members(kind, made, tmp_path):
    path = written.write(tmp_path / f"z.{kind}", *made)
    said = _refusal(f"{path}#x")
    assert said.startswith(f"z.{kind} must have a member 'x', got ")
    assert "labels" in said


def test_an_array_in_a_group_is_named_by_its_path(made, tmp_path):
    h5py, zarr = needed("h5py"), needed("zarr")
    with h5py.File(tmp_path / "z.h5", "w") as file:
        file["run/logits"] = made[0]
    group = zarr.open_group(str(tmp_path / "z.zarr"), mode="w").create_group("run")
    group.create_array("logits", data=made[0])
    zarr.create_array(str(tmp_path / "bare.zarr"), data=made[0])
    for path in ("z.h5#run/logits", "z.zarr#run/logits", "bare.zarr"):
        np.testing.assert_array_equal(open_source(f"{tmp_path}/{path}").whole().logits, made[0])
    said = "bare.zarr must be a group to have a member, got 'x'"
    assert _refusal(f"{tmp_path}/bare.zarr#x") == said


@pytest.mark.parametrize(
    ("module", "kind", "extra"),
    [("pyarrow", "parquet", "parquet"), ("h5py", "h5", "files"), ("zarr", "zarr", "files"),
     ("safetensors", "safetensors", "files"), ("torch", "pt", "torch"),
     ("pyarrow", "csv.zst", "parquet")],
)  # fmt: skip
def test_a_missing_package_is_named(module, kind, extra, made, tmp_path, monkeypatch):
    path = written.write(tmp_path / f"z.{kind}", *made)
    for name in (module, f"{module}.dataset"):
        monkeypatch.setitem(sys.modules, name, None)
    said = f"Reading .{kind.rpartition('.')[2]} needs {module}: pip install 'tepid[{extra}]'"
    assert _refusal(path) == said


@pytest.mark.slow
def test_no_package_is_imported_for_a_format_that_does_without(tmp_path):
    np.save(tmp_path / "z.npy", np.eye(3))
    names = "('pyarrow', 'zarr', 'h5py', 'safetensors', 'fsspec', 'torch', 'narwhals')"
    code = (
        f"import sys, tepid; tepid.temperature_scaling({str(tmp_path / 'z.npy')!r}, [0, 1, 2]); "
        f"print([m for m in {names} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- many files


@pytest.mark.parametrize("kind", written.EVERY)
def test_a_folder_a_glob_and_a_list_are_the_rows_of_all_files(kind, made, tmp_path):
    folder = _parts(tmp_path / "parts", kind, made)
    for given in (str(folder), f"{folder}/*.{kind}", sorted(folder.iterdir())):
        source = open_source(given)
        assert [file.name for file in source.files()] == [f"part-{i}.{kind}" for i in range(3)]
        np.testing.assert_array_equal(source.whole().logits, made[0])
    labels = made[1] if kind == "npy" else written.label_name(kind)
    t = tepid.temperature_scaling(folder, labels)
    assert t.samples == 301
    _close(t, tepid.temperature_scaling(*made))


def test_files_come_in_natural_order_or_as_they_are_listed(made, tmp_path):
    for i in (10, 9, 2, 1):
        np.save(tmp_path / f"part-{i}.npy", made[0][i : i + 1])
    for given in (tmp_path, f"{tmp_path}/part-*.npy"):
        np.testing.assert_array_equal(_logits(open_source(given)), made[0][[1, 2, 9, 10]])
    listed = [tmp_path / f"part-{i}.npy" for i in (9, 10, 1)]
    np.testing.assert_array_equal(_logits(open_source(listed)), made[0][[9, 10, 1]])


def test_folders_below_count_and_what_is_hidden_does_not(made, tmp_path):
    for name in ("site=a/part-0", "site=b/part-0", "_temporary/part-9", ".old/part-9"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        np.save(tmp_path / f"{name}.npy", made[0][:50])
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "README.md").touch()
    source = open_source(tmp_path)
    assert [file.name for file in source.files()] == ["site=a/part-0.npy", "site=b/part-0.npy"]
    assert source.rows == 100


def test_arrays_and_tables_may_lie_in_one_folder(made, tmp_path):
    z = made[0]
    np.save(tmp_path / "a.npy", z[:30])
    np.savez(tmp_path / "b.npz", logits=z[30:60])
    written.write(tmp_path / "c.csv", z[60:90], made[1][60:90])
    written.write(tmp_path / "d.parquet", z[90:])
    source = open_source(tmp_path)
    assert source.rows is None  # the rows of a CSV file are not counted before it is read
    np.testing.assert_array_equal(source.whole().logits, z)


@pytest.mark.parametrize("kind", ["npy", "npz", "columns.parquet", "csv", "safetensors"])
def test_files_without_rows_count_nothing(kind, made, tmp_path):
    folder = _parts(tmp_path / "parts", kind, made, cuts=(0, 0, 301, 301))
    for labels in (made[1], None if kind == "npy" else written.label_name(kind)):
        np.testing.assert_array_equal(_logits(open_source(folder, labels=labels)), made[0])
    with pytest.raises(tepid.InputError, match=r"must have at least one row, got none$"):
        tepid.uts([folder / f"part-0.{kind}", folder / f"part-2.{kind}"])


@pytest.mark.parametrize("kind", written.EVERY)
def test_a_source_travels_and_is_opened_where_it_is_read(kind, made, tmp_path, monkeypatch):
    folder = _parts(tmp_path / "parts", kind, made)
    monkeypatch.chdir(folder)
    labels = None if kind == "npy" else written.label_name(kind)
    source = open_source(f"*.{kind}", labels=labels)
    assert all(part.portable for part in source.parts)
    assert sum(len(b.logits) for b in source.batches(50)) == 301  # what was stored stays here
    monkeypatch.chdir("/")
    sent = pickle.dumps(source)
    assert len(sent) < 4000
    whole = pickle.loads(sent).whole()
    np.testing.assert_array_equal(whole.logits, made[0])
    if labels:
        np.testing.assert_array_equal(whole.labels, made[1])


def test_a_large_array_is_read_in_parts(tmp_path):
    path = tmp_path / "z.npy"
    rows = 130_000
    big = np.lib.format.open_memmap(path, "w+", np.int8, (rows, 1000))  # a sparse file
    big[-1] = 1
    big.flush()
    parts = open_source(path).parts
    assert len(parts) > 1
    assert sum(part.rows for part in parts) == rows
    *_, last = pickle.loads(pickle.dumps(parts[-1])).batches(1 << 14)
    assert last.row + len(last.logits) == rows
    np.testing.assert_array_equal(last.logits[-1], np.ones(1000))


@pytest.mark.parametrize("kind", ["npy", "csv", "parquet"])
def test_labels_and_weights_over_many_files(kind, made, rng, tmp_path):
    folder = _parts(tmp_path / "z", kind, made)
    labels = tmp_path / "y"
    labels.mkdir()
    for i, (a, b) in enumerate(itertools.pairwise(CUTS)):
        np.save(labels / f"y-{i}.npy", made[1][a:b])
    np.save(tmp_path / "all.npy", made[1])
    weight = rng.random(301)
    known = tepid.temperature_scaling(*made, sample_weight=weight)
    listed = sorted(labels.iterdir())
    for given in (labels, f"{labels}/*.npy", listed, made[1], tmp_path / "all.npy"):
        source = open_source(folder, labels=given, sample_weight=weight)
        np.testing.assert_array_equal(source.column("labels"), made[1])
        _close(tepid.temperature_scaling(source), known)
        if kind == "csv":  # of which the rows, and so those of an array, are not counted
            continue
        for file, (a, b) in zip(source.files(), itertools.pairwise(CUTS), strict=True):
            whole = file.whole()
            np.testing.assert_array_equal(whole.logits, made[0][a:b])
            np.testing.assert_array_equal(whole.labels, made[1][a:b])
            np.testing.assert_array_equal(whole.weight, weight[a:b])


def test_files_of_labels_that_do_not_match_are_refused(made, tmp_path):
    folder = _parts(tmp_path / "z", "npy", made)
    (tmp_path / "y").mkdir()
    for i, (a, b) in enumerate(((0, 1), (1, 99), (99, 301))):
        np.save(tmp_path / "y" / f"y-{i}.npy", made[1][a:b])
    said = _refusal(folder, labels=tmp_path / "y")
    assert said == "labels of part-1.npy must have one entry for each of the 99 rows, got 98"
    (tmp_path / "y" / "y-2.npy").unlink()
    said = "labels must be one file, or one for each of the 3 files of logits, got 2"
    assert _refusal(folder, labels=tmp_path / "y") == said


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "columns.parquet", "csv", "h5"])
def test_the_file_with_other_classes_is_named(kind, made, tmp_path):
    folder = _parts(tmp_path / "parts", kind, made)
    written.write(folder / f"part-1.{kind}", made[0][:5, :3], made[1][:5])
    said = _refusal(folder)
    assert re.match(rf"part-1.{kind} must have (the )?4 classes .*, got 3", said)


def test_the_file_that_lacks_a_column_is_named(made, tmp_path):
    folder = _parts(tmp_path / "a", "parquet", made)
    written.write(folder / "part-1.parquet", made[0])
    assert "labels must name a column of part-1.parquet" in _refusal(folder, labels="label")


@pytest.mark.parametrize("kind", written.EVERY)
def test_a_bad_row_or_label_is_named_with_its_file(kind, made, tmp_path):
    z, y = made[0].copy(), made[1].copy()
    z[150, 2], y[150] = np.nan, 4
    folder = _parts(tmp_path / "bad", kind, (z, made[1]))
    with pytest.raises(tepid.InputError) as caught:
        tepid.uts(folder)
    assert str(caught.value).startswith(f"part-2.{kind} must be finite")
    assert str(caught.value).endswith("got nan for class 2 at row 50")
    folder = _parts(tmp_path / "labels", kind, (made[0], y))
    for labels in (y, *([] if kind == "npy" else [written.label_name(kind)])):
        with pytest.raises(tepid.InputError, match=rf"labels of part-2.{kind} .* at row 50$"):
            tepid.temperature_scaling(folder, labels)


@pytest.mark.parametrize("kind", ["npy", "csv", "parquet"])
def test_probabilities_are_taken_by_their_logarithm_in_every_file(kind, made, tmp_path):
    p = np.exp(made[0].astype(float))
    p /= p.sum(axis=1, keepdims=True)
    folder = _parts(tmp_path / "parts", kind, (p, made[1]))
    t = tepid.uts(folder, probabilities=True)
    _close(t, tepid.uts(tepid.validation.logits_of(p)))
    p[150] *= 2
    _parts(folder, kind, (p, made[1]))
    with pytest.raises(tepid.InputError, match=rf"probabilities of part-2.{kind} .* at row 50$"):
        tepid.uts(folder, probabilities=True)


# --- decoding once


@pytest.mark.parametrize("room", [True, False])
@pytest.mark.parametrize("kind", SPOOLED)
def test_an_opened_file_is_decoded_once_if_there_is_room(kind, room, made, tmp_path, monkeypatch):
    if not room:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    path = written.write(tmp_path / f"z.{kind}", *made)
    other = made[0][::-1] / 2, made[1][::-1].copy()
    labels = open_source(path, labels=written.label_name(kind))
    plain = open_source(path)
    for source, fit in ((labels, tepid.temperature_scaling), (plain, tepid.uts)):
        _close(fit(source), fit(*made[: 1 + source.labeled]))
    path.unlink()
    written.write(path, *other)
    rows = made if room else other
    for source, fit in ((labels, tepid.temperature_scaling), (plain, tepid.uts)):
        _close(fit(source), fit(*rows[: 1 + source.labeled]))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_pass_that_stops_early_stores_nothing(kind, made, tmp_path):
    source = open_source(written.write(tmp_path / f"z.{kind}", *made))
    stopped, started = source.batches(50), source.batches(50)
    for batches in (stopped, started):
        np.testing.assert_array_equal(next(batches).logits, made[0][:50])
    stopped.close()
    np.testing.assert_array_equal(_logits(source), made[0])
    rest = np.concatenate([batch.logits for batch in started])
    np.testing.assert_array_equal(rest, made[0][50:])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize("fault", ["no folder", "full"])
def test_a_temporary_folder_that_cannot_be_used_does_not_matter(fault, made, tmp_path, monkeypatch):
    path = written.write(tmp_path / "z.csv", *made)
    if fault == "no folder":
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    else:
        full = lambda **_: open("/dev/full", "w+b")  # noqa: E731, PTH123, SIM115
        monkeypatch.setattr(tempfile, "TemporaryFile", full)
    _close(tepid.uts(path), tepid.uts(made[0]))


def _resident():
    """Bytes of mapped files in memory; zero where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text("utf-8").splitlines() if status.exists() else []
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("RssFile:"))


def _write_tall(path, kind, table):
    if kind == "feather":
        rows = containers.arrow_list(table)
        needed("pyarrow.feather").write_feather(rows, str(path), chunksize=5000)
    elif kind == "parquet":
        containers.write_parquet(path, containers.arrow_list(table), 5000)
    else:
        written.write(path, table.logits)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "npy", "h5", "parquet", "feather"])
def test_memory_does_not_grow_with_the_file(kind, tmp_path):
    pa = needed("pyarrow")
    rows = 20_000 if "csv" in kind else 320_000
    z = np.tile(np.arange(16.0, dtype=np.float32).reshape(1, 16), (rows, 3))
    tall = containers.Table(z, {}, tuple(f"z{k}" for k in range(48)))
    source = open_source(_write_tall(tmp_path / f"z.{kind}", kind, tall))
    next(source.batches(rows // 64, once=True))  # imports the reader
    resident, most, mapped = _resident(), [], []
    tracemalloc.start()
    for _ in range(2):
        before = pa.total_allocated_bytes() + tracemalloc.get_traced_memory()[0]
        for batch in source.batches(rows // 64):
            most.append(pa.total_allocated_bytes() + tracemalloc.get_traced_memory()[0] - before)
            mapped.append(_resident() - resident)
            time.sleep(0.003)  # a reader that is ahead must wait
            del batch
    tracemalloc.stop()
    assert max(most) < z.nbytes / 2
    assert max(mapped) < 32 << 20


# --- URLs


@pytest.fixture
def memory():
    system = needed("fsspec").filesystem("memory")
    yield system
    system.rm("/", recursive=True)


@pytest.fixture
def served(tmp_path):
    """A folder, and the URL of a web server for it that cannot send ranges of files."""
    needed("aiohttp")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def copyfile(self, *files):
            with contextlib.suppress(ConnectionError):  # the reader may close early
                super().copyfile(*files)

    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("kind", written.EVERY)
def test_files_of_a_file_system_are_read_alone_and_together(kind, made, tmp_path, memory):
    folder = _parts(tmp_path / "parts", kind, made)
    memory.put(f"{folder}/", "/bucket", recursive=True)
    labels = None if kind == "npy" else written.label_name(kind)
    alone = open_source(f"memory://bucket/part-2.{kind}", labels=labels)
    assert alone.name == f"part-2.{kind}"
    np.testing.assert_array_equal(alone.whole().logits, made[0][100:])
    if labels:
        np.testing.assert_array_equal(alone.whole().labels, made[1][100:])
    folders = ["memory://bucket/", "memory://bucket"] if kind != "zarr" else []
    for url in [*folders, f"memory://bucket/*.{kind}"]:
        source = open_source(url)
        assert [file.name for file in source.files()] == [f"part-{i}.{kind}" for i in range(3)]
        np.testing.assert_array_equal(_logits(source), made[0])
    memory.rm("/bucket", recursive=True)  # the files were fetched in the first pass
    _close(tepid.uts(source), tepid.uts(made[0]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in written.EVERY if kind != "zarr"])
def test_files_of_a_web_server_are_read(kind, made, served):
    folder, url = served
    _parts(folder, kind, made)
    urls = [f"{url}/part-{i}.{kind}" for i in range(3)]
    for given in (urls, f"{url}/part-*.{kind}"):
        np.testing.assert_array_equal(_logits(open_source(given)), made[0])
    queried = open_source(f"{url}/part-2.{kind}?key=1/2")
    assert queried.name == f"part-2.{kind}"
    np.testing.assert_array_equal(queried.whole().logits, made[0][100:])


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "parquet", "h5", "safetensors", "pt"])
def test_a_url_that_leads_nowhere_is_named(kind, served):
    if kind in READERS:  # without its reader, that is refused first
        needed(READERS[kind])
    for url in (f"memory://no.{kind}", f"{served[1]}/no.{kind}"):
        assert _refusal(url) == f"{url} must exist, got no such file"


@pytest.mark.usefixtures("memory")
def test_a_url_that_cannot_be_opened_is_refused_with_the_reason(monkeypatch):
    for url in ("memory://no/*.npy", "memory://no/"):
        said = f"logits file must be a file, or a folder or glob with files, got {url}"
        assert _refusal(url) == said
    said = _refusal("nonsense://z.npy")
    assert said.startswith("nonsense://z.npy must have a protocol that fsspec knows, got ")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "s3fs", None)
        assert _refusal("s3://bucket/z.npy").startswith("s3://bucket/z.npy needs a driver: ")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    said = "Opening memory://no.npy needs fsspec: pip install 'tepid[remote]'"
    assert _refusal("memory://no.npy") == said


@pytest.mark.skipif(os.name == "nt", reason="no file can have these names")
@pytest.mark.parametrize("name", ["Z.NPY", "run#3.npy", "z.2.npy", "a [1].npy", "what?.npy"])
def test_a_file_is_read_whatever_its_name(name, made, tmp_path):
    with (tmp_path / name).open("wb") as file:
        np.save(file, made[0])
    for given in (tmp_path / name, str(tmp_path / name), tmp_path):
        source = open_source(given)
        np.testing.assert_array_equal(_logits(source), made[0])
        assert source.files()[0].name == name
