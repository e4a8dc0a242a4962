"""The benchmark of evidence on generated sets; `calibrate` on real ones against an oracle."""

import csv
import itertools
import json
import math
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import tepid
from tests.needs import same_kernels
from tests.posterior_truth import Oracle
from tests.scripts import benchmark

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "evidence.py"
RESULTS = ROOT / "benchmarks" / "results"
ROWS, CLASSES = 1500, 5
# Image networks, with few and many classes, under- and overconfident; and language models.
SIX = (
    "resnet110_cifar10", "densenet40_cifar100", "cnn_svhn_underconfident", "lenet5_mnist",
    "llm_qwen_7b_emotion", "llama31_8b_instruct",
)  # fmt: skip


def _run(folders, place, *options):
    command = [sys.executable, SCRIPT, *folders, "--results", place, *options]
    # A process may change to numba at any time, and with it the last digits.
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, env=same_kernels()
    )
    assert done.returncode == 0, done.stderr
    return json.loads((place / "evidence.json").read_text())


def _table(folder):
    with (folder / "evidence.csv").open(newline="") as file:
        return {(row["row"], row["set"]): row for row in csv.DictReader(file)}


# Generated sets -----------------------------------------------------------------------------------


def _drawn(rng, scale):
    """A calibrated posterior, and labels that fit it."""
    posterior = scale * rng.normal(size=(ROWS, CLASSES))
    return posterior, (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two sets for which one temperature is right, six models on the same rows, and a shift."""
    place, rng = tmp_path_factory.mktemp("sets"), np.random.default_rng(3)
    for name, right in (("over", 3.0), ("under", 0.6)):
        posterior, y = _drawn(rng, 4.0)
        np.savez(place / f"{name}.npz", logits=(right * posterior).astype("f4"), labels=y)
    posterior, y = _drawn(rng, 6.0)
    for number, name in enumerate("abcdef"):
        seen = posterior + (1 + 0.3 * number) * rng.normal(size=posterior.shape)
        np.savez(place / f"pool_{name}_made.npz", logits=(2 * seen).astype("f4"), labels=y)
    (old, old_y), (new, new_y) = _drawn(rng, 4.0), _drawn(rng, 2.0)
    parts = {"logits": 2 * new, "labels": new_y, "logits_val": 2 * old, "labels_val": old_y}
    np.savez(place / "moved_shift.npz", **parts)
    return place


@pytest.fixture(scope="module")
def quick(folder, tmp_path_factory):
    """A quick run on all of them: (its folder, its figures)."""
    place = tmp_path_factory.mktemp("quick")
    return place, _run([folder], place, "--quick", "--workers", "1")


def test_every_row_of_every_part_is_measured(quick):
    place, found = quick
    cases = benchmark("evidence_cases")
    expected = {*cases.FIXED, *cases.DRAWN, *cases.MATCHED} - {"reference = llama31_70b_base"}
    assert expected < found["sets"]["all sets"].keys()
    assert found["sources"].keys() >= {"all together", "iid", "label shift", "real shift"}
    assert {"pool pairs", "made triples", "made fives"} <= found["families"].keys()
    assert found["command"].startswith("python benchmarks/evidence.py")
    assert (found["seed"], found["splits"]) == (1, 1)
    assert found["versions"]["tepid"]
    for part, most in (("sets", 9), ("sources", 7), ("families", 12)):
        for rows in found[part].values():
            for row in rows.values():
                assert row["sets"] <= most
                assert 0 <= row["ece"] < 100
                assert row["excess_nll"] > -1e-6
    text = (place / "evidence.md").read_text()
    assert "## An older labeled set" in text
    assert "design target" not in text  # these sets have none


def test_more_evidence_is_worth_more_where_one_temperature_is_right(quick):
    place, _ = quick
    rows = _table(place)
    for name in ("over", "under"):
        excess = {row: float(rows[row, name]["excess_nll"]) for row, of in rows if of == name}
        assert excess["T = 1"] > 0.01
        assert excess["labels: all fitted rows"] < 0.005
        assert excess["accuracy ±0"] < 0.01
        assert excess["200 labels"] < excess["5 labels"] + 1e-3
        assert excess["200 labels"] < excess["UTS"]
        assert all(float(rows[row, name]["covered"]) > 0 for row in ("100 labels", "accuracy ±0"))


def test_the_summary_has_the_figures_of_the_table(quick):
    place, found = quick
    rows = [row for (name, _), row in _table(place).items() if name == "25 labels"]
    summary = found["sets"]["all sets"]["25 labels"]
    assert np.mean([100 * float(row["ece"]) for row in rows]) == pytest.approx(summary["ece"])
    change = np.array([100 * float(row["change"]) for row in rows])
    assert change.max() == pytest.approx(summary["worst"], rel=1e-4)
    assert (change > 0.2).sum() == summary["harmed"]
    covered = np.mean([float(row["covered"]) for row in rows])
    assert covered == pytest.approx(summary["cover"])


def test_some_sets_alone_give_the_same_figures(folder, quick, tmp_path):
    _run([folder], tmp_path, "--quick", "--workers", "2", "--sets", "over,pool_c_made")
    whole, part = _table(quick[0]), _table(tmp_path)
    assert {name for _, name in part} == {"over", "pool_c_made"}
    assert part == {key: whole[key] for key in part}


def test_the_probability_of_help_is_tallied_by_bin_and_kind():
    tables = benchmark("evidence_tables")
    records = [
        {"row": row, "helps": helps, "helped": helped}
        for row, helps, helped in (
            ("25 labels", 0.3, False), ("25 labels", 0.96, True), ("5 labels", 0.97, False),
            ("reference", 0.96, True), ("logits alone", None, False),
        )
    ]  # fmt: skip
    found = tables.helps(records)
    assert [b["cases"] for b in found["bins"]] == [1, 0, 0, 0, 0, 2, 0]
    assert found["bins"][5]["realized"] == 0.5
    assert found["bins"][5]["predicted"] == pytest.approx(0.965)
    assert set(found["kinds"]) == {"25 labels", "5 labels", "reference"}


@pytest.mark.parametrize(
    ("figure", "value", "missed"),
    [
        ("ece", 2.44, []),
        ("ece", 2.46, ["ece"]),
        ("excess_nll", 0.0229, []),
        ("excess_nll", 0.0232, ["excess_nll"]),
        ("cover", 0.93, []),
        ("cover", 0.97, ["cover"]),
    ],
)
def test_a_figure_outside_the_tolerance_is_marked(figure, value, missed):
    tables = benchmark("evidence_tables")
    target = {"ece": 2.2, "excess_nll": 0.02, "cover": 0.94, "fixed": False}
    found = {**target, figure: value}
    assert tables.outside(found, target, tables.read_targets()) == missed


@pytest.mark.parametrize(
    ("options", "sentence"),
    [(["--sets", "over,nobody"], "got nobody"), ([], "must hold .npz files")],
)
def test_what_cannot_be_measured_is_refused(folder, tmp_path, options, sentence):
    place = folder if options else tmp_path
    command = [*map(str, [sys.executable, SCRIPT, place, *options])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert sentence in done.stderr


# Real sets ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(shared):
    other = shared.parent / "llm"
    if not other.is_dir():
        pytest.skip("the folder ../shared/llm of real logits is not beside this checkout")
    return shared, other


def _calibrated(z, evidence):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tepid.CalibrationWarning)
        return tepid.calibrate(z, **evidence)


def _evidence(collection, cases, name):
    """The fitted fifth of a set, and evidence of every kind and in combination."""
    whole = collection.load(name)
    inside, outside = cases.halves(whole, 0)
    z, y = whole.of(inside)
    rng = np.random.default_rng(5)
    few = np.full(len(y), -1)
    chosen = rng.permutation(len(y))[:25]
    few[chosen] = y[chosen]
    kinds = {
        "labels": few,
        "accuracy": (whole.accuracy - 0.01, 0.03),
        "source": whole.of(outside),
    }
    relatives = collection.relatives(name)
    if relatives:
        kinds["models"] = [collection.load(r).logits[inside] for r in relatives[:3]]
        kinds["reference"] = collection.load(relatives[-1]).logits[inside]
    found = [{}, {"labels": y}, {"accuracy": (whole.accuracy, 0.0)}, {"accuracy": whole.accuracy}]
    found += [{kind: kinds[kind]} for kind in kinds]
    found += [{"models": kinds["models"][:1]}] if relatives else []
    found += [{a: kinds[a], b: kinds[b]} for a, b in itertools.combinations(kinds, 2)]
    return z, [*found, kinds]


@pytest.mark.parametrize("name", SIX)
def test_every_kind_of_evidence_agrees_with_an_independent_posterior(folders, name):
    cases = benchmark("evidence_cases")
    z, every = _evidence(cases.Collection(folders), cases, name)
    oracle = Oracle(z)
    for evidence in every:
        found, exact = _calibrated(z, evidence), oracle.answer(**evidence)
        # The entropies of an older set are kept in bins.
        near = 0.03 if "source" in evidence else 1e-3
        assert math.log(found.value) == pytest.approx(exact.log_t, abs=near), evidence.keys()
        ends = [math.log(end) for end in found.interval]
        assert ends == pytest.approx(exact.interval, abs=max(near, 3e-3)), evidence.keys()
        assert (found.helps is None) == (exact.helps is None)
        if exact.helps is not None:
            assert found.helps == pytest.approx(exact.helps, abs=0.05 if near > 0.01 else 3e-3)
        assert set(found.tension) == exact.tension


def test_six_sets_give_the_committed_figures(folders, tmp_path):
    _run(folders, tmp_path, "--sets", ",".join(SIX))
    committed, found = _table(RESULTS), _table(tmp_path)
    assert {name for _, name in found} == set(SIX)
    # A row at the edge of a bin, or an interval that ends at the target, may fall on either side.
    for key, row in found.items():
        other = committed[key]
        assert float(row["ece"]) == pytest.approx(float(other["ece"]), abs=2e-4), key
        excess = [float(each["excess_nll"]) for each in (row, other)]
        assert excess[0] == pytest.approx(excess[1], rel=0.01, abs=1e-5), key
        covered = [float(each["covered"] or 0) for each in (row, other)]
        assert covered[0] == pytest.approx(covered[1], abs=0.025), key


def test_the_committed_figures_reach_the_targets():
    tables = benchmark("evidence_tables")
    found, targets = json.loads((RESULTS / "evidence.json").read_text()), tables.read_targets()
    missed = tables.all_outside(found, targets)
    assert missed == found["outside"]
    # Without random evidence there is nothing that another draw could excuse.
    assert [m for m in missed if targets[m["part"]][m["group"]][m["row"]]["fixed"]] == []
    rows = found["sets"]["all sets"]
    assert all(0.92 <= rows[f"{n} labels"]["cover"] <= 0.99 for n in (5, 10, 25, 50, 100, 200))
