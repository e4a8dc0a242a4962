"""The benchmark of all rungs, run on a folder of networks that never were."""

import csv
import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "evidence.py"
ROWS, CLASSES = 1500, 5
PARTS = ["alone", "few", "peers", "shift", "coverage"]


def _script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _drawn(rng, scale=4.0):
    """A calibrated posterior, and labels that fit it."""
    posterior = scale * rng.normal(size=(ROWS, CLASSES))
    return posterior, (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three sets for which one temperature is right, five networks on the same rows, a shift."""
    place, rng = tmp_path_factory.mktemp("sets"), np.random.default_rng(3)
    for name, right in (("over", 2.5), ("under", 0.6), ("fine", 1.0)):
        posterior, y = _drawn(rng)
        np.savez(place / f"{name}.npz", logits=(right * posterior).astype("f4"), labels=y)
    posterior, y = _drawn(rng, scale=6.0)
    for name in "abcde":
        seen = posterior + rng.normal(size=posterior.shape)
        np.savez(place / f"pool_{name}_made.npz", logits=(2 * seen).astype("f4"), labels=y)
    (old, old_y), (new, new_y) = _drawn(rng), _drawn(rng, scale=2.0)
    parts = {"logits": 2 * new, "labels": new_y, "logits_val": 2 * old, "labels_val": old_y}
    np.savez(place / "moved_shift.npz", **parts)
    return place


def _run(folder, place, *options):
    command = [sys.executable, SCRIPT, folder, "--quick", "--state", place / "state.jsonl"]
    command += ["--results", place, "--figures", place, *options]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads((place / "evidence.json").read_text())["parts"]


@pytest.fixture(scope="module")
def first(folder, tmp_path_factory):
    """One run by one worker: (its place, its figures)."""
    place = tmp_path_factory.mktemp("first")
    return place, _run(folder, place, "--workers", "1")


def _table(place):
    with (place / "evidence.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_every_rung_of_every_part_is_measured(first):
    place, parts = first
    assert list(parts) == PARTS
    assert list(parts["few"]) == [f"{n} labels" for n in (10, 25, 50, 100, 200, 500)]
    assert {"pool pairs", "pool triples", "pool fives", "made pairs"} <= parts["peers"].keys()
    assert parts["shift"].keys() >= {"iid", "label shift", "real shift"}
    assert parts["alone"]["all sets"]["UTS"]["cases"] == 9
    assert parts["peers"]["pool fives"]["models"]["cases"] == 5
    for groups in list(parts.values())[:4]:
        for rungs in groups.values():
            assert all(0 <= r["ece"] < 1 and r["excess_nll"] > -1e-6 for r in rungs.values())
    table = _table(place)
    assert {row["part"] for row in table} == set(PARTS)
    keys = [tuple(row[c] for c in ("part", "group", "set", "rung", "case")) for row in table]
    assert len(set(keys)) == len(keys)
    assert "## An older labeled set" in (place / "evidence.md").read_text()
    # Figures are drawn where there is something to draw with, and nothing else needs it.
    there = importlib.util.find_spec("matplotlib") is not None
    assert (place / "rungs.svg").exists() == (place / "labels.svg").exists() == there


@pytest.mark.slow
def test_the_table_has_the_figures_of_the_summary(first):
    place, parts = first
    rows = [r for r in _table(place) if r["part"] == "alone" and r["rung"] == "UTS"]
    uts = parts["alone"]["all sets"]["UTS"]
    errors = np.array([[float(r["ece"]), float(r["ece_before"])] for r in rows])
    assert errors[:, 0].mean() == pytest.approx(uts["ece"], rel=1e-5)
    gap = errors[:, 0] - errors[:, 1]
    assert (gap > 0.002).sum() == uts["harmed"]
    assert gap.max() == pytest.approx(uts["worst"], abs=1e-5)


@pytest.mark.slow
def test_more_evidence_is_worth_more_where_temperature_scaling_is_right(first):
    place, parts = first
    rows = {(r["set"], r["group"], r["rung"]): r for r in _table(place)}
    for name in ("over", "under"):
        before, uts, known, labels = (
            float(rows[name, "all sets", rung]["excess_nll"])
            for rung in ("T = 1", "UTS", "accuracy", "labels")
        )
        few = float(rows[name, "500 labels", "few labels"]["excess_nll"])
        assert max(labels, known, few) < 0.01 < before
        assert known < labels + 0.01
        assert known < uts
    for group in parts["few"].values():
        ours, plain = (group[rung]["excess_nll"] for rung in ("few labels", "plain scaling"))
        assert ours < plain + 1e-3
    excess = [group["few labels"]["excess_nll"] for group in parts["few"].values()]
    assert excess[-1] < excess[0]
    source = parts["shift"]["iid"]["source, none"]
    assert source["excess_nll"] < 0.005 < parts["shift"]["iid"]["T = 1"]["excess_nll"]
    assert parts["shift"]["iid"]["best T"]["excess_nll"] == pytest.approx(0, abs=1e-6)
    pairs = parts["peers"]["pool pairs"]
    assert pairs["models"]["ece"] < pairs["T = 1"]["ece"]


@pytest.mark.slow
def test_a_run_is_taken_up_after_a_torn_line_with_two_workers(folder, first, tmp_path):
    place, parts = first
    lines = (place / "state.jsonl").read_bytes().splitlines(keepends=True)
    kept = lines[::2]
    torn = b"".join(kept) + lines[1][:-40]
    (tmp_path / "state.jsonl").write_bytes(torn)
    assert _run(folder, tmp_path, "--workers", "2") == parts
    assert (tmp_path / "evidence.csv").read_text() == (place / "evidence.csv").read_text()
    after = (tmp_path / "state.jsonl").read_bytes()
    assert after.startswith(torn + b"\n")
    whole = [line for line in after.splitlines(keepends=True) if line != lines[1][:-40] + b"\n"]
    assert sorted(whole) == sorted(lines)  # nothing is measured twice, and all of it alike


@pytest.mark.slow
def test_a_finished_run_measures_nothing_again(folder, first, tmp_path):
    place, parts = first
    state = (place / "state.jsonl").read_bytes()
    (tmp_path / "state.jsonl").write_bytes(state)
    # Only what was asked for is measured; all that is there is reported.
    assert _run(folder, tmp_path, "--only", "alone") == parts
    assert (tmp_path / "state.jsonl").read_bytes() == state


def test_lines_of_another_version_protocol_or_folder_count_for_nothing(tmp_path):
    journal, path = _script("journal"), tmp_path / "deep" / "state.jsonl"
    stamp = {"tepid": "1", "protocol": 1, "data": "a"}
    assert journal.finished(path, stamp) == {}
    with journal.writing(path, stamp) as write:
        write("one", [{"ece": 0.1 + 0.2}])
    for other in ({"tepid": "2"}, {"protocol": 2}, {"data": "b"}):
        assert journal.finished(path, stamp | other) == {}
    with path.open("ab") as file:
        file.write(b'[]\n3\n{"case": "two"}\n\xff\xfe{"stamp')
    with journal.writing(path, stamp) as write:
        write("three", [])
    assert journal.finished(path, stamp) == {"one": [{"ece": 0.1 + 0.2}], "three": []}


@pytest.mark.slow
def test_what_cannot_be_measured_is_refused(folder, tmp_path):
    for options, said in (
        ([folder, "--only", "alone,magic"], "--only must be of alone, few"),
        ([tmp_path], "FOLDER must hold .npz files, got none"),
    ):
        command = [sys.executable, SCRIPT, *options]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert said in done.stderr


def test_quick_cases_are_among_the_full_ones(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    cases = _script("cases")
    every = [case.key for case in cases.cases(folder, cases.FULL)]
    quick = [case.key for case in cases.cases(folder, cases.QUICK)]
    assert set(quick) < set(every)
    assert max(Counter(every).values()) == 1


def test_files_stay_small():
    for path in (ROOT / "benchmarks").glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 250, path.name
