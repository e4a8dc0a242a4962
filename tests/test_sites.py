"""`tepid summarize`, `merge` and `fit --summary`: a fit whose rows stay where they are."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import tepid


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    for name in ("north", "south"):
        z = 5 * rng.normal(size=(800, 5))
        np.save(f"{name}.npy", z)
        np.save(f"{name}_y.npy", (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1))
    return tmp_path


def _all(suffix=""):
    return np.concatenate([np.load(f"{name}{suffix}.npy") for name in ("north", "south")])


@pytest.fixture
def run(tepid_here):
    def done(*args):
        code, out, err = tepid_here(*args)
        assert code == 0, err
        return out

    return done


def _each(run, *options, suffix=""):
    for name in ("north", "south"):
        extra = [option.format(name) for option in options]
        run("summarize", f"{name}.npy", *extra, "-o", f"{name}{suffix}.npz")
    run("merge", f"north{suffix}.npz", f"south{suffix}.npz", "-o", f"all{suffix}.npz")


def _fit(run, summary, *options):
    return json.loads(run("fit", "--summary", summary, *options, "--json"))


def test_uts_and_calibrate_take_two_rounds(run):
    _each(run, suffix="-tails")
    _each(run, "--given", "all-tails.npz", suffix="-curve")
    told = _fit(run, "all-curve.npz", "--method", "uts", "-o", "c.json")
    assert told["precision"] < 2e-5
    assert told["temperature"] == pytest.approx(tepid.uts(_all()).value, rel=1e-5)
    assert tepid.load("c.json").value == told["temperature"]
    told, whole = _fit(run, "all-curve.npz"), tepid.calibrate(_all())
    assert told["verdict"] == whole.verdict
    assert told["temperature"] == pytest.approx(whole.value, rel=1e-5)
    told, whole = (
        _fit(run, "all-curve.npz", "--accuracy", "70±1%"),
        tepid.calibrate(_all(), accuracy=(0.7, 0.01)),
    )
    assert told["temperature"] == pytest.approx(whole.value, rel=1e-5)
    assert told["interval"] == pytest.approx(whole.interval, rel=1e-4)


def test_labels_count_in_a_second_round(run):
    for name in ("north", "south"):
        labels = np.load(f"{name}_y.npy")
        np.save(f"{name}_y.npy", np.where(np.arange(800) % 20 == 0, labels, -1))
    _each(run, suffix="-tails")
    _each(run, "--given", "all-tails.npz", "--labels", "{}_y.npy", suffix="-curve")
    told, whole = _fit(run, "all-curve.npz"), tepid.calibrate(_all(), _all("_y"))
    assert told["temperature"] == pytest.approx(whole.value, rel=1e-5)
    assert set(told["evidence"]) == {"logits", "labels"}


def test_labels_and_an_accuracy_take_one_round(run):
    _each(run, "--labels", "{}_y.npy")
    told = _fit(run, "all.npz", "--method", "temperature")
    whole = tepid.temperature_scaling(_all(), _all("_y"))
    assert told["temperature"] == pytest.approx(whole.value, rel=1e-5)
    told = _fit(run, "all.npz", "--method", "accuracy", "--accuracy", "0.5..0.7")
    whole = tepid.match_accuracy(_all(), tepid.Range(0.5, 0.7))
    assert told["temperature"] == pytest.approx(whole.value, rel=1e-5)


def test_a_damaged_file_stops_the_sums_and_is_named(tepid_here):
    Path("broken.npy").write_bytes(b"\x93NUMPY")
    code, out, err = tepid_here("summarize", "north.npy", "broken.npy", "-o", "both.npz")
    assert (code, out) == (2, "")
    assert err.startswith("tepid: broken.npy cannot be read: ")
    assert not Path("both.npz").exists()


def test_some_rows_and_columns_of_a_table_are_summarized(run):
    z = np.load("north.npy")
    rows = np.column_stack([z, np.load("north_y.npy"), np.arange(len(z)) % 2])
    header = "cat,dog,eel,fox,gnu,species,fold"
    np.savetxt("north.csv", rows, delimiter=",", header=header, comments="")
    run("summarize", "north.csv", "--columns", "cat,dog,eel,fox,gnu", "--labels", "species",
        "--where", "fold=1", "-o", "table.npz")  # fmt: skip
    found = _fit(run, "table.npz", "--method", "temperature")
    whole = tepid.temperature_scaling(z[1::2], np.load("north_y.npy")[1::2])
    assert found["samples"] == 400
    assert found["temperature"] == pytest.approx(whole.value, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("fit", "--summary", "first.npz"), "second round, got the first"),
        (("fit", "--summary", "first.npz", "north.npy"), "--summary must go without logits"),
        (("fit", "--summary", "first.npz", "--labels", "y.npy"), "without --labels, which needs"),
        (("fit", "--summary", "first.npz", "--models", "x.npy"), "without --models, which needs"),
        (("fit", "--summary", "first.npz", "--method", "vector"), "without --method vector, which"),
        (("fit", "--summary", "first.npz", "--method", "temperature"), "rows with labels, got no"),
        (("fit", "--summary", "first.npz", "--engine", "dask"), "without --engine, which needs"),
        (("fit", "--summary", "first.npz", "--columns", "a,b"), "without --columns, which needs"),
        (("fit", "--summary", "first.npz", "--where", "a=1"), "without --where, which needs rows"),
        (("fit", "--summary", "first.npz", "--no-header"), "without --header, which needs rows"),
        (("fit", "--summary", "first.npz", "--sample-weight", "w"), "without --sample-weight"),
        (("fit", "--summary", "first.npz", "--probabilities"), "without --probabilities"),
        (("fit", "--summary", "north.npy"), "must be a file of Summaries saved by tepid"),
        (("fit", "--summary", "none.npz"), "No such file"),
        (("fit",), "logits must be given, got neither them nor a --summary"),
        (("merge", "first.npz", "first.npz", "-o", "x.npz"), "first.npz: .* same rows twice"),
        (("merge", "first.npz", "second.npz", "-o", "x.npz"), "second.npz: .* one round"),
        (("merge", "first.npz", "-o", "x.json"), "output must end in .npz"),
        (("summarize", "north.npy", "-o", "north.npy"), "output must end in .npz"),
    ],
)  # fmt: skip
def test_a_refusal_is_one_sentence_and_touches_nothing(run, tepid_here, arguments, sentence):
    run("summarize", "north.npy", "-o", "first.npz")
    run("summarize", "south.npy", "--given", "first.npz", "-o", "second.npz")
    code, out, err = tepid_here(*arguments)
    assert code == 2
    assert out == ""
    assert re.search(sentence, err), err
    assert err.count("\n") == 1
    assert not any(Path(f).exists() for f in ("x.npz", "x.json"))


def test_several_shards_are_summarized_together(run):
    run("summarize", "north.npy", "south.npy", "-o", "both.npz")
    _each(run)
    both, apart = (tepid.Summaries.load(f) for f in ("both.npz", "all.npz"))
    assert both.curve == apart.curve
