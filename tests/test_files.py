"""Every format of files, alone and as sets of many, here and behind URLs."""

import contextlib
import dataclasses
import functools
import http.server
import itertools
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tepid
from tepid.sources import open_column, open_source, places
from tepid.sources.ahead import reading_ahead
from tepid.sources.block import Carried
from tests import written


@pytest.fixture(scope="module")
def made():
    """Float32 logits that float16 holds exactly, with labels."""
    rng = np.random.default_rng(5)
    posterior = rng.integers(-12, 13, size=(301, 4)) / 4
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    return (2 * posterior).astype(np.float32), labels


def _shards(folder, kind, made, cuts=(0, 1, 100), names="part-{}"):
    """The rows in four files, of which the first is empty where the format can be."""
    folder.mkdir(exist_ok=True)
    ends = [*cuts, len(made[0])]
    for i, (a, b) in enumerate(itertools.pairwise(ends)):
        written.write(folder / f"{names.format(i)}.{kind}", made[0][a:b], made[1][a:b])
    return folder


def _refusal(*args, **options):
    with pytest.raises(tepid.InputError) as caught:
        list(open_source(*args, **options).blocks(64))
    return str(caught.value)


# --- one file


@pytest.mark.parametrize("kind", written.EVERY)
def test_a_file_of_any_format_is_its_rows(kind, made, tmp_path):
    path = written.write(tmp_path / f"z.{kind}", *made)
    source = open_source(path)
    assert (source.classes, source.name) == (4, path.name)
    for rows in (7, 64, 1000):
        blocks = [np.array(block.logits) for block in source.blocks(rows)]
        np.testing.assert_array_equal(np.concatenate(blocks), made[0])
        assert max(map(len, blocks)) <= rows
    assert float(tepid.from_labels(path, made[1])) == pytest.approx(
        float(tepid.from_labels(*made)), rel=1e-9
    )


@pytest.mark.parametrize("kind", [kind for kind in written.EVERY if kind != "npy"])
def test_the_labels_of_a_file_are_beside_its_logits(kind, made, tmp_path):
    path = written.write(tmp_path / f"z.{kind}", *made)
    np.testing.assert_array_equal(open_column(path, "labels"), made[1])
    known = float(tepid.from_labels(*made))
    assert float(tepid.from_labels(path, path)) == pytest.approx(known, rel=1e-9)
    name = "label" if kind in (*written.TABLES, *written.TEXTS) else "labels"
    assert float(tepid.from_labels(path, name)) == pytest.approx(known, rel=1e-9)
    assert float(tepid.from_labels(path, f"{path}#{name}")) == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize("kind", written.TABLES)
def test_labels_come_with_a_table_of_arrow(kind, made, tmp_path):
    path = written.write(tmp_path / f"z.{kind}", *made)
    source = open_source(path)
    assert isinstance(source.labels, Carried)
    np.testing.assert_array_equal(np.asarray(source.labels), made[1])
    assert float(tepid.from_labels(path)) == pytest.approx(
        float(tepid.from_labels(*made)), rel=1e-9
    )
    plain = tepid.from_logits(made[0])
    assert float(tepid.from_logits(path)) == pytest.approx(float(plain), rel=1e-9)


@pytest.mark.parametrize("kind", ["parquet", "fixed.parquet", "columns.parquet", "h5", "npy"])
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_numbers_of_other_sizes_are_read_as_they_are(kind, dtype, made, tmp_path):
    path = written.write(tmp_path / f"z.{kind}", made[0].astype(dtype), made[1])
    block = next(open_source(path).blocks(10))
    assert block.logits.dtype == dtype
    assert float(tepid.from_labels(path, made[1])) == pytest.approx(
        float(tepid.from_labels(made[0].astype(dtype), made[1])), rel=1e-9
    )


def test_brain_floats_are_read_from_tensors(made, tmp_path):
    torch = pytest.importorskip("torch", reason="it writes these files")
    safetensors = pytest.importorskip("safetensors.torch", reason="it writes these files")
    tensor = torch.as_tensor(made[0]).bfloat16()
    torch.save(tensor, tmp_path / "z.pt")
    safetensors.save_file({"logits": tensor}, tmp_path / "z.safetensors")
    for name in ("z.pt", "z.safetensors"):
        np.testing.assert_array_equal(open_source(tmp_path / name).whole(), made[0])


def test_a_column_of_a_table_is_named_behind_a_hash(made, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet", reason="these files need pyarrow")
    rows = written.table(made[0], made[1], scores=list(-made[0]), truth=made[1])
    pq.write_table(rows, tmp_path / "z.parquet")
    np.testing.assert_array_equal(open_source(tmp_path / "z.parquet").whole(), made[0])
    np.testing.assert_array_equal(open_source(f"{tmp_path}/z.parquet#scores").whole(), -made[0])
    np.testing.assert_array_equal(open_column(f"{tmp_path}/z.parquet#truth", "labels"), made[1])
    said = _refusal(f"{tmp_path}/z.parquet#nothing")
    assert said == ("z.parquet must have a column 'nothing', got logits, label, scores, truth")


def test_weights_and_groups_are_columns_of_a_table(made, tmp_path, rng):
    u, site = rng.random(301), np.where(np.arange(301) % 3, "clinic", "field")
    known = tepid.from_labels(*made, sample_weight=u, groups=site)
    for kind in ("parquet", "columns.parquet", "csv.gz"):
        path = written.write(tmp_path / f"z.{kind}", *made, weight=u, site=site)
        source = open_source([path], labels="label", sample_weight="weight", groups="site")
        assert source.classes == 4
        found = tepid.from_labels(source)
        assert found.value == pytest.approx(known.value, rel=1e-9)
        for name in ("clinic", "field"):
            assert found.groups[name].value == pytest.approx(known.groups[name].value, rel=1e-9)


def test_other_columns_of_a_table_are_no_logits(made, tmp_path):
    path = written.write(
        tmp_path / "z.columns.parquet", *made, weight=np.ones(301), id=np.arange(301),
        name=["a"] * 301, group=np.ones(301),
    )  # fmt: skip
    np.testing.assert_array_equal(open_source(path).whole(), made[0])


def test_a_table_without_logits_says_what_it_has(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="these files need pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"id": [1, 2], "label": [0, 1]}), tmp_path / "z.parquet")
    assert _refusal(tmp_path / "z.parquet") == (
        "z.parquet must have a column 'logits' of lists, or one of floating-point numbers for each "
        "class, got id (int64), label (int64)"
    )


def test_a_row_of_another_length_or_of_none_is_named(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="these files need pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    rows = [[1.0, 2.0, 3.0]] * 100
    pq.write_table(pa.table({"logits": [*rows, [1.0, 2.0], *rows]}), tmp_path / "z.parquet")
    said = "z.parquet must have 3 classes in every row, got 2 at row 100"
    assert _refusal(tmp_path / "z.parquet") == said
    pq.write_table(pa.table({"logits": [*rows, None]}), tmp_path / "z.parquet")
    said = "z.parquet must hold a list in every row of 'logits', got none at row 100"
    assert _refusal(tmp_path / "z.parquet") == said
    pq.write_table(pa.table({"logits": [*rows, [1.0, None, 2.0]]}), tmp_path / "z.parquet")
    with pytest.raises(tepid.InputError, match=r"^z.parquet .* got nan for class 1 at row 100$"):
        tepid.from_logits(tmp_path / "z.parquet")


def test_a_column_of_text_is_no_logits(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="these files need pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    words = pa.table({"logits": [["a", "b"]], "score": [1.0], "name": ["x"]})
    pq.write_table(words, tmp_path / "z.parquet")
    np.testing.assert_array_equal(open_source(tmp_path / "z.parquet").whole(), [[0, 1]])
    for name, form in (("name", "string"), ("logits", "list<element: string>")):
        said = f"z.parquet must hold numbers in '{name}', got {form}"
        assert _refusal(f"{tmp_path}/z.parquet#{name}") == said


def test_many_columns_are_decoded_together_and_read_in_blocks(rng, tmp_path):
    z = rng.normal(size=(100, 70)).astype(np.float32)
    source = open_source(written.write(tmp_path / "z.columns.parquet", z))
    blocks = [block.logits for block in source.blocks(3)]
    assert max(map(len, blocks)) == 3
    np.testing.assert_array_equal(np.concatenate(blocks), z)


@pytest.mark.parametrize("kind", written.ARRAYS)
def test_a_class_axis_counts_for_arrays_of_every_format(kind, made, tmp_path):
    grid = np.ascontiguousarray(np.moveaxis(made[0].reshape(7, 43, 4), -1, 1))
    path = written.write(tmp_path / f"z.{kind}", grid)
    t = tepid.from_logits(path, class_axis=1)
    assert (t.samples, t.classes) == (301, 4)
    assert float(t) == pytest.approx(float(tepid.from_logits(made[0])), rel=1e-9)
    several = tepid.from_logits([path, path], class_axis=1)
    assert several.samples == 602
    assert "class_axis" in _refusal(path)


@pytest.mark.parametrize("kind", written.ARRAYS)
def test_binary_logits_are_read_from_every_array(kind, tmp_path, rng):
    z = (3 * rng.normal(size=200)).astype(np.float32)
    path = written.write(tmp_path / f"z.{kind}", z)
    t = tepid.from_logits(path)
    assert (t.samples, t.classes) == (200, 2)
    assert float(t) == pytest.approx(float(tepid.from_logits(z)), rel=1e-9)


@pytest.mark.parametrize("kind", ["h5", "zarr", "safetensors", "pt"])
def test_a_missing_member_of_an_array_lists_the_members(kind, made, tmp_path):
    path = written.write(tmp_path / f"z.{kind}", *made)
    said = f"z.{kind} must have a member 'x', got "
    assert _refusal(f"{path}#x").startswith(said)
    assert "labels" in _refusal(f"{path}#x")


def test_an_array_of_a_group_is_named_by_its_path(made, tmp_path):
    h5py = pytest.importorskip("h5py", reason="these files need h5py")
    zarr = pytest.importorskip("zarr", reason="these files need zarr")
    with h5py.File(tmp_path / "z.h5", "w") as file:
        file["run/logits"] = made[0]
    zarr.open_group(str(tmp_path / "z.zarr"), mode="w").create_group("run").create_array(
        "logits", data=made[0]
    )
    zarr.create_array(str(tmp_path / "bare.zarr"), data=made[0])
    for place in ("z.h5#run/logits", "z.zarr#run/logits", "bare.zarr"):
        np.testing.assert_array_equal(open_source(f"{tmp_path}/{place}").whole(), made[0])
    assert _refusal(f"{tmp_path}/bare.zarr#x") == "bare.zarr must be a group, got #x of one array"


class _Touch:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return type(self.path).touch, (self.path,)


def test_tensors_are_loaded_and_nothing_else_is_unpickled(tmp_path):
    torch = pytest.importorskip("torch", reason="it writes these files")
    torch.save({"logits": _Touch(tmp_path / "sprung")}, tmp_path / "z.pt")
    assert _refusal(tmp_path / "z.pt") == "z.pt must hold tensors alone, got pickled objects"
    torch.save([1, 2], tmp_path / "z.pt")
    assert _refusal(tmp_path / "z.pt") == "z.pt must hold tensors, got list"
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("kind", [k for k in written.EVERY if k not in ("csv", "zarr")])
@pytest.mark.parametrize("keep", [0, 5, 0.5, 0.97])
def test_a_truncated_file_is_refused_by_its_name(kind, keep, made, tmp_path):
    path = written.write(tmp_path / f"z.{kind}", *made)
    content = path.read_bytes()
    path.write_bytes(content[: keep if keep in (0, 5) else round(len(content) * keep)])
    assert _refusal([path]).startswith(f"z.{kind} must ")


@pytest.mark.parametrize(
    ("module", "kind", "extra"),
    [("pyarrow", "parquet", "parquet"), ("h5py", "h5", "files"), ("zarr", "zarr", "files"),
     ("torch", "pt", "torch")],
)  # fmt: skip
def test_a_package_that_is_not_there_is_named(module, kind, extra, made, tmp_path, monkeypatch):
    path = written.write(tmp_path / f"z.{kind}", *made)
    monkeypatch.setitem(sys.modules, module, None)
    assert _refusal(path) == (
        f"{module} must be there for such a file, got none; pip install 'tepid[{extra}]' brings it"
    )


@pytest.mark.slow
def test_no_package_is_imported_for_a_format_that_does_without(tmp_path):
    np.save(tmp_path / "z.npy", np.eye(3))
    names = "('pyarrow', 'zarr', 'h5py', 'safetensors', 'fsspec', 'torch')"
    code = (
        f"import sys, tepid; tepid.from_accuracy({str(tmp_path / 'z.npy')!r}, 0.6); "
        f"print([m for m in {names} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- many files


@pytest.mark.slow
@pytest.mark.parametrize("kind", written.EVERY)
def test_files_of_a_folder_are_the_rows_of_all_of_them(kind, made, tmp_path):
    folder = _shards(tmp_path / "shards", kind, made)
    known = float(tepid.from_labels(*made))
    pattern = f"{folder}/*.{kind}"
    listed = sorted(folder.iterdir())
    for given in (folder, str(folder), pattern, listed, [str(path) for path in listed]):
        source = open_source(given)
        assert (len(source.parts), source.classes) == (3, 4)
        np.testing.assert_array_equal(source.whole(), made[0])
        if kind == "npy":
            continue
        np.testing.assert_array_equal(np.asarray(source.labels), made[1])
        assert float(tepid.from_labels(given)) == pytest.approx(known, rel=1e-9)
        assert float(tepid.from_labels(given, f"{pattern}#labels")) == pytest.approx(known)


def test_parts_come_in_natural_order(made, tmp_path):
    for i in (10, 9, 2, 1):
        np.save(tmp_path / f"part-{i}.npy", made[0][i : i + 1])
    read = open_source(tmp_path).whole()
    np.testing.assert_array_equal(read, made[0][[1, 2, 9, 10]])
    np.testing.assert_array_equal(open_source(f"{tmp_path}/part-*.npy").whole(), read)


def test_folders_below_count_and_what_is_hidden_does_not(made, tmp_path):
    for name in ("site=a/part-0", "site=b/part-0", "_temporary/part-9", ".old/part-9"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        np.save(tmp_path / f"{name}.npy", made[0][:50])
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "README.md").touch()
    source = open_source(tmp_path)
    assert [part.name for part in source.parts] == ["site=a/part-0.npy", "site=b/part-0.npy"]
    assert source.rows == 100


@pytest.mark.parametrize("kind", written.EVERY)
def test_a_part_travels_and_is_opened_where_it_is_read(kind, made, tmp_path, monkeypatch):
    folder = _shards(tmp_path / "shards", kind, made)
    source = open_source(f"{folder}/*", labels=None if kind == "npy" else "labels")
    monkeypatch.chdir("/")
    parts = pickle.loads(pickle.dumps(source.parts))
    assert len(pickle.dumps(source.parts)) < 4000
    read = [block for part in parts for block in part.read(50)]
    np.testing.assert_array_equal(np.concatenate([b.logits for b in read]), made[0])
    assert {part.rows for part in parts} in ({1, 99, 201}, {None})


def test_labels_may_be_as_many_other_files(made, tmp_path):
    folder = _shards(tmp_path / "z", "npy", made)
    labels = tmp_path / "y"
    labels.mkdir()
    for i, (a, b) in enumerate(((0, 1), (1, 100), (100, 301))):
        np.save(labels / f"y-{i}.npy", made[1][a:b])
    known = float(tepid.from_labels(*made))
    for given in (labels, f"{labels}/*.npy", made[1], sorted(labels.iterdir())):
        assert float(tepid.from_labels(folder, given)) == pytest.approx(known, rel=1e-9)
    np.save(tmp_path / "all.npy", made[1])
    assert float(tepid.from_labels(folder, tmp_path / "all.npy")) == pytest.approx(known, rel=1e-9)
    np.save(labels / "y-1.npy", made[1][1:99])
    np.save(labels / "y-2.npy", made[1][99:301])
    assert _refusal(folder, labels=labels) == (
        "labels of part-1.npy must have one entry for each of the 99 rows, got 98"
    )
    (labels / "y-2.npy").unlink()
    assert _refusal(folder, labels=labels) == (
        "labels must be one file for each of the 3 of logits, got 2"
    )


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "columns.parquet", "csv", "h5"])
def test_the_file_that_differs_is_named_before_any_work(kind, made, tmp_path):
    folder = _shards(tmp_path / "shards", kind, made)
    written.write(folder / f"part-1.{kind}", made[0][:5, :3], made[1][:5])
    with pytest.raises(tepid.InputError) as caught:
        open_source(folder)
    said = f"part-1.{kind} must be laid out as the other files are, with classes 4, got 3"
    assert str(caught.value) == said


def test_other_differences_are_named_too(made, tmp_path):
    folder = _shards(tmp_path / "a", "npy", made)
    np.save(folder / "part-2.npy", made[0].astype(int))
    with pytest.raises(tepid.InputError, match=r"part-2.npy must .* got int64$"):
        open_source(folder)
    folder = _shards(tmp_path / "b", "parquet", made)
    written.write(folder / "part-0.parquet", made[0])
    with pytest.raises(tepid.InputError, match=r"part-0.parquet must .* labels labels, got none$"):
        open_source(folder)
    folder = _shards(tmp_path / "c", "csv", made)
    path = folder / "part-1.csv"
    path.write_text(path.read_text().replace("z1", "other", 1))
    with pytest.raises(tepid.InputError, match=r"part-1.csv .* got z0, other, z2, z3$"):
        open_source(folder)


@pytest.mark.parametrize("kind", written.EVERY)
def test_a_bad_row_is_named_with_its_file(kind, made, tmp_path):
    z = made[0].copy()
    z[150, 2] = np.nan
    folder = _shards(tmp_path / "shards", kind, (z, made[1]))
    with pytest.raises(tepid.InputError) as caught:
        tepid.from_logits(folder)
    assert str(caught.value).startswith(f"part-2.{kind} must be finite")
    assert str(caught.value).endswith("got nan for class 2 at row 50")


@pytest.mark.parametrize("kind", ["npz", "parquet", "csv"])
def test_a_bad_label_is_named_with_its_file(kind, made, tmp_path):
    y = made[1].copy()
    y[150] = 4
    folder = _shards(tmp_path / "shards", kind, (made[0], y))
    with pytest.raises(tepid.InputError, match=rf"labels of part-2.{kind} .* at row 50$"):
        tepid.from_labels(folder)


def test_a_truncated_shard_is_named(made, tmp_path):
    folder = _shards(tmp_path / "shards", "parquet", made)
    path = folder / "part-1.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    assert _refusal(folder).startswith(
        "part-1.parquet must be a whole .parquet file, got a damaged"
    )


@pytest.mark.parametrize("kind", ["parquet", "csv", "npy"])
def test_an_opened_source_may_turn_out_to_hold_probabilities(kind, made, tmp_path):
    shares = np.exp(made[0].astype(float))
    shares /= shares.sum(axis=1, keepdims=True)
    folder = _shards(tmp_path / "shards", kind, (shares, made[1]))
    expected = tepid.from_logits(open_source(folder, probabilities=True)).value
    opened = open_source(folder)
    assert tepid.from_logits(open_source(opened, probabilities=True)).value == expected
    assert tepid.from_logits(opened).value != expected


def test_probabilities_are_taken_by_their_logarithm_in_every_file(made, tmp_path):
    p = tepid.Temperature(1.0, "x", samples=1, classes=4, implied_accuracy=0.5)(made[0])
    folder = _shards(tmp_path / "shards", "parquet", (p, made[1]))
    t = tepid.from_logits(open_source(folder, probabilities=True))
    assert float(t) == pytest.approx(float(tepid.from_logits(tepid.logits_of(p))), rel=1e-9)
    p[150] *= 2
    folder = _shards(tmp_path / "shards", "parquet", (p, made[1]))
    with pytest.raises(tepid.InputError, match=r"probabilities of part-2.parquet .* at row 50$"):
        tepid.from_logits(open_source(folder, probabilities=True))


def test_a_digest_says_whether_a_part_has_changed(made, tmp_path):
    folder = _shards(tmp_path / "shards", "parquet", made)
    first = [part.digest() for part in open_source(folder).parts]
    assert first == [part.digest() for part in open_source(folder).parts]
    assert len(set(first)) == 3
    written.write(folder / "part-1.parquet", -made[0][1:100], made[1][1:100])
    second = [part.digest() for part in open_source(folder).parts]
    assert [a == b for a, b in zip(first, second, strict=True)] == [True, False, True]
    filtered = [part.digest() for part in open_source(folder, filter="label == 1").parts]
    assert not set(filtered) & set(second)


def test_a_large_array_is_cut_into_parts_that_are_read_alone(made, tmp_path, monkeypatch):
    np.save(tmp_path / "z.npy", made[0])
    monkeypatch.setattr("tepid.sources.ranges._LOGITS_PER_PART", 400)
    source = open_source(tmp_path / "z.npy", labels=made[1])
    assert [part.rows for part in source.parts] == [100, 100, 100, 1]
    monkeypatch.chdir("/")
    parts = pickle.loads(pickle.dumps(source.parts))
    blocks = [block for part in parts for block in part.read(30)]
    np.testing.assert_array_equal(np.concatenate([b.logits for b in blocks]), made[0])
    assert [block.at for block in parts[1].read(30)] == [100, 130, 160, 190]
    assert len({part.digest() for part in parts}) == 4


# --- behind URLs


@pytest.fixture
def memory():
    fsspec = pytest.importorskip("fsspec", reason="URLs need fsspec")
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


@pytest.fixture
def served(tmp_path):
    """A folder, and the URL under which a web server that sends no parts of files has it."""
    pytest.importorskip("aiohttp", reason="fsspec's http needs aiohttp")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def copyfile(self, *files):
            with contextlib.suppress(ConnectionError):  # a reader that has seen enough hangs up
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", written.EVERY)
def test_files_in_a_memory_system_are_read_alone_and_together(kind, made, tmp_path, memory):
    folder = _shards(tmp_path / "shards", kind, made)
    memory.put(f"{folder}/", "/bucket", recursive=True)
    known = float(tepid.from_logits(made[0]))
    alone = open_source(f"memory://bucket/part-2.{kind}")
    np.testing.assert_array_equal(alone.whole(), made[0][100:])
    given = ["memory://bucket/", "memory://bucket"] if kind != "zarr" else []
    for place in [*given, f"memory://bucket/*.{kind}"]:
        source = open_source(place)
        np.testing.assert_array_equal(source.whole(), made[0])
        assert [part.name for part in source.parts] == [f"part-{i}.{kind}" for i in range(3)]
        assert float(tepid.from_logits(place)) == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize("asked", ["/*.parquet", "/", ""])
def test_files_are_found_by_the_chain_that_they_were_asked_by(asked, made, tmp_path, memory):
    memory.put(f"{_shards(tmp_path / 'shards', 'parquet', made)}/", "/bucket", recursive=True)
    place = f"simplecache::memory://bucket{asked}"
    found = places.expanded(place, "logits file")
    assert found == tuple(f"simplecache::memory:///bucket/part-{i}.parquet" for i in range(3))
    np.testing.assert_array_equal(open_source(place).whole(), made[0])


def test_files_of_an_archive_are_read(made, tmp_path):
    pytest.importorskip("fsspec", reason="URLs need fsspec")
    folder = _shards(tmp_path / "shards", "npy", made)
    archive = shutil.make_archive(str(tmp_path / "logits"), "zip", folder)
    source = open_source(f"zip://*.npy::{archive}")
    np.testing.assert_array_equal(source.whole(), made[0])
    assert [part.name for part in source.parts] == [f"part-{i}.npy" for i in range(3)]
    alone = open_source(f"zip://part-2.npy::{archive}")
    np.testing.assert_array_equal(alone.whole(), made[0][100:])
    again = shutil.copy(archive, tmp_path / "again.zip")
    both = open_source([f"zip://part-2.npy::{place}" for place in (archive, again)])
    assert [part.name for part in both.parts] == ["logits.zip", "again.zip"]
    Path(again).write_bytes(b"no archive")
    said = f"zip://*.npy::{again}"
    assert _refusal(said).startswith(f"{said} must be readable, got BadZipFile")
    assert _refusal("zip://*.npy::no.zip") == "zip://*.npy::no.zip must exist, got no such file"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in written.EVERY if kind != "zarr"])
def test_files_of_a_web_server_are_read(kind, made, served):
    folder, url = served
    _shards(folder, kind, made)
    known = float(tepid.from_logits(made[0]))
    urls = [f"{url}/part-{i}.{kind}" for i in range(3)]
    assert float(tepid.from_logits(urls)) == pytest.approx(known, rel=1e-9)
    np.testing.assert_array_equal(open_source(urls[2]).whole(), made[0][100:])


def test_a_web_server_s_files_may_be_named_by_a_pattern(made, served):
    folder, url = served
    _shards(folder, "npy", made)
    np.testing.assert_array_equal(open_source(f"{url}/part-*.npy").whole(), made[0])


def test_an_array_behind_a_url_is_never_here_as_a_whole(memory):
    z = np.random.default_rng(0).normal(size=(20000, 8)).astype(np.float32)
    with memory.open("/z.npy", "wb") as file:
        np.save(file, z)
    sizes = []
    real = type(memory.open("/z.npy", "rb")).read

    class Watched:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def read(self, size=-1):
            sizes.append(size)
            return real(self.file, size)

    system = type(memory)
    opening = system.open
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(system, "open", lambda *args, **kw: Watched(opening(*args, **kw)))
        source = open_source("memory://z.npy")
        assert (source.rows, source.classes) == (20000, 8)
        blocks = [block.logits for block in source.blocks(500)]
    np.testing.assert_array_equal(np.concatenate(blocks), z)
    assert 0 < max(sizes) <= 500 * 32
    assert -1 not in sizes


def test_a_truncated_array_behind_a_url_is_refused(made, memory):
    with memory.open("/z.npy", "wb") as file:
        np.save(file, made[0])
    memory.pipe_file("/z.npy", memory.cat_file("/z.npy")[:-30])
    said = _refusal("memory://z.npy")
    assert said.startswith("z.npy must be a whole .npy array, got a damaged file (it ends within")


@pytest.mark.usefixtures("memory")
def test_a_url_that_leads_nowhere_is_named(served, monkeypatch):
    for kind in ("npy", "npz", "csv", "parquet", "h5"):
        place = f"memory://no.{kind}"
        assert _refusal(place) == f"{place} must exist, got no such file"
        place = f"{served[1]}/no.{kind}"
        assert _refusal(place) == f"{place} must exist, got no such file"
    assert "got none in memory://no/*.npy" in _refusal("memory://no/*.npy")
    assert "got none in memory://no/" in _refusal("memory://no/")
    said = _refusal("nonsense://z.npy")
    assert said.startswith("nonsense://z.npy must be of a protocol that fsspec knows, got ")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert "pip install 'tepid[remote]' brings it" in _refusal("memory://no.npy")


def test_a_driver_that_is_not_there_is_named(monkeypatch):
    fsspec = pytest.importorskip("fsspec", reason="URLs need fsspec")

    def missing(_):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    said = _refusal("s3://bucket/z.npy")
    assert said.startswith("s3://bucket/z.npy must have its driver, got none (Install s3fs")
    assert "tepid[remote]" in said


@pytest.mark.parametrize(
    ("place", "suffix", "base"),
    [
        ("s3://bucket/a/z.parquet", ".parquet", "z.parquet"),
        ("https://x.org/z.csv.gz?key=1/2", ".csv.gz", "z.csv.gz"),
        ("a.b/z.2.NPY", ".npy", "z.2.NPY"),
        ("a/z.tar.gz", ".tar.gz", "z.tar.gz"),
        ("x.zarr/", ".zarr", "x.zarr"),
        ("a/plain", "", "plain"),
    ],
)
def test_a_place_has_a_name_and_an_ending(place, suffix, base):
    assert (places.suffix(place), places.base(place)) == (suffix, base)


# --- bad files


def _broken(folder):
    path = sorted(folder.iterdir())[1]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path.name


@pytest.mark.parametrize("kind", ["parquet", "npy", "npz", "csv.gz", "h5"])
def test_a_file_that_is_torn_is_left_out_where_that_was_asked_for(kind, made, tmp_path):
    folder = _shards(tmp_path / "shards", kind, made, cuts=(0, 60, 160))
    name = _broken(folder)
    with pytest.raises(tepid.InputError, match=rf"^{name} must "):
        tepid.from_logits(open_source(folder))
    source = open_source(folder, on_error="skip")
    rest = np.concatenate([made[0][:60], made[0][160:]])
    np.testing.assert_array_equal(source.whole(), rest)
    assert [left for left, _ in source.left_out] == [name]
    t = tepid.from_logits(source)
    assert t.value == pytest.approx(tepid.from_logits(rest).value, rel=1e-9)
    said = f"1 of 3 files were left out with all of their rows: {name} must be"
    assert t.warnings[0].startswith(said)


def test_a_file_that_is_left_out_is_no_doubt_about_the_others(tmp_path):
    """What is advised on a fit is what is advised on the files that are left."""
    z = tepid.demo.fashion()["logits"]
    for number, part in enumerate(np.array_split(z, 3)):
        np.save(tmp_path / f"{number}.npy", part)
    (tmp_path / "3.npy").write_bytes(b"torn")
    known, t = (tepid.from_logits(rows) for rows in (z, open_source(tmp_path, on_error="skip")))
    assert known.warnings == () != t.warnings
    assert (
        tepid.judged(t)
        == tepid.judged(known)
        != tepid.judged(dataclasses.replace(t, warnings=(*t.warnings, "UTS is biased.")))
    )


def test_a_bad_row_label_or_layout_leaves_a_file_out_and_is_said(made, tmp_path):
    z, y = made[0].copy(), made[1].copy()
    z[20, 1], y[60], z[110, 3] = np.nan, 9, np.inf
    folder = _shards(tmp_path / "shards", "parquet", (z, y), cuts=(0, 50, 100, 150, 200, 250))
    written.write(folder / "part-3.parquet", z[150:200, :3], y[150:200])
    source = open_source(folder, labels="label", on_error="skip")
    assert dict(source.left_out) == {
        "part-0.parquet": "part-0.parquet must be finite, or -inf for a masked class, "
        "got nan for class 1 at row 20",
        "part-1.parquet": "labels of part-1.parquet must be in 0..3, got 9 at row 10",
        "part-2.parquet": "part-2.parquet must be finite, or -inf for a masked class, "
        "got inf for class 3 at row 10",
        "part-3.parquet": "part-3.parquet must be laid out as the other files are, "
        "with classes 4, got 3",
    }
    known = tepid.from_labels(made[0][200:], made[1][200:])
    found = tepid.from_labels(source)
    assert (found.value, found.samples) == (pytest.approx(known.value, rel=1e-9), 101)
    assert found.warnings[0].startswith("4 of 6 files were left out")


def test_labels_that_were_not_asked_for_leave_no_file_out(made, tmp_path):
    y = np.full(301, -1)
    folder = _shards(tmp_path / "shards", "parquet", (made[0], y))
    source = open_source(folder, on_error="skip")
    assert (source.rows, source.left_out) == (301, ())
    assert tepid.from_logits(source).warnings == tepid.from_logits(made[0]).warnings


def test_files_of_which_none_can_be_used_are_refused(made, tmp_path):
    folder = _shards(tmp_path / "shards", "npy", (made[0] * np.nan, made[1]))
    said = _refusal(folder, on_error="skip")
    assert said.startswith(f"{folder} must have a file that can be used, got none: part-0.npy must")


def test_what_cannot_be_left_out_of_is_refused(made, tmp_path):
    folder = _shards(tmp_path / "shards", "npy", made)
    said = _refusal(folder, labels=made[1], on_error="skip")
    assert said == (
        "labels must be a column, or a file beside each, where files may be left out, "
        "got one for all"
    )
    said = "on_error must be stop for what is not several files, got skip"
    assert _refusal(made[0], on_error="skip") == said
    assert _refusal(folder, on_error="ignore") == "on_error must be stop or skip, got 'ignore'"


# --- reading ahead


def test_what_is_read_ahead_comes_in_order():
    for depth in (1, 2, 50):
        assert list(reading_ahead(iter(range(100)), depth)) == list(range(100))
    assert list(reading_ahead(iter(()))) == []


def test_what_reading_raises_comes_in_its_place():
    def items():
        yield 1
        yield 2
        raise OSError("the disk is gone")

    seen = []
    with pytest.raises(OSError, match="the disk is gone"):
        seen.extend(reading_ahead(items()))
    taken = reading_ahead(items())
    assert (next(taken), next(taken)) == (1, 2)
    with pytest.raises(OSError, match="the disk is gone"):
        next(taken)


def test_no_more_is_read_ahead_than_was_said_and_closing_ends_the_thread():
    made, closed = [], threading.Event()

    def items():
        try:
            for i in range(1000):
                made.append(i)
                yield i
        finally:
            closed.set()

    before = threading.enumerate()
    reader = reading_ahead(items(), 3)
    assert next(reader) == 0
    (thread,) = [thread for thread in threading.enumerate() if thread not in before]
    reader.close()
    thread.join(10)
    assert not thread.is_alive()
    assert len(made) <= 5
    del reader
    assert closed.wait(10)


def test_items_are_made_before_they_are_asked_for():
    second = threading.Event()

    def items():
        yield 1
        second.set()
        yield 2

    reader = reading_ahead(items())
    assert next(reader) == 1
    assert second.wait(10)
    assert next(reader) == 2
    reader.close()


def test_arrays_and_tables_may_lie_in_one_folder(tmp_path):
    z = np.random.default_rng(3).normal(size=(90, 4)).astype(np.float32)
    np.save(tmp_path / "a.npy", z[:30])
    np.savez(tmp_path / "b.npz", logits=z[30:60])
    np.savetxt(tmp_path / "c.csv", z[60:], delimiter=",", header="w,x,y,z", comments="")
    assert np.allclose(open_source(tmp_path).whole(), z)


def test_a_folder_of_too_few_files_of_labels_is_counted(tmp_path):
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.eye(3))
    (tmp_path / "y").mkdir()
    np.save(tmp_path / "y" / "a.npy", np.zeros(6, int))
    with pytest.raises(tepid.InputError, match="labels must be one file for each of the 2"):
        open_source(str(tmp_path / "*.npy"), labels=tmp_path / "y")


def test_a_folder_that_is_called_like_a_column_is_not_taken_for_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("a page")
    rows = np.random.default_rng(0).normal(size=(30, 3))
    table = np.column_stack([rows, np.arange(30) % 2])
    np.savetxt("rows.csv", table, delimiter=",", header="a,b,c,site", comments="")
    assert sorted(set(np.asarray(open_source("rows.csv", groups="site").groups))) != []
    assert open_source(["rows.csv"], groups="site").classes == 3
