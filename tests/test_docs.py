"""The README: its commands run, its numbers come from committed files."""

import importlib
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import tepid
from tests import written
from tests.scripts import benchmark

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
KINDS, TRUST, TABLES, POSTERIOR = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("evidence", "when-not-to-trust", "evidence-tables", "posterior")
)


def test_the_commands_in_the_readme_run(tmp_path, monkeypatch, tepid_here):
    monkeypatch.chdir(tmp_path)
    data = tepid.demo.fashion()
    z, y = data["logits"][:400], data["labels"][:400]
    np.save("logits.npy", z)
    np.save("labels.npy", y)
    np.savez("logits.npz", logits=z, labels=y)
    for name in ("other", "judge"):
        np.save(f"{name}.npy", z + np.float16(0.1))
    np.savez("old.npz", logits=data["logits"][2000:3000], labels=data["labels"][2000:3000])
    np.savez("few.npz", logits=z[:50], labels=y[:50])
    blocks = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`(tepid fit [^`]*)`", README)
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("tepid ")]
    assert len(commands) >= 5
    for command in commands:
        code, out, err = tepid_here(*command)
        assert code == 0, (command, err)
        assert out
        if command[0] == "ask":
            written.fill_in(command[command.index("-o") + 1], y)


def _result(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def test_every_table_comes_from_its_committed_file():
    script = benchmark("readme")
    contents = script.contents()
    # The tables of measures.md have a script of their own.
    pages = [page for page in script.PAGES if page.name != "measures.md"]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    marks = re.findall(r"<!-- (\w+): benchmarks/[^>]*-->", text)
    assert set(marks) == set(contents)
    for name, content in contents.items():
        assert text.count(f"-->\n{content}\n<!-- end -->") == marks.count(name), name


@pytest.mark.parametrize(
    "name",
    ["evidence", "speed", "assumption", "memory", "reproduction", "reading"],
)
def test_results_say_how_they_came_about(name):
    assert _result(name)["command"].startswith(f"python benchmarks/{name}.py")
    assert _result(name)["versions"]["tepid"]


def test_the_figures_that_the_pages_show_are_there():
    for page, text in ((ROOT, README), (ROOT / "docs", TABLES)):
        for path in re.findall(r"!\[[^]]*\]\((\S+)\)", text):
            assert (page / path).read_bytes().startswith((b"<?xml", b"\x89PNG")), path


def test_no_file_speaks_of_a_machine():
    paths = [*ROOT.glob("*.md"), *(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.*")]
    for path in paths:
        if path.suffix in (".md", ".py", ".json", ".toml"):
            assert str(Path.home()) + "/" not in path.read_text(encoding="utf-8"), path


def _plain(text):
    return " ".join(text.split())


def test_what_the_page_says_of_the_assumption_is_what_was_measured():
    median = _result("assumption")["median"]
    assert f"it is {100 * median['truly']:.0f} %" in TABLES
    assert f"softmax value of {100 * median['softmax']:.0f} %" in TABLES


def test_what_the_pages_say_of_evidence_is_what_was_measured():
    found = _result("evidence")
    rows = found["sets"]["all sets"]
    assert "25 labels: they more than halve the mean ECE" in _plain(KINDS)
    assert rows["25 labels"]["ece"] < rows["T = 1"]["ece"] / 2
    assert "With 10 to 25 labels, T still harms some sets" in _plain(KINDS)
    assert all(rows[f"{n} labels"]["harmed"] > 0 for n in (10, 25))
    assert "differ by a factor of about 11" in _plain(KINDS)
    assert np.exp(rows["logits alone"]["width"]) == pytest.approx(11, abs=1)
    assert "0.95, where networks are almost always overconfident" in _plain(README)
    assert found["helps"]["kinds"]["logits alone"]["realized"] > 0.9
    assert "*weak* model declared as a reference ruins the answer" in _plain(KINDS)
    assert rows["weakest model declared as reference"]["ece"] > 15
    assert "The more of them, the better" in _plain(KINDS)
    assert rows["4 models"]["ece"] < rows["2 models"]["ece"] < rows["1 model"]["ece"]


def test_what_the_pages_say_of_sources_and_tension_is_what_was_measured():
    found = _result("evidence")
    real = {row: figures["ece"] for row, figures in found["sources"]["real shift"].items()}
    assert "25 labels of the new rows are better than the old set" in _plain(KINDS)
    assert real["25 target labels"] < min(real["source"], real["source + 25 target labels"])
    worst = max(row.get("tension", 0) for row in found["sets"]["all sets"].values())
    assert "a false alarm in at most 1.3 % of the cases" in _plain(POSTERIOR)
    assert 1.0 < worst < 1.3


def test_what_the_page_says_of_the_design_is_what_was_measured():
    found, text = _result("design"), _plain(POSTERIOR)
    for number, of in zip(
        found["tried"].values(),
        ("priors", "decision rules", "forms", "rules", "for models", "for a reference", "for a"),
        strict=True,
    ):
        assert f"{number} {of}" in text
    limits = found["limits"]
    weak, beside = limits["weak reference: ECE alone, and with 25 labels"]
    assert f"answer: {weak} % ECE. With 25 labels beside it, {beside} %" in text
    covers = limits[
        "normal prior of sd .4: coverage on language models with 10, 25, 50, 100 labels"
    ]
    *most, last = (f"{100 * share:.0f}" for share in covers)
    assert f"intervals cover {', '.join(most)} and {last} %" in text
    nll, harmed = limits["logits alone, Bayes act of the prior: excess NLL, sets harmed"]
    assert f"excess NLL ({nll}), but it harms {harmed} of {found['sets']} sets" in text
    same, older = limits["no shift: excess NLL of the older set as labeled, as source"]
    assert f"(excess NLL {same} against {older})" in text
    got, expected = limits[
        "logits times 3, 25 labels: T, and three times the T of the plain logits"
    ]
    assert f"gave T = {got} instead of {expected}" in text
    low, high = (f"{100 * share:.0f}" for share in limits["cnn_svhn: coverage"])
    assert f"intervals cover {low} to {high} %" in text
    assert f"ECE is {limits['DACA with a stronger reference: ECE']} %" in text


def test_the_constants_of_the_page_are_those_of_the_model():
    accuracy = importlib.import_module("tepid.methods.accuracy")
    model = importlib.import_module("tepid.posterior.model")
    rows = re.findall(r"^\| ([A-Z]+) \| ([0-9.]+) \|", POSTERIOR, re.MULTILINE)
    assert len(rows) == 13
    for name, value in rows:
        where = accuracy if name == "STATED" else model
        assert getattr(where, name) == float(value), name


def test_the_page_says_what_watching_was_measured_to_cost():
    size = _result("overhead")["results"][0]
    assert (size["rows"], size["classes"]) == (64, 1000)
    for over in size["over"].values():
        assert max(over["Monitor.update"].values()) < 2  # "less than twice as long as any"
        assert over["… sample=0.1"]["min"] < over["Monitor.update"]["min"]
    page = (ROOT / "docs" / "online.md").read_text(encoding="utf-8")
    assert "less than twice as long as any of the three" in page


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


START = ("README.md", "index", "evidence", "results", "when-not-to-trust")


@pytest.mark.parametrize("page", START)
def test_no_sentence_of_the_first_pages_is_long(page):
    path = ROOT / page if page == "README.md" else ROOT / "docs" / f"{page}.md"
    prose = re.sub(r"```.*?```|<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    prose = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", prose)
    prose = "\n".join(line for line in prose.splitlines() if not line.startswith("|"))
    for paragraph in re.split(r"\n\s*\n|\n(?=[-#])", prose):
        for sentence in re.split(r"(?<=[.:?!])\s+", _plain(paragraph)):
            assert len(sentence.split()) <= 35, sentence
