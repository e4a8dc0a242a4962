"""What was trained with the recipes, and what is said of it."""

import json

import numpy as np
import pytest

import tepid
from tests.scripts import BENCHMARKS, benchmark

KEPT = BENCHMARKS / "results" / "lab"
if not KEPT.is_dir():
    pytest.skip("the results are not part of the source archive", allow_module_level=True)
RUNS = sorted(path.parent.name for path in KEPT.glob("*/logits.npy"))
MEASURED = json.loads((BENCHMARKS / "results" / "laboratory.json").read_text("utf-8"))
FOUND = {run["run"]: run for run in MEASURED["runs"]}


def _run(name):
    record = json.loads((KEPT / name / "run.json").read_text("utf-8"))
    return record, *(np.load(KEPT / name / f"{part}.npy") for part in ("logits", "labels"))


def test_lenet_reaches_the_paper_s_accuracy_by_the_recipe_as_it_is():
    assert FOUND["mnist"]["accuracy"] >= 0.99
    assert FOUND["mnist"]["changed"] == []
    recipe = tepid.lab.named("lenet5-mnist")
    assert 100 * FOUND["mnist"]["accuracy"] >= recipe.expected_accuracy


@pytest.mark.parametrize("name", RUNS)
def test_the_kept_logits_are_those_that_were_measured(name):
    record, logits, labels = _run(name)
    assert logits.shape == (len(labels), len(record["classes"]))
    assert (KEPT / name / "logits.npy").stat().st_size < 300_000
    # In half precision a few rows tie.
    assert (logits.argmax(1) == labels).mean() == pytest.approx(record["accuracy"], abs=5e-4)
    measured = FOUND[name]["methods"]
    z = logits.astype(np.float32)
    for method, t in (("uts", tepid.uts(z)), ("temperature", tepid.temperature_scaling(z, labels))):
        spread = measured[method]["temperature"]
        assert t.value == pytest.approx(spread["mean"], abs=3 * spread["sd"])
    nll = tepid.metrics.nll(labels.astype(np.int64), np.exp(z - np.logaddexp.reduce(z, 1)[:, None]))
    assert nll == pytest.approx(measured["uncalibrated"]["nll"]["mean"], rel=0.05)


@pytest.mark.parametrize("name", sorted(path.parent.name for path in KEPT.glob("*/run.json")))
def test_a_record_says_how_its_run_came_about(name):
    record = json.loads((KEPT / name / "run.json").read_text("utf-8"))
    config = record["config"]
    assert config["name"] == record["recipe"] in tepid.lab.names()
    assert len(record["history"]) == config["epochs"]
    assert record["versions"]["torch"]
    assert FOUND[name]["changed"] == benchmark("laboratory").changed(config)
    assert FOUND[name]["accuracy"] == record["accuracy"]


def test_the_images_of_a_licence_that_asks_for_more_leave_no_rows_behind():
    for name in (path.parent for path in KEPT.glob("*/run.json")):
        record = json.loads((name / "run.json").read_text("utf-8"))
        assert (name / "logits.npy").exists() == (record["data"] != "isic")


def test_what_the_page_says_of_lesions_kept_together_is_what_was_measured():
    page = " ".join((BENCHMARKS.parent / "docs" / "the-laboratory.md").read_text("utf-8").split())
    apart, together = (FOUND[name] for name in ("ham", "ham-lesions"))
    said = [f"{100 * run['accuracy']:.2f} %" for run in (apart, together)]
    assert f"is {said[0]} with the paper's split and {said[1]} with lesions kept" in page
    extra = set(together["changed"]) ^ set(apart["changed"])
    assert extra == {"keep_lesions=True"}
    assert sum(apart["rows"].values()) == 7017
    spread = np.sqrt(2 * apart["accuracy"] * (1 - apart["accuracy"]) / apart["rows"]["test"])
    assert f"about {100 * spread:.1f} points" in page
    assert abs(apart["accuracy"] - together["accuracy"]) < spread
