"""The README: its commands run, its numbers come from committed files."""

import contextlib
import csv
import io
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import tepid
from tests.scripts import benchmark

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TRUST = (ROOT / "docs" / "trust-the-temperature.md").read_text(encoding="utf-8")


def test_the_commands_in_the_readme_run(tmp_path, monkeypatch, tepid_here):
    monkeypatch.chdir(tmp_path)
    data = tepid.demo.fashion()
    z, y = data["logits"][:400], data["labels"][:400]
    np.save("logits.npy", z)
    np.save("labels.npy", y)
    np.save("y.npy", y)
    np.savez("logits.npz", logits=z, labels=y)
    np.save("other.npy", z + np.float16(0.1))
    np.savez("old.npz", logits=data["logits"][2000:3000], labels=data["labels"][2000:3000])
    np.savez("few.npz", logits=z[:50], labels=y[:50])
    blocks = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`(tepid fit [^`]*)`", README)
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("tepid ")]
    assert len(commands) >= 7
    for command in commands:
        code, out, err = tepid_here(*command)
        assert code == 0, (command, err)
        assert out


def test_the_python_example_prints_what_the_readme_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    said = re.search(r"<!-- output -->\n```text\n(.*?)```", README, re.DOTALL).group(1)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})  # the README's own example
    assert printed.getvalue() == said


def _result(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def test_every_table_comes_from_its_committed_file():
    script = benchmark("readme")
    contents = script.contents()
    text = "".join(page.read_text(encoding="utf-8") for page in script.PAGES)
    marks = re.findall(r"<!-- (\w+): benchmarks/[^>]*-->", text)
    assert sorted(marks) == sorted(contents)
    for name, content in contents.items():
        assert f"-->\n{content}\n<!-- end -->" in text, name


@pytest.mark.parametrize(
    "name",
    ["evidence", "rules", "speed", "assumption", "memory", "reproduction", "reading"],
)
def test_results_say_how_they_came_about(name):
    assert _result(name)["command"].startswith(f"python benchmarks/{name}.py")
    assert _result(name)["versions"]["tepid"]


def test_the_figures_that_the_pages_show_are_there():
    for page, text in ((ROOT, README), (ROOT / "docs", TRUST)):
        for path in re.findall(r"!\[[^]]*\]\((\S+)\)", text):
            assert (page / path).read_bytes().startswith((b"<?xml", b"\x89PNG")), path


def test_no_file_speaks_of_a_machine():
    paths = [*ROOT.glob("*.md"), *(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.*")]
    for path in paths:
        if path.suffix in (".md", ".py", ".json", ".toml"):
            assert str(Path.home()) + "/" not in path.read_text(encoding="utf-8"), path


def _plain(text):
    return " ".join(text.split())


def _table():
    with (ROOT / "benchmarks" / "results" / "evidence.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def _rows(**wanted):
    return [row for row in _table() if all(row[k] == v for k, v in wanted.items())]


def test_what_the_page_says_of_the_assumption_is_what_was_measured():
    median = _result("assumption")["median"]
    assert f"it is {100 * median['truly']:.0f} %" in TRUST
    assert f"softmax value of {100 * median['softmax']:.0f} %" in TRUST


def test_what_the_page_says_of_logits_alone_is_what_was_measured():
    rungs = _result("evidence")["parts"]["alone"]["all sets"]
    assert f"On {rungs['UTS']['cases']} real sets" in TRUST
    assert f"{rungs['UTS']['cases']} sets, image classifiers" in _plain(README)
    assert rungs["UTS"]["harmed"] / 30 == pytest.approx(1 / 4, abs=0.05)  # "about a quarter"
    harmed = [
        row["set"]
        for row in _rows(part="alone", rung="guarded")
        if float(row["ece"]) > float(row["ece_before"]) + 0.002
    ]
    assert "both harmed sets are MNIST" in _plain(TRUST)
    assert sorted(harmed) == ["cnn_mnist", "lenet5_mnist"]


def test_what_the_page_says_of_the_accuracy_is_what_was_measured():
    plain, matched = (
        _rows(part="alone", rung=rung, set="llm_falcon_7b_emotion")[0]
        for rung in ("T = 1", "accuracy")
    )
    assert "fell from 9 to under 2 % while the NLL rose" in _plain(TRUST)
    assert 0.085 < float(plain["ece"]) < 0.095
    assert float(matched["ece"]) < 0.02
    assert float(matched["excess_nll"]) > float(plain["excess_nll"])


def test_what_the_page_says_of_other_models_is_what_was_measured():
    groups, text = _result("evidence")["parts"]["peers"], _plain(TRUST)
    pairs, spoken = groups["cifar10 pairs"], groups["emotion pairs"]["models"]
    assert f"by {100 * pairs['votes, no gate']['worst']:.0f} points, with it" in text
    assert f"pair of the 14 loses {100 * pairs['models']['worst']:.1f}." in text
    fives = [groups["cifar10 fives"][r]["ece"] for r in ("majority, no gate", "models")]
    assert f"{100 * fives[0]:.2f} against {100 * fives[1]:.2f} on the 14" in text
    hundred = groups["cifar100 pairs"]
    assert hundred["models"]["refused"] == hundred["models"]["cases"] / 3
    assert hundred["votes, no gate"]["ece"] < hundred["models"]["ece"] / 1.5
    assert spoken["accepted"]["cases"] == 2
    assert spoken["harmed"] == 1
    assert f"one gains {100 * spoken['worst']:.0f} points" in text


def test_what_the_page_says_of_a_source_is_what_was_measured():
    shifts = _result("evidence")["parts"]["shift"]
    real, easy = shifts["real shift"], shifts["easy rows, others' confidence"]
    removed = 1 - real["source, any"]["ece"] / real["source, none"]["ece"]
    assert 1 / 8 < removed < 1 / 5  # "a sixth"
    assert "every rung that has seen the source is worse than nothing" in _plain(TRUST)
    assert all(easy[f"source, {kind}"]["ece"] > easy["T = 1"]["ece"] for kind in _KINDS)


_KINDS = ("none", "any")


def test_what_the_page_says_of_few_labels_is_what_was_measured():
    few, text = _result("evidence")["parts"]["few"], _plain(TRUST)
    excess = [few[f"{n} labels"]["few labels"]["excess_nll"] for n in (25, 50, 100)]
    twice = [few[f"{n} labels"]["plain scaling"]["excess_nll"] for n in (50, 100, 200)]
    assert all(ours < plain for ours, plain in zip(excess, twice, strict=True))
    harmed = [few[f"{n} labels"]["few labels"]["harmed"] for n in (25, 100)]
    assert f"with 25 labels {harmed[0]} of the 30 sets" in text
    assert f"with 100 labels {harmed[1]}." in text


def test_what_the_page_says_of_intervals_is_what_was_measured():
    cover = _result("evidence")["parts"]["coverage"]
    real, simulated = cover["real sets"], cover["simulated"]
    # Where one temperature is right all of the plain intervals do what they say.
    assert all(0.92 < simulated[f"labels, n = {n}"]["covered"] < 0.97 for n in (200, 1000))
    assert all(0.92 < simulated[f"few labels, n = {n}"]["covered"] < 0.97 for n in (25, 100))
    assert 0.92 < simulated["accuracy, counted"]["covered"] < 0.97
    assert simulated["accuracy, a range"]["covered"] < 0.94
    assert "groups are alike (98 %), and holds in 92 % of cases" in _plain(TRUST)
    assert round(simulated["groups alike"]["covered"], 2) == 0.98
    groups = real["groups of labels"]["covered"], simulated["groups that differ"]["covered"]
    assert [round(g, 2) for g in groups] == [0.92, 0.92]
    (wide,) = _rows(part="coverage", set="cnn_svhn", rung="few labels, n = 25")
    assert "it covers less than half of the draws at 25 labels" in _plain(TRUST)
    assert 0.3 < float(wide["covered"]) < 0.5
    uts = float(_rows(part="alone", set="cnn_svhn", rung="UTS")[0]["temperature"])
    assert 2.5 < float(wide["target"]) / uts < 3.5  # "three times that of UTS"


def test_what_the_page_says_of_rules_is_what_was_measured():
    result = _result("rules")
    rules, guard = result["rules"], result["rules"]["guarded"]
    assert f"{result['networks']} made networks" in TRUST
    assert f"On the {result['sets']} sets these are chosen" in _plain(TRUST)

    def no_more_harm(rule):
        return all(rule[on]["harmed"] <= guard[on]["harmed"] for on in ("real", "made"))

    def less_error(rule):
        return all(rule[on]["ece"] < guard[on]["ece"] for on in ("real", "made"))

    better = [name for name, rule in rules.items() if no_more_harm(rule) and less_error(rule)]
    assert better == []
    for name in ("odds × power of UTS, gate", "odds × power of UTS, soft gate"):
        assert less_error(rules[name])
        for on in ("real", "made"):
            assert 2 <= rules[name][on]["harmed"] / guard[on]["harmed"] <= 3.2


def test_what_the_page_on_methods_says_is_what_was_measured():
    result = _result("methods")
    methods = result["methods"]
    assert methods["temperature"]["excess"] < 0.001
    assert methods["ensemble"]["excess"] <= methods["temperature"]["excess"]
    many = {s["set"]: s["methods"] for s in result["sets"] if s["classes"] == 100}
    assert len(many) == 4
    for found in many.values():
        free, held = found["matrix, no ODIR"]["accuracy"], found["matrix"]["accuracy"]
        assert free < held - 0.02  # a disaster without regularization, and mended with it
    assert (
        "matrix"
        not in {s["set"]: s["methods"] for s in result["sets"]}["efficientnet_lite0_imagenet"]
    )
    assert methods["temperature"]["accuracy"] == methods["ensemble"]["accuracy"] == 0
