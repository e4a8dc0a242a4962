"""The data layer against its known defects: columns, files, outputs, hostile bytes and units."""

import errno
import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import tepid
from tepid.lab.odds import from_odds
from tepid.sources import open_source
from tests import containers, hostile
from tests.needs import needed

TABLE = containers.made()
Z, Y = TABLE.logits, TABLE.beside["y"]
SITE, W = TABLE.beside["site"], TABLE.beside["w"]
FOLD = np.arange(len(Z)) % 5
SPLIT = np.where(np.arange(len(Z)) % 4 < 3, "test", "train")

pytestmark = pytest.mark.usefixtures("work")


@pytest.fixture
def work(tmp_path, monkeypatch):
    """The working folder, two folders below the one that tests may write to."""
    folder = tmp_path / "home" / "work"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def _same(value):
    return pytest.approx(value, rel=1e-7)


def _refusal(method, *args, **options):
    with pytest.raises(tepid.InputError) as caught:
        method(*args, **options)
    said = str(caught.value)
    assert "\n" not in said
    return said


def _refused(result, *words):
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.startswith("tepid: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def _json(result):
    code, out, err = result
    assert code == 0, err
    return json.loads(out)


# --- 1, 2: which columns are logits


@pytest.mark.parametrize("name", ["label", "labels"])
@pytest.mark.parametrize("kind", ["pandas", "arrow table", "polars", "csv", "parquet"])
def test_a_label_column_is_never_a_class(kind, name, tmp_path):
    table = replace(TABLE, beside={name: Y})
    t = tepid.uts(containers.NUMBERED[kind](tmp_path, table))
    assert (t.classes, t.value) == (4, _same(tepid.uts(Z).value))


@pytest.mark.parametrize("kind", ["pandas", "arrow table", "polars", "csv", "parquet"])
def test_a_float_column_is_no_class_because_it_is_a_float(kind, tmp_path):
    table = containers.Table(Z[:, :3], {"latency_ms": TABLE.beside["latency_ms"]}, tuple("abc"))
    data = containers.NUMBERED[kind](tmp_path, table)
    said = _refusal(tepid.uts, data)
    for word in ("latency_ms", "columns"):
        assert word in said
    t = tepid.uts(data, columns=["a", "b", "c"])
    assert (t.classes, t.value) == (3, _same(tepid.uts(Z[:, :3]).value))


def test_text_in_numbered_columns_is_no_candidate(tmp_path):
    notes = {f"note_{k}": np.full(len(Z), "fine") for k in range(3)}
    table = replace(TABLE, beside=notes)
    for kind in ("pandas", "polars", "arrow table", "parquet", "feather"):
        t = tepid.uts(containers.NUMBERED[kind](tmp_path, table))
        assert t.value == _same(tepid.uts(Z).value)


@pytest.mark.parametrize("kind", ["pandas", "arrow table", "csv", "parquet", "folder of parquet"])
def test_a_glob_chooses_columns_in_the_order_of_the_table(kind, tmp_path):
    order = ("z_b", "y", "z_a", "other", "z_d", "z_c")
    names = ("z_a", "z_b", "z_c", "z_d")
    table = containers.Table(Z, {"y": Y, "other": W}, names, order)
    data = containers.NUMBERED[kind](tmp_path, table)
    expected = tepid.temperature_scaling(Z[:, [1, 0, 3, 2]], Y).value
    for columns in ("z_*", ["z_*"], ["z_b", "z_a", "z_d*", "z_c"]):
        assert tepid.temperature_scaling(data, "y", columns=columns).value == _same(expected)
    assert "columns" in _refusal(tepid.uts, data, columns="nothing*")


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_columns_are_chosen_on_the_command_line(ending, work, tepid_here):
    table = replace(TABLE, names=tuple("abcd"))
    if ending == ".csv":
        containers.write_csv(work / "z.csv", table)
    else:
        containers.write_parquet(work / "z.parquet", containers.arrow_numbered(table))
    file = f"z{ending}"
    _refused(tepid_here("fit", file), "columns", "latency_ms")
    args = ("fit", file, "--columns", "a,b,c,d", "--labels", "y", "--json")
    assert _json(tepid_here(*args))["temperature"] == _same(tepid.calibrate(Z, Y).value)


def test_all_commands_take_columns(work, tepid_here):
    table = containers.Table(Z, {"labels": Y, "id": TABLE.beside["id"]}, tuple("abcd"))
    containers.write_csv(work / "z.csv", table)
    tepid.temperature_scaling(Z, Y).save("cal.json")
    for args in _commands("z.csv"):
        _refused(tepid_here(*args), "columns")
        code, _, err = tepid_here(*args, "--columns", "a,b,c,d")
        assert code == 0, (args, err)


def _commands(file, labels=()):
    """Every command that reads logits, with a calibration cal.json beside them."""
    return [
        ("fit", file, "-o", "fit.json"),
        ("score", file, *labels, "-c", "cal.json", "--draws", "0"),
        ("apply", "cal.json", file, "-o", "applied.npy"),
        ("compare", file, *labels, "--splits", "2"),
        ("report", file, "-o", "report.html"),
        ("summarize", file, "-o", "sums.npz"),
    ]


# --- 5: what cannot be honored is refused


@pytest.mark.parametrize(
    ("argument", "value"), [("class_axis", 1), ("columns", ["a", "b"]), ("probabilities", True)]
)
def test_an_opened_source_is_described_once(argument, value):
    opened = open_source(Z, labels=Y)
    methods = {
        tepid.uts: (),
        tepid.match_accuracy: (0.9,),
        tepid.temperature_scaling: (),
        tepid.calibrate: (),
        tepid.summarize: (),
    }
    for method, args in methods.items():
        assert argument in _refusal(method, opened, *args, **{argument: value})


def test_a_table_opened_with_columns_is_not_given_them_again(tmp_path):
    path = containers.write_csv(tmp_path / "z.csv", replace(TABLE, names=tuple("abcd")))
    opened = open_source(path, columns=["a", "b", "c", "d"])
    assert tepid.uts(opened).value == _same(tepid.uts(Z).value)
    assert "columns" in _refusal(tepid.uts, opened, columns=["a", "b", "c", "d"])


def test_columns_of_an_array_are_refused(tmp_path):
    np.save(tmp_path / "z.npy", Z)
    for data in (Z, tmp_path / "z.npy", [Z[:9], Z[9:]]):
        assert "columns" in _refusal(tepid.uts, data, columns=["a", "b"])


def test_an_engine_that_a_method_cannot_use_is_refused(work, tepid_here):
    containers.write_npz(work / "z.npz", TABLE)
    args = ("fit", "z.npz", "--labels", "y", "--method", "vector", "--engine", "dask")
    _refused(tepid_here(*args, "-o", "out.npz"), "--engine")
    assert not Path("out.npz").exists()


def test_weights_are_a_column_beside_groups_that_are_an_array(tmp_path):
    path = containers.NUMBERED["parquet"](tmp_path, TABLE)
    found = tepid.uts(path, sample_weight="w", groups=SITE)
    expected = tepid.uts(Z, sample_weight=W, groups=SITE)
    assert found.value == _same(expected.value)
    for name, own in expected.groups.items():
        assert found.groups[name].value == _same(own.value)


def test_what_was_removed_is_refused(work, tepid_here):
    containers.write_csv(work / "z.csv", TABLE)
    for option in ("--filter", "--on-error", "--checkpoint"):
        code, _, err = tepid_here("fit", "z.csv", option, "x", "-o", "out.json")
        assert (code, Path("out.json").exists()) == (2, False)
        assert option in err
    with pytest.raises(TypeError, match="filter"):
        open_source(Z, filter="id > 3")
    with pytest.raises(TypeError, match="on_error"):
        open_source(Z, on_error="skip")
    assert importlib.util.find_spec("tepid.engines.checkpoint") is None
    _refusal(tepid.uts, f"zip://z.csv::file://{work}/z.zip")


# --- 6: the working directory does not matter


@pytest.mark.parametrize("kind", ["parquet", "csv", "folder of parquet", "pandas"])
@pytest.mark.parametrize("there", ["nothing", "a folder", "a folder of data", "a file"])
def test_a_plain_name_is_a_column_whatever_the_working_directory_holds(kind, there, work):
    data = containers.NUMBERED[kind](work, TABLE)
    for name in ("site", "y", "w"):
        if there == "a file":
            Path(name).write_bytes(b"1\n2\n")
        elif there != "nothing":
            Path(name).mkdir()
        if there == "a folder of data":
            np.save(Path(name) / "part-0.npy", np.zeros(len(Z)))
    expected = tepid.temperature_scaling(Z, Y, sample_weight=W, groups=SITE)
    found = tepid.temperature_scaling(data, "y", sample_weight="w", groups="site")
    assert found.value == _same(expected.value)
    assert set(found.groups) == {"clinic", "field"}


def test_a_plain_name_is_a_column_on_the_command_line_too(work, tepid_here):
    containers.NUMBERED["parquet"](work, TABLE)
    np.save("site.npy", np.zeros(len(Z), int))
    Path("site").mkdir()
    shutil.copy("site.npy", "site/part-0.npy")
    Path("y").write_bytes(b"0\n1\n")
    args = ("fit", "z.parquet", "--labels", "y", "--groups", "site", "--json")
    assert set(_json(tepid_here(*args))["groups"]) == {"clinic", "field"}


def test_a_name_that_is_no_column_is_not_looked_for_in_the_working_directory(work):
    path = containers.NUMBERED["parquet"](work, TABLE.without("site"))
    Path("site").mkdir()
    np.save("site/part-0.npy", np.zeros(len(Z), int))
    for word in ("groups", "site"):
        assert word in _refusal(tepid.uts, path, groups="site")


def test_an_ending_or_a_slash_makes_a_file(work):
    path = containers.NUMBERED["parquet"](work, TABLE)
    np.save("y.npy", Y)
    Path("more").mkdir()
    np.save("more/part-0.npy", Y)
    np.savez("both.npz", truth=Y, logits=Z)
    expected = tepid.temperature_scaling(Z, Y).value
    for labels in ("y.npy", "./y.npy", Path("y.npy"), "./more", "more/*.npy", "both.npz#truth"):
        assert tepid.temperature_scaling(path, labels).value == _same(expected)
    for labels in ("missing.npy", Path("y"), "./y"):
        assert "labels" in _refusal(tepid.temperature_scaling, path, labels)


# --- 7: headers of CSV

ROWS = [f"{a},{b},{c}" for a, b, c in (2 * Z[:40, :3]).tolist()]
NUMBERS = 2 * Z[:40, :3]


def _csv(*lines):
    Path("z.csv").write_text("\n".join(lines) + "\n", "utf-8")
    return "z.csv"


@pytest.mark.parametrize(
    "header", ["z0,z1,z2", "z_1,z_2,z_3", "0,1,2,note", "1,2,3,note", '"z0","z1","z2"']
)
def test_a_first_line_with_a_word_is_a_header(header):
    wide = header.endswith("note")
    lines = [f"{row},{'fine' if wide else ''}".rstrip(",") for row in ROWS]
    t = tepid.match_accuracy(_csv(header, *lines), 0.8)
    expected = tepid.match_accuracy(NUMBERS, 0.8).value
    assert (t.samples, t.classes, t.value) == (40, 3, _same(expected))


@pytest.mark.parametrize("first", ["2,1,0", "3,1,2", "0,0,0", "0,2,4", "1.5,2,3", "-1e3,2,3.25"])
def test_any_other_first_line_of_numbers_is_data(first):
    z = np.vstack([[float(cell) for cell in first.split(",")], NUMBERS])
    t = tepid.match_accuracy(_csv(first, *ROWS), 0.8)
    assert (t.samples, t.value) == (41, _same(tepid.match_accuracy(z, 0.8).value))


@pytest.mark.parametrize("first", ["0,1,2", "1,2,3"])
def test_a_first_line_that_counts_is_ambiguous(first, tepid_here):
    path = _csv(first, *ROWS)
    said = _refusal(tepid.match_accuracy, path, 0.8)
    assert "header" in said
    _refused(tepid_here("fit", path, "-o", "out.json"), "--header", "--no-header")
    assert not Path("out.json").exists()


def test_two_columns_are_ambiguous_too():
    for first in ("0,1", "1,2"):
        rows = [row.rpartition(",")[0] for row in ROWS]
        assert "header" in _refusal(tepid.match_accuracy, _csv(first, *rows), 0.8)


@pytest.mark.parametrize("first", ["0,1,2", "1,2,3"])
@pytest.mark.parametrize("header", [True, False])
def test_the_user_decides_whether_the_first_line_is_a_header(first, header, tepid_here):
    path = _csv(first, *ROWS)
    z = NUMBERS if header else np.vstack([[float(cell) for cell in first.split(",")], NUMBERS])
    expected = tepid.match_accuracy(z, 0.8).value
    t = tepid.match_accuracy(open_source(path, header=header), 0.8)
    assert (t.samples, t.classes, t.value) == (len(z), 3, _same(expected))
    option = "--header" if header else "--no-header"
    exact = ("--method", "accuracy", "--accuracy", "0.8")
    printed = _json(tepid_here("fit", path, *exact, option, "--json"))
    assert (printed["samples"], printed["temperature"]) == (len(z), _same(expected))


def test_a_header_of_words_cannot_be_data(tepid_here):
    path = _csv("z0,z1,z2", *ROWS)
    with pytest.raises(tepid.InputError, match="z0"):
        tepid.uts(open_source(path, header=False))
    _refused(tepid_here("fit", path, "--no-header"), "z0")


def test_a_header_is_for_csv(tepid_here):
    np.save("z.npy", Z)
    assert "header" in _refusal(open_source, "z.npy", header=True)
    _refused(tepid_here("fit", "z.npy", "--header"), "header")


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("name", ["", "y", "truth"])
def test_a_file_of_labels_may_begin_with_any_label(first, name, tepid_here):
    start = int(np.flatnonzero(first == Y)[0])
    np.save("z.npy", Z[start:])
    lines = [name] * bool(name) + [str(label) for label in Y[start:]]
    Path("y.csv").write_text("\n".join(lines) + "\n", "utf-8")
    expected = tepid.temperature_scaling(Z[start:], Y[start:]).value
    assert tepid.temperature_scaling(Z[start:], "y.csv").value == _same(expected)
    exact = ("--method", "temperature", "--labels", "y.csv")
    printed = _json(tepid_here("fit", "z.npy", *exact, "--json"))
    assert printed["temperature"] == _same(expected)


def test_labels_that_count_from_zero_are_labels():
    y = np.arange(4)
    Path("y.csv").write_text("0\n1\n2\n3\n", "utf-8")
    expected = tepid.temperature_scaling(Z[:4], y)
    assert tepid.temperature_scaling(Z[:4], "y.csv").samples == expected.samples == 4


# --- 9: outputs stay inside of their folder


def _files(folder):
    """Every regular file below a folder; links are not followed."""
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root) / name
            if not path.is_symlink():
                found[path] = path.read_bytes()
    return found


def _apply_inside(tepid_here, top, *files):
    """Apply to files, and return the exit code and the files that were written or changed."""
    tepid.temperature_scaling(Z, Y).save("cal.json")
    before = _files(top)
    code, out, err = tepid_here("apply", "cal.json", *files, "-o", "out")
    after = _files(top)
    changed = {path for path, content in after.items() if before.get(path) != content}
    assert before.keys() <= after.keys()
    assert all(path.is_relative_to(Path("out").absolute()) for path in changed), changed
    if code != 0:
        _refused((code, out, err))
    return code, changed


def _put(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, Z)


LISTED = {
    "above": ["../z.npy", "w.npy"],
    "beside": ["../beside/z.npy", "w.npy"],
    "far above": ["../../z.npy", "../beside/w.npy", "w.npy"],
    "down and up": ["sub/../../beside/z.npy", "sub/w.npy"],
    "one alone": ["../beside/z.npy"],
}


@pytest.mark.parametrize("name", LISTED)
def test_paths_upwards_are_written_inside(name, tmp_path, tepid_here):
    Path("sub").mkdir()
    for file in LISTED[name]:
        _put(Path(file))
    code, changed = _apply_inside(tepid_here, tmp_path, *LISTED[name])
    assert (code, len(changed)) == (0, len(LISTED[name]))


def test_absolute_paths_are_written_inside(work, tmp_path, tepid_here):
    files = [tmp_path / "else" / "z.npy", work / "w.npy"]
    for file in files:
        _put(file)
    for given in (files, [files[0], "w.npy"]):
        code, changed = _apply_inside(tepid_here, tmp_path, *given)
        assert (code, len(changed)) == (0, 2)
        shutil.rmtree("out")


def test_a_glob_upwards_is_written_inside(tmp_path, tepid_here):
    for name in ("a/z.npy", "b/z.npy", "b/deep/z.npy"):
        _put(tmp_path / "home" / "in" / name)
    code, changed = _apply_inside(tepid_here, tmp_path, "../in/**/*.npy")
    assert (code, len(changed)) == (0, 3)


def test_links_to_files_elsewhere_are_written_inside(tmp_path, tepid_here):
    _put(tmp_path / "else" / "z.npy")
    Path("in").mkdir()
    Path("in/link.npy").symlink_to(tmp_path / "else" / "z.npy")
    _put(Path("in/w.npy"))
    code, changed = _apply_inside(tepid_here, tmp_path, "in")
    assert (code, len(changed)) == (0, 2)


@pytest.mark.parametrize("member", ["../../evil", "{top}/evil", "..", "a/../../../evil"])
def test_the_name_of_a_member_is_no_path(member, tmp_path, tepid_here):
    member = member.format(top=tmp_path)
    np.savez("z.npz", **{member: Z, "other": Z})
    _put(Path("w.npy"))
    code, changed = _apply_inside(tepid_here, tmp_path, f"z.npz#{member}", "w.npy")
    assert len(changed) == (2 if code == 0 else 0)


@pytest.mark.parametrize("name", ["a/../../evil.npy", "../evil.npy", "a/../../../evil.npy"])
def test_the_name_in_a_url_is_no_path(name, tmp_path, tepid_here):
    memory = needed("fsspec").filesystem("memory")
    path = containers.write_npy(tmp_path / "z.npy", Z)
    for url in (f"memory://top/{name}", "memory://top/a/w.npy"):
        memory.pipe(url, path.read_bytes())
    try:
        given = (f"memory://top/{name}", "memory://top/a/w.npy")
        code, changed = _apply_inside(tepid_here, tmp_path, *given)
        assert len(changed) == (2 if code == 0 else 0)
    finally:
        memory.store.clear()


def test_a_link_in_the_output_folder_is_not_followed(tmp_path, tepid_here):
    for name in ("in/z.npy", "in/w.npy"):
        _put(Path(name))
    Path("out").mkdir()
    (tmp_path / "victim.npy").write_bytes(b"precious")
    Path("out/z.npy").symlink_to(tmp_path / "victim.npy")
    _apply_inside(tepid_here, tmp_path, "in")
    assert (tmp_path / "victim.npy").read_bytes() == b"precious"


def test_a_linked_folder_in_the_output_folder_is_not_followed(tmp_path, tepid_here):
    for name in ("in/sub/z.npy", "in/w.npy"):
        _put(Path(name))
    Path("out").mkdir()
    (tmp_path / "else").mkdir()
    Path("out/sub").symlink_to(tmp_path / "else", target_is_directory=True)
    _apply_inside(tepid_here, tmp_path, "in")


# --- 10: every row once


@pytest.mark.parametrize(
    "data", ["data", "data/**/*.npy", "./data/**/[0-9].npy", "./data", "data/../data"]
)
@pytest.mark.parametrize("loop", ["none", "to itself", "to the top", "to each other"])
def test_every_row_counts_once(data, loop, tepid_here):
    for part, name in zip(TABLE.parts(), ("a/0.npy", "a/1.npy", "b/c/2.npy", "3.npy"), strict=True):
        _put(Path("data") / name)
        np.save(Path("data") / name, part.logits)
    if loop == "to itself":
        Path("data/a/loop").symlink_to(Path("data/a").absolute(), target_is_directory=True)
    elif loop == "to the top":
        Path("data/b/c/loop").symlink_to("../..", target_is_directory=True)
    elif loop == "to each other":
        Path("data/a/loop").symlink_to("../b", target_is_directory=True)
        Path("data/b/loop").symlink_to("../a", target_is_directory=True)
    t = tepid.uts(data)
    assert (t.samples, t.value) == (len(Z), _same(tepid.uts(Z).value))
    assert _json(tepid_here("fit", data, "--json"))["samples"] == len(Z)


@pytest.mark.parametrize("data", ["data", "data/**/*.npy", "data/**"])
def test_links_to_folders_are_followed(data):
    first, *rest = TABLE.parts()
    for part, name in zip(
        (first, *rest), ("data/0.npy", *(f"else/{k}.npy" for k in (1, 2, 3))), strict=True
    ):
        _put(Path(name))
        np.save(name, part.logits)
    np.save("above.npy", Z)
    Path("data/link").symlink_to("../else", target_is_directory=True)
    Path("data/above").symlink_to("..", target_is_directory=True)  # contains the link
    t = tepid.uts(data)
    assert (t.samples, t.value) == (len(Z), _same(tepid.uts(Z).value))


@pytest.mark.parametrize("data", ["data", "data/**/*.npy", "data/*/*.npy", "data/*/0.npy"])
def test_a_folder_that_cannot_be_read_is_an_error(data, monkeypatch):
    for name in ("data/a/0.npy", "data/b/0.npy"):
        _put(Path(name))
        np.save(name, Z)
    scan, access = os.scandir, os.access

    def denied(path):
        return Path(path) == Path("data/b")

    def refuse(path):
        if denied(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scan(path)

    # Root may read every folder.
    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "access", lambda path, mode: not denied(path) and access(path, mode))
    sentence = "data/b must be a folder that can be read, got permission denied"
    with pytest.raises(tepid.InputError, match=sentence):
        tepid.uts(data)
    with pytest.raises(tepid.InputError, match=sentence):
        tepid.uts("data/b")


def test_a_path_that_is_only_a_member_is_refused():
    with pytest.raises(tepid.InputError, match="logits file must be a path, got #"):
        tepid.uts("#")


def test_a_server_that_cannot_be_reached_is_no_missing_file():
    pytest.importorskip("aiohttp")
    pytest.importorskip("fsspec")
    with pytest.raises(tepid.InputError, match=r"cannot be opened: .*connect"):
        tepid.uts("http://127.0.0.1:1/z.npy")


# --- 11: hostile bytes

PACKAGES = {
    ".csv.zst": "pyarrow",
    ".parquet": "pyarrow",
    ".feather": "pyarrow",
    ".arrow": "pyarrow",
    ".h5": "h5py",
    ".safetensors": "safetensors",
    ".pt": "torch",
    ".zarr": "zarr",
}
AS_LABELS = ("empty", "one byte", "half", "random 0", "random 1", "a folder")
MISLEADING_LABELS = [name for name in hostile.MISLEADING if name.endswith((".npy", ".npz", ".csv"))]


def _has(ending):
    return importlib.util.find_spec(PACKAGES.get(ending, "numpy")) is not None


def _damaged_files(folder):
    """Every case of every format that can be written here: {(ending, case): file}."""
    found = {}
    for ending, write in hostile.WRITERS.items():
        if not _has(ending):
            continue
        sound = write(folder / f"sound{ending}").read_bytes()
        damaged = hostile.truncations(sound) | hostile.random_bytes() | hostile.bit_flips(sound)
        for name, content in damaged.items():
            path = folder / f"{name}{ending}"
            path.write_bytes(content)
            found[ending, name] = path
        found[ending, "a folder"] = folder / f"a folder{ending}"
        found[ending, "a folder"].mkdir()
    return found


def _misleading_files(folder):
    found = {}
    for name, build in hostile.MISLEADING.items():
        if _has(Path(name).suffix):
            found[name] = folder / name
            found[name].write_bytes(build(folder))
    return found


@pytest.fixture(scope="module")
def hostile_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def verdicts(hostile_folder):
    """What `tepid fit` and `tepid.uts` do with each file, in a process that may abort."""
    logits = containers.write_npy(hostile_folder / "good.npy", hostile.TABLE.logits)
    for name in ("damaged", "misleading"):
        (hostile_folder / name).mkdir()
    cases = []
    for (ending, name), path in _damaged_files(hostile_folder / "damaged").items():
        cases.append(hostile.case(f"{ending} {name}", path))
        if name in AS_LABELS:
            cases.append(hostile.case(f"{ending} {name} as labels", path, logits))
    for name, path in _misleading_files(hostile_folder / "misleading").items():
        cases.append(hostile.case(name, path))
        if name in MISLEADING_LABELS:
            cases.append(hostile.case(f"{name} as labels", path, logits))
    return hostile.run(cases, hostile_folder)


def _is_refused(verdict):
    sentence = verdict["err"].startswith("tepid: ") and verdict["err"].count("\n") == 1
    raised = verdict.get("raised", "InputError") == "InputError"
    return verdict["code"] == 2 and sentence and raised and not verdict["written"]


def _is_accepted(verdict):
    return verdict["code"] == 0 and verdict["written"] and verdict.get("raised", "") == ""


def _judged(verdicts, ending, names, *, either=False):
    """The verdicts that are neither a refusal nor, with `either`, a whole result."""
    needed(PACKAGES.get(ending, "numpy"))
    chosen = {name: verdicts[f"{ending} {name}"] for name in names}
    return {
        name: verdict
        for name, verdict in chosen.items()
        if not (_is_refused(verdict) or (either and _is_accepted(verdict)))
    }


@pytest.mark.slow
@pytest.mark.parametrize("ending", hostile.WRITERS)
def test_a_file_that_was_cut_off_is_refused(ending, verdicts):
    either = ending == ".csv"  # of which a part may be a whole table
    names = ["one byte", "half", "all but one"]
    assert _judged(verdicts, ending, ["empty"]) == {}
    assert _judged(verdicts, ending, names, either=either) == {}


@pytest.mark.slow
@pytest.mark.parametrize("ending", hostile.WRITERS)
def test_random_bytes_and_folders_are_refused(ending, verdicts):
    assert _judged(verdicts, ending, [*hostile.random_bytes(), "a folder"]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("ending", hostile.WRITERS)
def test_wrong_bits_are_refused_or_are_other_numbers(ending, verdicts):
    names = [f"flip {seed}" for seed in range(hostile.FLIPS)]
    assert _judged(verdicts, ending, names, either=True) == {}


@pytest.mark.slow
@pytest.mark.parametrize("ending", hostile.WRITERS)
def test_damaged_labels_are_refused(ending, verdicts):
    assert _judged(verdicts, ending, [f"{name} as labels" for name in AS_LABELS]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", hostile.MISLEADING)
def test_a_misleading_file_is_refused(name, verdicts, hostile_folder):
    needed(PACKAGES.get(Path(name).suffix, "numpy"))
    assert _is_refused(verdicts[name]), verdicts[name]
    assert not (hostile_folder / "misleading" / "unpickled").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", MISLEADING_LABELS)
def test_misleading_labels_are_refused(name, verdicts, hostile_folder):
    verdict = verdicts[f"{name} as labels"]
    assert _is_refused(verdict), verdict
    assert not (hostile_folder / "misleading" / "unpickled").exists()


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".arrow", ".feather"])
@pytest.mark.parametrize("labeled", [False, True])
def test_lists_outside_of_their_numbers_do_not_abort(ending, labeled, tmp_path):
    path = containers.write_ipc(tmp_path / f"z{ending}", hostile.invalid_list_offsets())
    good = containers.write_npy(tmp_path / "z.npy", hostile.TABLE.logits[:10])
    args = [str(good), "--labels", f"{path}#logits"] if labeled else [str(path)]
    done = subprocess.run(
        [sys.executable, "-m", "tepid", "fit", *args, "-o", str(tmp_path / "out.json")],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    _refused((done.returncode, done.stdout, done.stderr))
    assert not (tmp_path / "out.json").exists()


def _no_metadata(path):
    (path / "zarr.json").unlink()
    (path / "logits" / "zarr.json").unlink()


def _chunks(path, content):
    for chunk in (path / "logits").rglob("*"):
        if chunk.is_file() and chunk.name != "zarr.json":
            chunk.write_bytes(content)


ZARR = {
    "empty folder": lambda path: [shutil.rmtree(path), path.mkdir()],
    "file": lambda path: [shutil.rmtree(path), path.write_bytes(b"no folder")],
    "no metadata": _no_metadata,
    "broken metadata": lambda path: (path / "logits" / "zarr.json").write_text('{"shape": ['),
    "deep metadata": lambda path: (path / "logits" / "zarr.json").write_text("[" * 100_000),
    "other metadata": lambda path: (path / "logits" / "zarr.json").write_text("[1, 2]"),
    "broken chunks": lambda path: _chunks(path, b"no chunk"),
    "empty chunks": lambda path: _chunks(path, b""),
}


@pytest.mark.parametrize("name", ZARR)
def test_a_damaged_zarr_is_refused(name, work, tepid_here):
    path = containers.write_zarr(work / "z.zarr", hostile.TABLE)
    ZARR[name](path)
    _refused(tepid_here("fit", "z.zarr", "-o", "out.json"))
    assert not Path("out.json").exists()
    _refusal(tepid.uts, "z.zarr")


def test_a_refusal_leaves_an_older_output_as_it_was(work, tepid_here):
    Path("z.npy").write_bytes(hostile.MISLEADING["cut header.npy"](work))
    Path("out.json").write_text("older", "utf-8")
    _refused(tepid_here("fit", "z.npy", "-o", "out.json"), "z.npy")
    assert Path("out.json").read_text("utf-8") == "older"


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npy"])
def test_a_bad_row_is_named_with_its_file(ending, tmp_path):
    folder = {".csv": containers.csv_parts, ".npy": containers.npy_parts}.get(
        ending, containers.parquet_parts
    )
    wrong = Z.copy()
    wrong[95, 2] = np.nan  # row 5 of the third part, which begins at row 90
    said = _refusal(tepid.uts, folder(tmp_path, replace(TABLE, logits=wrong)))
    assert f"part-10{ending}" in said
    assert "row 5" in said


# --- 12: probabilities

CALM = Z / 8
P = np.exp(CALM) / np.exp(CALM).sum(axis=1, keepdims=True)
LOG_P = np.log(P)
KNOWN = np.where(np.arange(len(Y)) < 60, Y, -1)


SCALING = ("vector", "matrix", "histogram", "isotonic", "bbq", "ensemble", "beta", "dirichlet")


def _fitted(name):
    """A method with labels of tepid.scaling; its result is compared on a few rows."""
    return lambda z, **options: getattr(tepid.scaling, name)(z, Y, **options)(CALM[:9])


def _write_report(z, **options):
    tepid.report.write("report.html", z, **options)
    return Path("report.html").stat().st_size > 0


def _other_model(z):
    """Another model about as good, in the unit of this one."""
    noisy = np.exp(CALM + np.random.default_rng(3).normal(size=CALM.shape))
    p = noisy / noisy.sum(axis=1, keepdims=True)
    return p if z.min() >= 0 else np.log(p)


def _call(z, **options):
    t = tepid.temperature_scaling(CALM, Y)
    return t(z, **options)


PYTHON = {
    "uts": lambda z, **options: tepid.uts(z, **options).value,
    "match_accuracy": lambda z, **options: tepid.match_accuracy(z, 0.8, **options).value,
    "from_odds": lambda z, **options: from_odds(open_source(z, **options)).value,
    "calibrate": lambda z, **options: tepid.calibrate(z, **options).implied_accuracy,
    "calibrate+accuracy": lambda z, **options: tepid.calibrate(z, accuracy=0.8, **options).value,
    "calibrate+labels": lambda z, **options: tepid.calibrate(z, KNOWN, **options).value,
    "calibrate+models": lambda z, **options: (
        tepid.calibrate(z, models=[_other_model(z)], **options).interval
    ),
    "calibrate+reference": lambda z, **options: (
        tepid.calibrate(z, reference=_other_model(z), **options).value
    ),
    "calibrate+source": lambda z, **options: (
        tepid.calibrate(z, source=(z[:200], Y[:200]), **options).value
    ),
    "calibrate+labeled": lambda z, **options: (
        tepid.calibrate(z, labeled=(z[:60], Y[:60]), **options).value
    ),
    "temperature_scaling": lambda z, **options: tepid.temperature_scaling(z, Y, **options).value,
    "summarize": lambda z, **options: (
        tepid.temperature_scaling(tepid.summarize(z, Y, **options)).value
    ),
    "report.write": _write_report,
    "called": _call,
} | {
    f"scaling.{name}": _fitted(name)
    for name in (
        "vector",
        "matrix",
        "histogram",
        "isotonic",
        "bbq",
        "ensemble",
        "beta",
        "dirichlet",
    )
}


# Fits of many numbers take seconds.
_MANY = ("scaling.vector", "scaling.matrix", "scaling.dirichlet", "scaling.ensemble")
EVERY = [pytest.param(name, marks=pytest.mark.slow) if name in _MANY else name for name in PYTHON]


def _needs_extra(name):
    if name.startswith("scaling"):
        needed("sklearn")
        needed("scipy")


@pytest.mark.filterwarnings("ignore::tepid.CalibrationWarning")
@pytest.mark.parametrize("name", EVERY)
def test_probabilities_are_warned_of(name):
    _needs_extra(name)
    warning = tepid.errors.ProbabilityWarning
    assert issubclass(warning, UserWarning)
    with pytest.warns(warning, match="probabilities=True"):
        PYTHON[name](P)


@pytest.mark.parametrize("name", EVERY)
def test_probabilities_that_are_declared_are_their_logarithms(name):
    _needs_extra(name)
    expected = PYTHON[name](LOG_P)
    found = PYTHON[name](P, probabilities=True)  # where a warning is an error
    np.testing.assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize(
    "container",
    [
        param
        for param in containers.every()
        if param.id
        in ("torch", "list of batches", "function", "dask array", "npz", "pandas", "csv", "parquet")
    ],
)
def test_probabilities_are_warned_of_in_containers(container, tmp_path):
    data = container.write(tmp_path, containers.Table(P))
    with pytest.warns(tepid.errors.ProbabilityWarning, match="probabilities=True"):
        tepid.match_accuracy(data, 0.8)
    found = tepid.match_accuracy(data, 0.8, probabilities=True).value
    assert found == _same(tepid.match_accuracy(LOG_P, 0.8).value)


def test_probabilities_of_single_precision_are_warned_of():
    with pytest.warns(tepid.errors.ProbabilityWarning, match="probabilities=True"):
        tepid.match_accuracy(P.astype(np.float32), 0.8)


@pytest.mark.parametrize("row", [0, 150, len(P) - 1])
def test_one_row_that_is_no_probability_is_enough_for_logits(row, tmp_path):
    z = P.copy()
    z[row] *= 2
    folder = containers.npy_parts(tmp_path, containers.Table(z))
    for data in (z, folder):  # where a warning is an error
        tepid.match_accuracy(data, 0.8)


@pytest.fixture
def unit_files(work):  # noqa: ARG001  # which is where they are
    np.save("p.npy", P)
    np.save("log.npy", LOG_P)
    np.save("y.npy", Y)
    tepid.temperature_scaling(CALM, Y).save("cal.json")


COMMANDS = [args[0] for args in _commands("")]


def _command(verb, file):
    return next(args for args in _commands(file, ["y.npy"]) if args[0] == verb)


@pytest.mark.filterwarnings("always")
@pytest.mark.usefixtures("unit_files")
@pytest.mark.parametrize("verb", COMMANDS)
def test_every_command_notes_probabilities(verb, tepid_here):
    code, _, err = tepid_here(*_command(verb, "p.npy"))
    assert code == 0, err
    notes = [line for line in err.splitlines() if "--probabilities" in line]
    assert notes
    assert all(line.startswith("note") for line in notes)
    assert "Traceback" not in err
    for args in ((*_command(verb, "p.npy"), "--probabilities"), _command(verb, "log.npy")):
        code, _, err = tepid_here(*args)
        assert code == 0, err
        assert "--probabilities" not in err


@pytest.mark.usefixtures("unit_files")
@pytest.mark.parametrize("verb", ["fit", "score", "compare"])
def test_declared_probabilities_print_the_same(verb, tepid_here):
    of_logits = _json(tepid_here(*_command(verb, "log.npy"), "--json"))
    found = _json(tepid_here(*_command(verb, "p.npy"), "--probabilities", "--json"))
    assert _rounded(found) == _rounded(of_logits)


TIMES = ("seconds", "cost_of_uts")


def _rounded(value):
    """Printed JSON without times, to five digits."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items() if key not in TIMES}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


@pytest.mark.usefixtures("unit_files")
def test_declared_probabilities_are_calibrated_as_their_logarithms(tepid_here):
    written = []
    for file, args in (("p.npy", ["--probabilities"]), ("log.npy", [])):
        code, _, err = tepid_here("apply", "cal.json", file, "-o", "applied.npy", *args)
        assert code == 0, err
        written.append(np.load("applied.npy"))
    np.testing.assert_allclose(*written, rtol=1e-6)


# --- rows of a table


def _split_table():
    beside = {"y": Y, "split": SPLIT, "fold": FOLD}
    return replace(TABLE, beside=beside)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "folder of parquet", "feather"])
@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ({"split": "test"}, SPLIT == "test"),
        ({"fold": 3}, FOLD == 3),
        ({"fold": 3, "split": "test"}, (FOLD == 3) & (SPLIT == "test")),
    ],
    ids=["text", "number", "both"],
)
def test_rows_are_chosen_by_their_columns(kind, where, kept, tmp_path):
    path = containers.NUMBERED[kind](tmp_path, _split_table())
    t = tepid.temperature_scaling(open_source(path, labels="y", where=where))
    assert (t.samples, t.value) == (
        kept.sum(),
        _same(tepid.temperature_scaling(Z[kept], Y[kept]).value),
    )


@pytest.mark.parametrize("kind", ["parquet", "folder of parquet", "feather"])
def test_rows_are_chosen_by_an_expression_of_arrow(kind, tmp_path):
    path = containers.NUMBERED[kind](tmp_path, _split_table())
    column = needed("pyarrow.compute").field
    kept = (FOLD > 1) & (SPLIT == "test")
    where = (column("fold") > 1) & (column("split") == "test")
    t = tepid.temperature_scaling(open_source(path, labels="y", where=where))
    assert (t.samples, t.value) == (
        kept.sum(),
        _same(tepid.temperature_scaling(Z[kept], Y[kept]).value),
    )


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow table"])
def test_rows_of_tables_in_memory_are_chosen_too(kind, tmp_path):
    data = containers.NUMBERED[kind](tmp_path, _split_table())
    kept = SPLIT == "test"
    t = tepid.temperature_scaling(open_source(data, labels="y", where={"split": "test"}))
    assert (t.samples, t.value) == (
        kept.sum(),
        _same(tepid.temperature_scaling(Z[kept], Y[kept]).value),
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_are_chosen_on_the_command_line(kind, work, tepid_here):
    path = containers.NUMBERED[kind](work, _split_table())
    kept = SPLIT == "test"
    args = ("fit", path, "--labels", "y", "--where", "split=test")
    printed = _json(tepid_here(*args, "--json"))
    expected = tepid.calibrate(Z[kept], Y[kept]).value
    assert (printed["samples"], printed["temperature"]) == (kept.sum(), _same(expected))
    kept &= FOLD == 3
    printed = _json(tepid_here(*args, "--where", "fold=3", "--json"))
    assert printed["samples"] == kept.sum()


@pytest.mark.parametrize("where", ["split", "nothing=3", "=3", "split=nobody"])
def test_a_choice_of_rows_that_cannot_be_made_is_refused(where, work, tepid_here):
    containers.write_csv(work / "z.csv", _split_table())
    _refused(tepid_here("fit", "z.csv", "--where", where, "-o", "out.json"))
    assert not Path("out.json").exists()


def test_rows_are_chosen_from_tables_only(tepid_here):
    np.save("z.npy", Z)
    assert "where" in _refusal(open_source, "z.npy", where={"split": "test"})
    assert "where" in _refusal(open_source, Z, where={"split": "test"})
    _refused(tepid_here("fit", "z.npy", "--where", "split=test"), "where")


# --- labels of every kind


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])
def test_labels_of_several_files_come_in_several_ways(kind, tmp_path):
    if kind == "npy":
        folder = containers.npy_parts(tmp_path, TABLE)
    else:
        folder = containers.NUMBERED[f"folder of {kind}"](tmp_path, TABLE)
    whole = containers.write_npy(tmp_path / "y.npy", Y)
    ends = [0, 1, 90, 200, len(Y)]
    parts = [
        containers.write_npy(tmp_path / f"y-{number}.npy", Y[a:b])
        for number, (a, b) in enumerate(itertools.pairwise(ends))
    ]
    expected = tepid.temperature_scaling(Z, Y).value
    for labels in (whole, str(whole), parts, [str(part) for part in parts], Y, Y.tolist()):
        assert tepid.temperature_scaling(folder, labels).value == _same(expected)


def test_labels_of_another_length_are_refused(tmp_path):
    folder = containers.npy_parts(tmp_path, TABLE)
    short = containers.write_npy(tmp_path / "y.npy", Y[:-1])
    for labels in (Y[:-1], short, [short, short]):
        assert "labels" in _refusal(tepid.temperature_scaling, folder, labels)


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
@pytest.mark.parametrize("verb", ["score", "compare"])
def test_labels_to_score_are_called_labels_unless_they_are_named(kind, verb, work, tepid_here):
    options = ("--draws", "0") if verb == "score" else ("--splits", "2")
    writers = containers.NUMBERED | containers.ARCHIVES
    Path("named").mkdir()
    usual = writers[kind](work, replace(TABLE, beside={"labels": Y}))
    named = writers[kind](work / "named", replace(TABLE, beside={"truth": Y}))
    printed = _json(tepid_here(verb, usual, *options, "--json"))
    again = _json(tepid_here(verb, named, "truth", *options, "--json"))
    assert _rounded(again) == _rounded(printed)
    _refused(tepid_here(verb, named, *options), "labels")


# --- no room for temporary files


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.mark.parametrize(
    "kind", ["csv", "csv.gz", "parquet", "parquet in row groups", "folder of csv"]
)
def test_a_full_disk_does_not_matter(kind, tmp_path, monkeypatch):
    path = containers.NUMBERED[kind](tmp_path, TABLE)
    assert tepid.uts(path).value == _same(tepid.uts(Z).value)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 30, 1 << 30, 0))
    assert tepid.uts(path).value == _same(tepid.uts(Z).value)
    assert tepid.temperature_scaling(path, "y").value == _same(
        tepid.temperature_scaling(Z, Y).value
    )


# --- what people have: other types, orders and spellings


def test_a_glob_of_numbered_columns_follows_the_numbers():
    pd = needed("pandas")
    rng = np.random.default_rng(2)
    z = 4 * rng.normal(size=(300, 12))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    table = pd.DataFrame(z, columns=[f"logit_{k}" for k in range(12)])
    spelled = table[sorted(table.columns)]  # logit_10 before logit_2
    found = tepid.temperature_scaling(spelled, y, columns="logit_*")
    assert found.value == pytest.approx(tepid.temperature_scaling(z, y).value, rel=1e-9)


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_nullable_types_of_pandas_are_numbers(backend):
    table = needed("pandas").DataFrame(Z, columns=["0", "1", "2", "3"]).assign(y=Y)
    typed = table.convert_dtypes(dtype_backend=backend)
    found = tepid.temperature_scaling(typed, "y")
    assert found.value == pytest.approx(tepid.temperature_scaling(Z, Y).value, rel=1e-9)


def test_decimals_are_numbers():
    logits = needed("pandas").DataFrame(Z, columns=["z0", "z1", "z2", "z3"])
    names = ", ".join(f"CAST({name} AS DECIMAL(18, 9)) AS {name}" for name in logits)
    relation = needed("duckdb").sql(f"SELECT {names} FROM logits")  # names above
    found = tepid.match_accuracy(relation, 0.6)
    assert found.value == pytest.approx(tepid.match_accuracy(Z, 0.6).value, rel=1e-7)


def test_a_record_batch_is_a_table():
    pa = needed("pyarrow")
    batch = pa.RecordBatch.from_arrays([pa.array(Z[:, k]) for k in range(4)], list("0123"))
    t = tepid.uts(batch)
    assert t.value == pytest.approx(tepid.uts(Z).value, rel=1e-9)
    np.testing.assert_array_equal(t(batch), t(Z))


def test_a_quoted_cell_may_hold_line_breaks():
    Path("z.csv").write_text(
        'prompt,z_0,z_1\n"one\ntwo",2,1\n"a ""b""\n\n",0,3\nplain,1,1\n', "utf-8"
    )
    whole = tepid.sources.open_source("z.csv", groups="prompt").whole()
    np.testing.assert_array_equal(whole.logits, [[2, 1], [0, 3], [1, 1]])
    assert len(set(whole.group)) == 3


def test_a_group_has_one_name_in_every_format():
    pd = needed("pandas")
    table = pd.DataFrame(Z[:4], columns=["0", "1", "2", "3"]).assign(site=[1.0, 2.0, 1.0, 10.0])
    table.to_csv("z.csv", index=False)
    table.to_parquet("z.parquet")
    for file in ("z.csv", "z.parquet"):
        found = tepid.sources.open_source(file, groups="site", header=None).whole().group
        assert found.tolist() == ["1", "2", "1", "10"]
    table.assign(site=["a", "", "007", "b"]).to_csv("z.csv", index=False)
    assert "row 1" in _refusal(tepid.uts, "z.csv", groups="site")


def test_rounded_and_single_probabilities_are_warned_of():
    for p in (P.round(2), P[:, 0], P[:, :1]):
        with pytest.warns(tepid.errors.ProbabilityWarning, match="probabilities=True"):
            tepid.match_accuracy(p, 0.6)


def test_an_opened_source_takes_no_names():
    needed("pandas").DataFrame(Z, columns=["0", "1", "2", "3"]).assign(y=Y).to_csv(
        "z.csv", index=False
    )
    source = tepid.sources.open_source("z.csv")
    assert "when the source is opened" in _refusal(tepid.temperature_scaling, source, "y")


def test_an_unclosed_quote_is_refused():
    rows = "".join(f"{i % 5},{i % 3},{i % 2},ok\n" for i in range(98))
    Path("z.csv").write_text(f'z0,z1,y,note\n1,2,0,a\n3,4,1,"b\n{rows}', "utf-8")
    assert "z.csv" in _refusal(tepid.temperature_scaling, "z.csv", "y")
    Path("z.csv").write_text('z0,z1,y,size\n1,2,0,5" pipe\n3,4,1,b\n', "utf-8")
    assert tepid.sources.open_source("z.csv", labels="y").whole().labels.tolist() == [0, 1]


def test_a_missing_value_of_a_dictionary_is_missing():
    pa = needed("pyarrow")
    coded = pa.array(["a", "b", None]).dictionary_encode()
    table = pa.table({"z": [[1.0, 2.0]] * 3, "site": coded})
    assert "row 2" in _refusal(tepid.uts, table, groups="site")
    loose = pa.chunked_array([coded])
    assert "row 2" in _refusal(tepid.uts, np.eye(3), groups=loose)


def test_a_condition_on_large_whole_numbers_is_exact():
    pd = needed("pandas")
    table = pd.DataFrame({"z0": [5.0, 6.0, 7.0], "z1": 0.0, "id": [2**53 + 1, 2**53, 3]})
    table.to_csv("z.csv", index=False)
    table.to_parquet("z.parquet")
    for data in (table, "z.csv", "z.parquet"):
        found = tepid.sources.open_source(data, where={"id": str(2**53 + 1)}).whole()
        np.testing.assert_array_equal(found.logits, [[5.0, 0.0]])


def test_dask_columns_of_other_lengths_and_masks_are_refused():
    da, dask = needed("dask.array"), needed("dask")
    chunk = da.from_delayed(dask.delayed(lambda: np.arange(5) % 2)(), (np.nan,), dtype=int)
    rows = da.from_delayed(dask.delayed(lambda: Z[:8])(), (np.nan, 4), dtype=float)
    assert "8 rows, got 5" in _refusal(tepid.temperature_scaling, rows, chunk)
    masked = da.from_array(np.ma.masked_array(Z, mask=Z > 2), chunks=100)
    assert "mask" in _refusal(tepid.uts, masked)


def test_an_empty_path_is_refused(tepid_here):
    np.save("z.npy", Z)
    _refused(tepid_here("fit", "", "-o", "out.json"))
    assert "empty" in _refusal(tepid.uts, "")


def test_a_folder_of_logits_and_labels_is_refused():
    Path("both").mkdir()
    np.save("both/a.npy", Z[:, :2])
    np.save("both/b.npy", Y)
    assert "one value per row" in _refusal(tepid.uts, "both")


def test_a_folder_may_end_like_a_file():
    Path("z.parquet").mkdir()
    needed("pandas").DataFrame(Z, columns=list("0123")).to_parquet("z.parquet/part-0.parquet")
    found = tepid.uts("z.parquet")
    assert found.value == pytest.approx(tepid.uts(Z).value, rel=1e-9)


def test_files_are_not_joined_with_an_array_that_cannot_be_cut():
    for name in ("a", "b"):
        np.savetxt(f"{name}.csv", P[:3], delimiter=",")
    for probabilities in (False, True):
        source = tepid.sources.open_source(
            ["a.csv", "b.csv"], labels=np.zeros(6, int), probabilities=probabilities
        )
        assert "not counted" in _refusal(source.files)


def test_columns_of_another_shape_are_refused():
    pd = needed("pandas")
    hot = pd.DataFrame({"a": [1, 0], "b": [0, 1]})
    assert "shape" in _refusal(tepid.temperature_scaling, Z[:4, :2], hot)


def test_other_models_skip_the_rows_that_a_condition_leaves_out():
    table = needed("pandas").DataFrame(Z, columns=list("0123"))
    table["fold"] = ["train"] * 200 + ["test"] * (len(Z) - 200)
    table.to_parquet("z.parquet", row_group_size=50)
    rows = tepid.sources.open_source("z.parquet", where={"fold": "test"})
    other = Z[200:] + np.random.default_rng(1).normal(size=Z[200:].shape)
    found = tepid.calibrate(rows, models=[other], accuracy=0.9)
    whole = tepid.calibrate(Z[200:], models=[other], accuracy=0.9)
    assert found.value == pytest.approx(whole.value, rel=1e-9)
