"""The README: its commands run, its numbers come from committed files."""

import contextlib
import importlib.util
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tepid

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TRUST = (ROOT / "docs" / "trust-the-temperature.md").read_text(encoding="utf-8")


def _script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_commands_in_the_readme_run(tmp_path):
    data = tepid.demo.fashion()
    np.save(tmp_path / "logits.npy", data["logits"][:1500])
    np.save(tmp_path / "labels.npy", data["labels"][:1500])
    np.save(tmp_path / "y.npy", data["labels"][:1500])
    np.savez(tmp_path / "logits.npz", logits=data["logits"][:1500], labels=data["labels"][:1500])
    np.save(tmp_path / "other.npy", data["logits"][:1500] + np.float16(0.1))
    np.savez(
        tmp_path / "old.npz", logits=data["logits"][2000:4000], labels=data["labels"][2000:4000]
    )
    np.savez(tmp_path / "few.npz", logits=data["logits"][:50], labels=data["labels"][:50])
    blocks = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`(tepid fit [^`]*)`", README)
    commands = [shlex.split(line) for line in lines if line.startswith("tepid ")]
    assert len(commands) >= 7
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout


def test_the_python_example_prints_what_the_readme_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    said = re.search(r"<!-- output -->\n```text\n(.*?)```", README, re.DOTALL).group(1)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})  # the README's own example
    assert printed.getvalue() == said


@pytest.mark.parametrize("name", ["evidence", "speed", "real_sets", "ladder"])
def test_the_tables_come_from_their_committed_files(name):
    result = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())
    assert result["command"].startswith(f"python benchmarks/{name}.py")
    assert result["versions"]["tepid"]
    text = TRUST if name == "ladder" else README
    assert getattr(_script("readme"), name)(result) in text


@pytest.mark.slow
def test_the_committed_evidence_is_what_the_code_measures():
    result = json.loads((ROOT / "benchmarks" / "results" / "evidence.json").read_text())
    again = _script("evidence").measure(result["splits"], result["seed"])
    for name, method in result["methods"].items():
        for measure, value in method.items():
            assert again["methods"][name][measure] == pytest.approx(value, rel=1e-6)


def test_no_file_speaks_of_a_machine():
    paths = [*ROOT.glob("*.md"), *(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.*")]
    for path in paths:
        if path.suffix in (".md", ".py", ".json", ".toml"):
            assert str(Path.home()) + "/" not in path.read_text(encoding="utf-8"), path


def test_the_figures_in_the_page_on_trust_are_those_of_the_results():
    def result(name):
        return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())

    median = result("assumption")["median"]
    assert f"it is {100 * median['truly']:.0f} %" in TRUST
    assert f"softmax value of {100 * median['softmax']:.0f} %" in TRUST
    rungs = result("ladder")["rungs"]
    removed = 1 - rungs["source, any shift"]["ece"] / rungs["source, none shift"]["ece"]
    assert 1 / 8 < removed < 1 / 5  # "a sixth"
    sets = {s["set"]: s["methods"] for s in result("real_sets")["sets"]}
    falcon = sets["llm_falcon_7b_emotion"]
    assert falcon["uncalibrated"]["ece"] > 0.085
    assert falcon["accuracy"]["ece"] < 0.02
    assert falcon["accuracy"]["nll"] > falcon["uncalibrated"]["nll"]
