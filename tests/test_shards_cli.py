"""The commands on tables and on many files."""

import json

import numpy as np
import pytest

import tepid
from tests import containers, written

pytest.importorskip("pyarrow", reason="these files need pyarrow")


@pytest.fixture
def shards(tmp_path, monkeypatch, network):
    """A folder with four files of a made-up network, and the rows of all of them."""
    monkeypatch.chdir(tmp_path)
    z, y = network[0][:900], network[1][:900]
    split = np.where(np.arange(900) % 3, "test", "train")
    beside = {"labels": y, "split": split, "site": np.arange(900) % 2}
    (tmp_path / "shards").mkdir()
    for i, part in enumerate(containers.Table(z, beside).parts((0, 200, 201, 500))):
        path = tmp_path / "shards" / f"part-{i}.parquet"
        containers.write_parquet(path, containers.arrow_list(part), 60)
    return z, y, split


def _fitted(tepid_here, *args):
    code, out, err = tepid_here("fit", *args, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("given", ["shards", "shards/", "shards/*.parquet", "./shards/part-*"])
def test_a_folder_or_a_pattern_is_fitted_as_its_rows(given, shards, tepid_here):
    z, y, _ = shards
    t = _fitted(tepid_here, given, "--method", "uts")
    assert t["temperature"] == pytest.approx(tepid.uts(z).value, rel=1e-9)
    assert t["samples"] == 900
    known = tepid.calibrate(z, y).value
    np.save("y.npy", y)
    for labels in ("labels", f"./{given}", "y.npy"):
        found = _fitted(tepid_here, given, "--labels", labels)
        assert found["temperature"] == pytest.approx(known, rel=1e-9)


def test_some_rows_are_fitted(shards, tepid_here):
    z, y, split = shards
    kept = (split == "test") & (np.arange(900) % 2 == 0)
    where = ("--where", "split=test", "--where", "site=0")
    t = _fitted(tepid_here, "shards", "--labels", "labels", *where)
    assert t["samples"] == kept.sum()
    assert t["temperature"] == pytest.approx(tepid.calibrate(z[kept], y[kept]).value, rel=1e-9)


def test_models_and_a_reference_may_be_folders_of_other_files(shards, tepid_here, tmp_path):
    z, y, _ = shards
    other = z + np.random.default_rng(0).normal(size=z.shape).astype(np.float32)
    (tmp_path / "other").mkdir()
    for i, part in enumerate(np.split(other, (13, 450))):  # cut elsewhere
        np.save(tmp_path / "other" / f"part-{i}.npy", part)
    np.save("y.npy", np.where(np.arange(900) % 9, -1, y))
    evidence = ("--models", "other", "--reference", "other/*.npy", "--labels", "y.npy")
    t = _fitted(tepid_here, "shards", *evidence)
    with pytest.warns(tepid.CalibrationWarning, match="labels alone contradicts"):
        whole = tepid.calibrate(z, np.load("y.npy"), models=[other], reference=other)
    assert t["temperature"] == pytest.approx(whole.value, rel=1e-6)
    assert t["interval"] == pytest.approx(whole.interval, rel=1e-6)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("split", "--where must be column=value, got split"),
        ("fold=1", "where must name a column of part-0.parquet, which has 'logits', 'labels'"),
        ("site=north", "where must compare site with int64, got 'north'"),
        ("split=none", "shards must have at least one row, got none"),
    ],
)
def test_rows_that_cannot_be_chosen_are_refused(where, said, shards, tepid_here):  # noqa: ARG001
    code, out, err = tepid_here("fit", "shards", "--where", where)
    assert (code, out) == (2, "")
    assert err.startswith(f"tepid: {said}")
    assert err.count("\n") == 1


def test_the_columns_of_a_table_are_chosen_by_name(shards, tepid_here, tmp_path):
    z, y, _ = shards
    names = ("cat", "dog", "eel")
    table = containers.Table(z[:, :3], {"labels": y, "scores": z[:, 3:]}, names)
    columns = containers.arrow_numbered(table.without("scores"))
    wide = columns.append_column("scores", [list(z[:, 3:])])
    containers.write_parquet(tmp_path / "wide.parquet", wide)
    for given, logits in (
        ("cat,dog,eel", z[:, :3]),
        ("eel,cat", z[:, [2, 0]]),
        ("scores", z[:, 3:]),
    ):
        t = _fitted(tepid_here, "wide.parquet", "--columns", given, "--method", "uts")
        assert t["classes"] == logits.shape[1]
        assert t["temperature"] == pytest.approx(tepid.uts(logits).value, rel=1e-9)
    containers.write_parquet(tmp_path / "named.parquet", columns)
    code, _, err = tepid_here("fit", "named.parquet")
    assert code == 2
    assert err.startswith("tepid: columns (--columns) must name the logits of named.parquet")


def test_a_damaged_file_stops_a_fit_and_is_named(shards, tepid_here, tmp_path):  # noqa: ARG001
    path = tmp_path / "shards" / "part-2.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    code, out, err = tepid_here("fit", "shards", "-o", "cal.json")
    assert (code, out) == (2, "")
    assert err.startswith("tepid: part-2.parquet cannot be read: ")
    assert err.count("\n") == 1
    assert not (tmp_path / "cal.json").exists()


def test_the_other_commands_take_them_too(shards, tepid_here):
    z, y, split = shards
    tepid.temperature_scaling(z, y).save("cal.json")
    code, out, err = tepid_here("score", "shards", "-c", "cal.json", "--draws", "5", "--json")
    assert code == 0, err
    known = tepid.metrics.nll(y, tepid.load("cal.json")(z))
    assert json.loads(out)["after"]["nll"] == pytest.approx(known, rel=1e-5)
    rows = (split == "test").sum()
    for args in (
        ("score", "shards", "--draws", "0"),
        ("score", "shards", "labels", "--draws", "0"),
        ("fit", "shards", "--labels", "labels"),
        ("compare", "shards", "--splits", "2"),
        ("summarize", "shards", "-o", "sums.npz"),
    ):
        code, out, err = tepid_here(*args, "--where", "split=test", "--json")
        assert code == 0, err
        assert json.loads(out)["samples"] == rows
    code, _, err = tepid_here("report", "shards", "--where", "split=test", "-o", "r.html")
    assert code == 0, err


@pytest.mark.parametrize("form", [None, "npy", "csv", "parquet"])
def test_every_file_is_applied_to_a_file_of_its_own(form, shards, tepid_here, tmp_path):
    z, _, _ = shards
    tepid.uts(z).save("cal.json")
    args = () if form is None else ("--format", form)
    code, out, err = tepid_here("apply", "cal.json", "shards", "-o", "out", *args, "--json")
    assert code == 0, err
    assert json.loads(out) == {"output": "out", "samples": 900, "classes": 12, "files": 4}
    ending = form or "parquet"
    names = [f"part-{i}.{ending}" for i in range(4)]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    written_ = tepid.sources.open_source("out", probabilities=True)
    expected = tepid.load("cal.json")(z)
    np.testing.assert_allclose(np.exp(written_.whole().logits), expected, rtol=1e-5)
    for name, rows in zip(names, np.split(expected, (200, 201, 500)), strict=True):
        one = tepid.sources.open_source(f"out/{name}", probabilities=True).whole().logits
        np.testing.assert_allclose(np.exp(one), rows, rtol=1e-5)


def test_applying_to_one_file_joins_them(shards, tepid_here):
    z, _, split = shards
    tepid.uts(z).save("cal.json")
    expected = tepid.load("cal.json")(z)
    for out in ("p.parquet", "p.npy"):
        code, _, err = tepid_here("apply", "cal.json", "shards", "-o", out)
        assert code == 0, err
        read = tepid.sources.open_source(out, probabilities=True).whole().logits
        np.testing.assert_allclose(np.exp(read), expected, rtol=1e-5)
    code, _, err = tepid_here("apply", "cal.json", "shards", "-o", "p.npy", "--where", "split=test")
    assert code == 0, err
    np.testing.assert_array_equal(np.load("p.npy"), expected[split == "test"])


@pytest.mark.parametrize("groups", ["site", "site.npy", "sites/*.npy"])
def test_groups_go_with_their_files(groups, shards, tepid_here, tmp_path):
    z, y, _ = shards
    site = np.arange(900) % 2
    _write_sites(tmp_path, site)
    tepid.temperature_scaling(z, y, groups=site).save("cal.json")
    code, _, err = tepid_here(
        "apply", "cal.json", "shards", "-o", "out", "--groups", groups, "--format", "npy"
    )
    assert code == 0, err
    found = np.concatenate([np.load(f"out/part-{i}.npy") for i in range(4)])
    np.testing.assert_array_equal(found, tepid.load("cal.json")(z, groups=site))


def _write_sites(folder, site):
    """The groups of all rows in one file, and those of each shard in a file of its own."""
    np.save(folder / "site.npy", site)
    (folder / "sites").mkdir()
    for i, part in enumerate(np.split(site, (200, 201, 500))):
        np.save(folder / "sites" / f"{i}.npy", part)


def test_groups_in_one_file_are_not_cut_for_csv_files_of_unknown_length(
    shards, tepid_here, tmp_path
):
    z, y, _ = shards
    site = np.arange(900) % 2
    _write_sites(tmp_path, site)
    (tmp_path / "texts").mkdir()
    for i, part in enumerate(np.split(z, (200, 201, 500))):
        np.savetxt(tmp_path / "texts" / f"part-{i}.csv", part, delimiter=",")
    tepid.temperature_scaling(z, y, groups=site).save("cal.json")
    args = ("apply", "cal.json", "texts", "-o", "out", "--format", "npy", "--groups")
    code, out, err = tepid_here(*args, "site.npy")
    assert (code, out) == (2, "")
    assert err.startswith("tepid: labels, sample_weight and groups must be columns of the files")
    assert not (tmp_path / "out").exists()
    code, _, err = tepid_here(*args, "sites/*.npy")
    assert code == 0, err
    found = np.concatenate([np.load(f"out/part-{i}.npy") for i in range(4)])
    np.testing.assert_allclose(found, tepid.load("cal.json")(z, groups=site), rtol=1e-5)


def test_an_empty_file_becomes_an_empty_file(shards, tepid_here, tmp_path):
    z, y, _ = shards
    tepid.uts(z).save("cal.json")
    (tmp_path / "some").mkdir()
    for i, rows in enumerate((slice(0, 0), slice(0, 50))):
        written.write(tmp_path / f"some/part-{i}.fixed.parquet", z[rows], y[rows])
    for form in ("npy", "parquet"):
        code, _, err = tepid_here(
            "apply", "cal.json", "some", "-o", f"out-{form}", "--format", form
        )
        assert code == 0, err
    assert np.load("out-npy/part-0.fixed.npy").shape == (0, 12)
    assert tepid.sources.open_source("out-parquet").rows == 50


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("shards -o shards --format parquet", "output must not be one of the inputs, got shards/"),
        ("shards -o out --format txt", "--format must be one of npy, csv, parquet, got txt"),
        ("shards -o no/out", "output must be in a folder that exists, got no/out"),
        ("shards -o p.npy --format npy", "--format must go with a folder to write to, got p.npy"),
        ("shards -o out --class-axis 1", "--class-axis must go with one file to write"),
        ("shards -o p.txt", "output must end in .npy, .npz, .csv or .parquet, got p.txt"),
        ("shards -o shards/part-1.parquet", "output must not be one of the inputs, got shards/"),
        ("shards/part* -o shards/part-1.parquet", "output must not be one of the inputs"),
        (
            "shards --groups sites/ -o sites --format npy",
            "output must not be one of the inputs, got sites/part-1.npy",
        ),
        (
            "twice -o out --format npy",
            "files must have names of their own, got two that make z.npy",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_read(
    args, said, shards, tepid_here, tmp_path
):
    (tmp_path / "twice").mkdir()
    (tmp_path / "sites").mkdir()
    np.save(tmp_path / "sites" / "part-1.npy", np.zeros(900, int))
    for name in ("z.parquet", "z.npy"):
        written.write(tmp_path / "twice" / name, shards[0])
    tepid.uts(shards[0]).save("cal.json")
    before = sorted(path for path in tmp_path.rglob("*"))
    code, out, err = tepid_here("apply", "cal.json", *args.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"tepid: {said}")
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_a_bad_row_leaves_no_half_written_file(shards, tepid_here, tmp_path):
    z, y, _ = shards
    tepid.uts(z).save("cal.json")
    bad = z[201:500].copy()
    bad[250, 1] = np.nan
    written.write(tmp_path / "shards" / "part-2.parquet", bad, y[201:500])
    code, _, err = tepid_here("apply", "cal.json", "shards", "-o", "out")
    assert code == 2
    assert "part-2.parquet must be finite" in err
    assert err.endswith("at row 250\n")
    assert {p.name for p in (tmp_path / "out").iterdir()} <= {
        f"part-{i}.parquet" for i in (0, 1, 3)
    }
