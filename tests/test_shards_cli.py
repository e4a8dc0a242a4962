"""The commands on tables and on many files."""

import json

import numpy as np
import pytest

import tepid
from tepid.cli import spreading
from tests import written

pytest.importorskip("pyarrow", reason="these files need pyarrow")


@pytest.fixture
def shards(tmp_path, monkeypatch, network):
    """A folder with four files of a made-up network, and the rows of all of them."""
    monkeypatch.chdir(tmp_path)
    z, y = network[0][:900], network[1][:900]
    split = np.where(np.arange(900) % 3, "test", "train")
    (tmp_path / "shards").mkdir()
    for i, (a, b) in enumerate(((0, 200), (200, 201), (201, 500), (500, 900))):
        path = tmp_path / "shards" / f"part-{i}.parquet"
        written.write(path, z[a:b], y[a:b], split=split[a:b], site=np.arange(a, b) % 2)
    return z, y, split


def _fitted(tepid_here, *args):
    code, out, err = tepid_here("fit", *args, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("given", ["shards", "shards/", "shards/*.parquet", "./shards/part-*"])
def test_a_folder_or_a_pattern_is_fitted_as_its_rows(given, shards, tepid_here):
    z, y, _ = shards
    t = _fitted(tepid_here, given)
    assert t["temperature"] == pytest.approx(tepid.from_logits(z).value, rel=1e-9)
    assert t["samples"] == 900
    known = tepid.from_labels(z, y).value
    for labels in ("label", "labels", given):
        found = _fitted(tepid_here, given, "--labels", labels)
        assert found["temperature"] == pytest.approx(known, rel=1e-9)


def test_some_rows_are_fitted(shards, tepid_here):
    z, y, split = shards
    kept = (split == "test") & (np.arange(900) % 2 != 1)
    t = _fitted(tepid_here, "shards", "--labels", "label", "--filter", "split=='test' and site!=1")
    assert t["samples"] == kept.sum()
    assert t["temperature"] == pytest.approx(tepid.from_labels(z[kept], y[kept]).value, rel=1e-9)
    code, _, err = tepid_here("fit", "shards", "--filter", "split = 'test'")
    assert (code, err) == (
        2, 'tepid: filter must compare columns with numbers and texts, got "split = \'test\'"\n'
    )  # fmt: skip


@pytest.mark.parametrize("method", ["temperature", "vector"])
def test_bad_files_stop_a_fit_or_are_skipped_and_said(method, shards, tepid_here, tmp_path):
    z, y, _ = shards
    path = tmp_path / "shards" / "part-2.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    code, _, err = tepid_here("fit", "shards")
    assert code == 2
    assert err.startswith("tepid: part-2.parquet must be a whole .parquet file, got a damaged one")
    rest = np.r_[0:201, 500:900]
    args = ("shards", "--labels", "label", "--on-error", "skip", "--method", method)
    code, _, err = tepid_here("fit", *args)
    assert code == 0, err
    said = "1 of 4 files were left out with all of their rows: part-2.parquet must be a whole"
    assert said in err.replace("\n", " ")
    t = _fitted(tepid_here, *args)
    assert t["samples"] == 601
    if method == "temperature":
        known = tepid.from_labels(z[rest], y[rest]).value
        assert t["temperature"] == pytest.approx(known, rel=1e-9)
        assert t["warnings"][0].startswith(said)
    assert tepid_here("fit", "shards", "--on-error", "maybe")[0] == 2


def test_the_other_commands_take_them_too(shards, tepid_here):
    z, y, split = shards
    tepid.from_labels(z, y).save("cal.json")
    code, out, err = tepid_here("score", "shards", "-c", "cal.json", "--draws", "5", "--json")
    assert code == 0, err
    known = tepid.metrics.nll(y, tepid.load("cal.json")(z))
    assert json.loads(out)["after"]["nll"] == pytest.approx(known, rel=1e-5)
    where = ("--filter", "split == 'test'")
    code, out, err = tepid_here("score", "shards", "--draws", "0", *where, "--json")
    assert json.loads(out)["samples"] == (split == "test").sum()
    code, out, err = tepid_here("advise", "shards", "--labels", "label", *where, "--json")
    assert (code, json.loads(out)["use"]) == (0, "temperature"), err
    code, out, err = tepid_here("compare", "shards", "--splits", "2", *where, "--json")
    assert code == 0, err
    code, out, err = tepid_here("report", "shards", *where, "-o", "r.html")
    assert code == 0, err


@pytest.mark.parametrize("form", [None, *spreading.FORMS])
def test_every_file_is_applied_to_a_file_of_its_own(form, shards, tepid_here, tmp_path):
    z, _, _ = shards
    tepid.from_logits(z).save("cal.json")
    args = () if form is None else ("--format", form)
    code, out, err = tepid_here("apply", "cal.json", "shards", "-o", "out", *args, "--json")
    assert code == 0, err
    assert json.loads(out) == {"output": "out", "samples": 900, "classes": 12, "files": 4}
    ending = form or "parquet"
    names = [f"part-{i}.{ending}" for i in range(4)]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    written_ = tepid.sources.open_source("out", probabilities=True)
    expected = tepid.load("cal.json")(z)
    np.testing.assert_allclose(np.exp(written_.whole()), expected, rtol=1e-5)
    assert [part.rows for part in written_.parts] in ([200, 1, 299, 400], [None] * 4)


def test_applying_to_one_file_joins_them(shards, tepid_here):
    z, _, split = shards
    tepid.from_logits(z).save("cal.json")
    expected = tepid.load("cal.json")(z)
    for out in ("p.parquet", "p.npy"):
        code, _, err = tepid_here("apply", "cal.json", "shards", "-o", out)
        assert code == 0, err
        read = tepid.sources.open_source(out, probabilities=True).whole()
        np.testing.assert_allclose(np.exp(read), expected, rtol=1e-5)
    code, _, err = tepid_here(
        "apply", "cal.json", "shards", "-o", "p.npy", "--filter", "split == 'test'"
    )
    np.testing.assert_array_equal(np.load("p.npy"), expected[split == "test"])


def test_groups_go_with_their_files(shards, tepid_here):
    z, y, _ = shards
    site = np.arange(900) % 2
    tepid.from_labels(z, y, groups=site).save("cal.json")
    code, _, err = tepid_here(
        "apply", "cal.json", "shards", "-o", "out", "--groups", "site", "--format", "npy"
    )
    assert code == 0, err
    found = np.concatenate([np.load(f"out/part-{i}.npy") for i in range(4)])
    np.testing.assert_array_equal(found, tepid.load("cal.json")(z, groups=site))


def test_an_empty_file_becomes_an_empty_file(shards, tepid_here, tmp_path):
    z, y, _ = shards
    tepid.from_logits(z).save("cal.json")
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
    for name in ("z.parquet", "z.npy"):
        written.write(tmp_path / "twice" / name, shards[0])
    tepid.from_logits(shards[0]).save("cal.json")
    before = sorted(path for path in tmp_path.rglob("*"))
    code, out, err = tepid_here("apply", "cal.json", *args.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"tepid: {said}")
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_a_bad_row_leaves_no_half_written_file(shards, tepid_here, tmp_path):
    z, y, _ = shards
    tepid.from_logits(z).save("cal.json")
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
