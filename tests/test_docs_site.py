"""The documentation: its links lead somewhere, its reference is whole, its commands run."""

import importlib
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import yaml

import tepid
from tests import logs, written

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
REFERENCE = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
# Modules whose public names the reference has one by one; the others are named as modules.
PARTS = (
    "lab",
    "llm",
    "metrics",
    "online",
    "onnx",
    "plots",
    "report",
    "scaling",
    "sklearn",
    "sources",
    "torch",
)


def _script(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _prose(page):
    """A page with what it includes and without its code blocks."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r'^--8<-- "(.*)"$', lambda m: (ROOT / m[1]).read_text(), text, flags=re.MULTILINE)
    return FENCE.sub("", text)


def _anchors(page):
    """The headings as Python-Markdown names them, and the names of a reference page."""
    found = set(re.findall(r"^::: (\S+)$", _prose(page), re.MULTILINE))
    for heading in re.findall(r"^#+ (.*)$", _prose(page), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        ascii_only = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
        kept = re.sub(r"[^\w\s-]", "", ascii_only).strip().lower()
        found.add(re.sub(r"[-\s]+", "-", kept))
    return found


def _links(page):
    text = re.sub(r"`[^`\n]*`", "", _prose(page).replace("[`", "[").replace("`]", "]"))
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'<img src="([^"]+)"', text)
    return [link for link in links if not re.match(r"[a-z]+:", link)]


def test_every_link_and_anchor_leads_somewhere():
    checked = 0
    for page in PAGES:
        for link in _links(page):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.is_file(), (page.name, link)
            assert target.is_relative_to(DOCS), (page.name, link)  # else the site lacks it
            if anchor:
                assert anchor in _anchors(target), (page.name, link)
            checked += 1
    assert checked > 60


def test_the_link_checker_would_see_a_dead_link(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A `b` c_d, é!\n\n[one](two.md#three) [`x`](y.md) ```[a](b)```\n")
    assert _links(page) == ["two.md#three", "y.md"]
    assert _anchors(page) == {"a-b-c_d-e"}


def _navigated(entry):
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in _navigated(part)]


def test_every_page_is_in_the_navigation_once():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(_navigated(settings["nav"])) == [
        page.relative_to(DOCS).as_posix() for page in PAGES
    ]


def test_every_page_has_one_title():
    for page in PAGES:
        assert len(re.findall(r"^# ", _prose(page), re.MULTILINE)) == 1, page.name


def test_every_public_name_is_in_the_reference():
    for name in tepid.__all__:
        mentioned = rf"(::: |`)tepid\.{name}\b"
        assert re.search(mentioned, REFERENCE), name


@pytest.mark.parametrize("part", PARTS)
def test_every_public_name_of_a_part_is_in_the_reference(part):
    try:
        module = importlib.import_module(f"tepid.{part}")
    except ImportError as error:
        pytest.skip(str(error))
    for name in module.__all__:
        assert re.search(rf"^::: tepid\.{part}\.{name}\b", REFERENCE, re.MULTILINE), name


def _found(path):
    thing = tepid
    for name in path.split("."):
        thing = getattr(thing, name)
    return thing


def test_what_the_reference_names_is_there():
    for path in re.findall(r"^::: tepid\.(\S+)$", REFERENCE, re.MULTILINE):
        try:
            assert _found(path) is not None, path
        except ImportError as error:  # a part whose extra is not installed
            assert str(error).startswith(f"tepid.{path.split('.')[0]} must have"), error  # noqa: PT017


def test_the_files_that_the_page_on_architecture_names_are_there():
    named = re.findall(r"`(\w[\w/]*\.py)`", (DOCS / "architecture.md").read_text(encoding="utf-8"))
    assert len(set(named)) > 40
    for name in set(named):
        roots = (ROOT / "src" / "tepid", ROOT)
        assert any((root / name).is_file() for root in roots), name


def test_the_page_of_the_commands_is_what_they_say():
    script = _script(ROOT / "scripts" / "write_cli_page.py")
    page = script.PAGE.read_text(encoding="utf-8")
    assert page == script.page(), "run python scripts/write_cli_page.py"
    for verb in ("fit", "ask", "apply", "score", "compare", "onnx", "report", "demo", "doctor"):
        assert f"\n## tepid {verb}\n" in page


def test_the_tables_of_the_measures_are_what_was_measured():
    script = _script(ROOT / "benchmarks" / "measures_page.py")
    page = script.PAGE.read_text(encoding="utf-8")
    assert page == script.written(page), "run python benchmarks/measures_page.py"
    for name in tepid.metrics.__all__:
        assert f"`{name}`" in page or name == "Interval", name


def test_what_the_pages_say_of_the_figures_is_what_was_measured():
    result = json.loads((ROOT / "benchmarks/results/intervals.json").read_text())
    thousand = next(row for row in result["calibrated"] if row["rows"] == 1000)
    assert thousand["ece"] > 0.03  # "an ECE of 3 % on 1000 rows"
    cases = [c for c in result["intervals"] if (c["measure"], c["sharpness"]) == ("ece", 1.0)]
    assert all(case["percentile"] == 0 for case in cases)  # "never held the 0"
    measured = json.loads((ROOT / "benchmarks/results/assumption.json").read_text())["median"]
    assert measured["truly"] < 0.30  # "it was less in the median"


@pytest.fixture
def small_data(tmp_path, monkeypatch, fashion):
    """A folder with every file that a command of the pages reads."""
    monkeypatch.chdir(tmp_path)
    logits, labels = (column[:400] for column in fashion)
    np.save("logits.npy", logits)
    np.save("images.npy", logits)
    np.save("labels.npy", labels)
    for name in ("other", "judge"):
        np.save(f"{name}.npy", logits + np.float32(0.1))
    rows = "".join(f"{row},{label}\n" for row, label in enumerate(labels[:50]))
    Path("answers.csv").write_text("id,label\n" + rows)
    np.savetxt("table.csv", logits, delimiter=",")
    for name in ("rows.npz", "old.npz", "few.npz", "logits.npz"):
        np.savez(name, logits=logits, labels=labels)
    site = np.where(np.arange(400) % 2, "clinic", "field")
    np.savez("sites.npz", logits=logits, labels=labels, site=site)
    np.save("tags.npy", np.eye(10, dtype=int)[labels])
    np.save("scenes.npy", np.moveaxis(logits.reshape(4, 10, 10, 10), -1, 1))
    np.save("masks.npy", labels.reshape(4, 10, 10))
    np.savez("pixels.npz", logits=logits, labels=labels, image=np.arange(400) // 100)
    Path("classes.txt").write_text("\n".join(tepid.demo.fashion()["names"]))
    Path("texts.txt").write_text("".join(f"photos/{row:03}.png\n" for row in range(400)))
    np.save("north.npy", logits[:250])
    np.save("south.npy", logits[250:])
    Path("photos").mkdir()
    for row in range(400):
        Path("photos", f"{row:03}.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    tepid.uts(logits).save("calibration.json")
    Path("runs").mkdir()
    np.savez("runs/lenet5_mnist.npz", logits=logits, labels=labels)


def _write_shards():
    pytest.importorskip("pyarrow", reason="the commands of this page need pyarrow")
    Path("shards").mkdir()
    with np.load("rows.npz") as rows:
        logits, labels = rows["logits"], rows["labels"]
    beside = {"split": np.where(np.arange(400) % 2, "test", "train"), "site": np.arange(400) % 3}
    for i in (0, 1):
        part = slice(200 * i, 200 * i + 200)
        columns = {name: column[part] for name, column in beside.items()}
        written.write(Path("shards", f"part-{i}.parquet"), logits[part], labels[part], **columns)


def _write_model():
    onnx = pytest.importorskip("onnx", reason="the commands of this page need onnx")
    pytest.importorskip("onnxruntime", reason="the commands of this page need onnxruntime")
    values = [onnx.helper.make_tensor_value_info(n, 1, ["n", 10]) for n in ("x", "y")]
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "same", values[:1], values[1:])
    opsets = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, Path.cwd() / "model.onnx")


def _write_logs():
    answers, labels = logs.answers(scale=3.0)
    for folder, scale in ((".", 1.0), ("base", 0.3)):
        records = logs.samples(scale * answers, labels)
        logs.write(Path(folder, "samples_mmlu.jsonl"), records)
    rows = logs.normalized(answers)
    records = [logs.batch(f"q{i}", logs.chat([logs.content(row)])) for i, row in enumerate(rows)]
    logs.write(Path("responses.jsonl"), records)


def _commands(page):
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    if page.name == "evidence.md":
        lines += re.findall(r"\| `(tepid [^`]*)` \|", text)
    return [shlex.split(line)[1:] for line in lines if line.startswith("tepid ")]


# What only costs time: fewer draws and splits than the defaults.
QUICKLY = {"score": ["--draws", "5"], "compare": ["--splits", "2"]}
# What needs images and PyTorch is run by the tests of the laboratory.
ELSEWHERE = (["lab", "train"], ["lab", "isic"], ["lab", "predict"])
SAYING = [page for page in PAGES if _commands(page)]


@pytest.mark.slow
@pytest.mark.parametrize("page", SAYING, ids=lambda page: page.stem)
@pytest.mark.usefixtures("small_data")
def test_the_commands_of_a_page_run(page, tepid_here):
    commands = [command for command in _commands(page) if command[:2] not in ELSEWHERE]
    if any(command[0] == "onnx" for command in commands):
        _write_model()
    if any("shards" in word for command in commands for word in command):
        _write_shards()
    if any("jsonl" in word for command in commands for word in command):
        _write_logs()
    for command in commands:
        code, out, err = tepid_here(*command, *QUICKLY.get(command[0], []))
        assert code == 0, (command, err)
        assert out, command
        if command[0] == "ask":
            written.fill_in(command[command.index("-o") + 1], np.load("labels.npy"))


def test_the_pages_that_should_have_commands_do():
    assert {"index", "evidence", "command-line"} <= {p.stem for p in SAYING}
    assert _commands(DOCS / "evidence.md")


@pytest.mark.slow
def test_the_site_is_built_strictly_and_asks_nothing_of_a_network(tmp_path):
    pytest.importorskip("zensical", reason="make docs installs what builds the site")
    pytest.importorskip("mkdocstrings_handlers.python", reason="make docs installs it")
    for name in ("docs", "src", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("mkdocs.yml", "CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    built = {p.relative_to(tmp_path / "site") for p in (tmp_path / "site").rglob("*.html")}
    assert {page.relative_to(DOCS).with_suffix(".html") for page in PAGES} <= built
    for page in built:
        text = (tmp_path / "site" / page).read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img)[^>]* src="(?:https?:)?//', text), page
        assert not re.findall(r'<link[^>]* rel="stylesheet"[^>]* href="(?:https?:)?//', text), page
