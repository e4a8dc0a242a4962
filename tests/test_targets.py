"""What each rung must reach on real sets: the whole benchmark again, against targets set before.

The targets were measured by another implementation on the same sets. The splits and the groups of
models are the same as theirs, so that each figure is theirs to the digits that they print, except
where a comment says what was drawn otherwise. The stated tolerance is .1 points of ECE and a tenth
of the excess NLL. Where the folder of real sets is absent, tests/test_arena.py asks the same of
made ones.
"""

import csv
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tepid
from tests.precision import apart

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def measured(shared, tmp_path_factory):
    """Where a new run of the whole benchmark left its results."""
    place = tmp_path_factory.mktemp("evidence")
    command = [sys.executable, ROOT / "benchmarks" / "evidence.py", shared]
    command += ["--workers", os.cpu_count() or 1, "--state", place / "state.jsonl"]
    command += ["--results", place, "--figures", place]
    subprocess.run([*map(str, command)], capture_output=True, check=True)
    return place


@pytest.fixture(scope="module")
def parts(measured):
    return json.loads((measured / "evidence.json").read_text())["parts"]


def _alike(one, two):
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for key, value in one.items():
            _alike(value, two[key])
    else:
        assert one == pytest.approx(two, rel=1e-4, abs=1e-7)


def test_the_committed_figures_are_what_the_code_measures(parts):
    _alike(parts, json.loads((RESULTS / "evidence.json").read_text())["parts"])


@pytest.mark.parametrize(
    ("rung", "ece", "excess"),
    [
        ("T = 1", 6.46, 0.1314),
        ("UTS", 5.80, 0.0625),
        ("guarded, no budget", 5.01, 0.0424),
        ("accuracy", 1.72, 0.0031),
        ("labels", 2.21, 0.0005),
    ],
)
def test_what_a_set_itself_gives(parts, rung, ece, excess):
    _reached(parts["alone"]["all sets"][rung], ece, excess)


def _reached(found, ece, excess):
    """The printed digits, which is far within the stated tolerance."""
    assert 100 * found["ece"] == pytest.approx(ece, abs=0.01)
    assert found["excess_nll"] == pytest.approx(excess, rel=0.02, abs=6e-5)


def test_the_guard_harms_at_most_two_sets_and_its_budget_none_more(parts):
    rungs = parts["alone"]["all sets"]
    assert rungs["guarded, no budget"]["harmed"] <= 2
    assert rungs["guarded"]["harmed"] <= 2
    assert rungs["accuracy"]["harmed"] == 0
    assert rungs["UTS"]["harmed"] == 8


@pytest.mark.parametrize(
    ("n", "ece", "excess"),
    # Which labels were drawn for the targets is not known. At 25 labels the mean of 30 draws is
    # spread by .0012 (200 draws of each set: .0169), so that another 30 may well exceed the target.
    [(10, 4.54, 0.031), (25, 3.7, 0.017), (100, 2.9, 0.006), (200, 2.67, 0.0027)],
)
def test_few_labels(parts, n, ece, excess):
    found = parts["few"][f"{n} labels"]
    assert 100 * found["few labels"]["ece"] <= ece
    assert found["few labels"]["excess_nll"] <= excess
    assert found["few labels"]["excess_nll"] < found["plain scaling"]["excess_nll"]


@pytest.mark.parametrize(
    ("group", "rung", "ece", "excess"),
    [
        ("pool pairs", "votes, no gate", 2.10, 0.0044),
        ("pool triples", "majority, no gate", 1.84, 0.0023),
        ("pool fives", "majority, no gate", 1.91, 0.0011),
        ("cifar10 pairs", "votes, no gate", 4.54, 0.039),
        ("cifar10 triples", "majority, no gate", 1.61, 0.0023),
        ("cifar10 fives", "majority, no gate", 1.61, 0.0015),
        ("cifar100 pairs", "votes, no gate", 3.20, 0.0072),
    ],
)
def test_other_models(parts, group, rung, ece, excess):
    _reached(parts["peers"][group][rung], ece, excess)


def test_the_gate_is_the_votes_where_it_lets_pass(parts):
    for group in ("pool pairs", "cifar10 pairs", "cifar100 pairs"):
        gated, votes = (parts["peers"][group][r]["accepted"] for r in ("models", "votes, no gate"))
        assert gated["ece"] == pytest.approx(votes["ece"], rel=1e-6)
    assert parts["peers"]["cifar10 pairs"]["models"]["worst"] < 0.03
    assert parts["peers"]["cifar10 pairs"]["votes, no gate"]["worst"] > 0.3


@pytest.mark.parametrize(
    ("group", "none", "any_shift", "points"),
    [
        ("real shift", 7.24, 6.17, 0.1),
        ("iid", 1.32, 1.36, 0.1),
        ("label shift", 2.09, 2.15, 0.2),  # six other draws of the frequencies
        # What was selected for the targets is not known; the 40 % came closest.
        ("hard rows, own confidence", 3.04, 2.87, 0.35),
        ("hard rows, others' confidence", 4.71, 3.79, 0.35),
        ("easy rows, others' confidence", 2.05, 1.35, 0.15),
    ],
)
def test_an_older_labeled_set(parts, group, none, any_shift, points):
    wanted = {"none": none, "any": any_shift}
    for kind, ece in wanted.items():
        found = 100 * parts["shift"][group][f"source, {kind}"]["ece"]
        assert found == pytest.approx(ece, abs=points), kind


def test_entropies_alone_would_have_mended_more_of_the_real_shift(measured, shared):
    with (measured / "evidence.csv").open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["group"] == "real shift"]
    found = {r["rung"]: float(r["temperature"]) for r in rows}
    # The geometric mean with source scaling, undone.
    entropies = found["source, any"] ** 2 / found["source, none"]
    with np.load(shared / "pathmnist_shift.npz") as data:
        scores = tepid.Reliability.of_logits(data["logits"], data["labels"], temperature=entropies)
    assert 100 * tepid.metrics.ece(scores) == pytest.approx(4.93, abs=0.1)


def test_intervals_cover_what_they_should(parts):
    real, simulated = parts["coverage"]["real sets"], parts["coverage"]["simulated"]
    for rung in ("labels, n = 1000", "accuracy, counted"):
        assert 0.92 <= real[rung]["covered"] <= 0.96
    for n in (25, 100):
        assert 0.92 <= real[f"few labels, n = {n}"]["covered"] <= 0.97
    for rung, found in simulated.items():
        if not rung.startswith("groups"):
            assert 0.92 <= found["covered"] <= 0.97, rung
    # The spread between groups is told by eight of them: a little wide where they are alike.
    assert 0.92 <= simulated["groups alike"]["covered"] <= 0.99
    assert 0.91 <= simulated["groups that differ"]["covered"] <= 0.97


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_temperatures_follow_the_scale_of_the_logits(shared, factor):
    with np.load(shared / "resnet110_cifar10.npz") as data:
        z, y = data["logits"].astype(np.float64), data["labels"]
    with np.load(shared / "vgg16_cifar10.npz") as data:
        votes = data["logits"].argmax(axis=1)
    for fit in (
        lambda x: tepid.temperature_scaling(x, y),
        lambda x: tepid.match_accuracy(x, 0.93),
        lambda x: tepid.temperature_scaling(x, votes),
    ):
        one, other = fit(z), fit(factor * z)
        ratio = math.log(other.value / one.value / factor)
        assert ratio == pytest.approx(0, abs=apart(one, other))
