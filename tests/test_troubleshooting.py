"""The page on troubleshooting: it has every warning, and quotes nothing that is not there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tepid"
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")


def _strings(path):
    """The strings of a module without docstrings, with "…" for what is filled in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in inside | docs:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _longest(text, separator="…"):
    return max(re.split(separator, text), key=len).strip()


# Modules whose sentences reach people as warnings, reasons, next steps or notes.
WARN = (
    "kernels",
    "methods/exact.py",
    "methods/search.py",
    "posterior/measured.py",
    "posterior/verdicts.py",
    "scaling",
    "sklearn/estimators.py",
    "sources/ids.py",
    "sources/logs.py",
    "validation.py",
)


def _sentences():
    for name in WARN:
        place = SOURCE / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            yield from (text for text in _strings(path) if re.search(r"\w.* .*[.?]$", text))
    for path in (SOURCE / "cli").glob("*.py"):
        calls = re.findall(r"\bnote\(\s*((?:f?\"[^\"]*\"\s*)+)\)", path.read_text(encoding="utf-8"))
        for call in calls:
            text = "".join(re.findall(r"\"([^\"]*)\"", call))
            yield re.sub(r"\{.*?\}(?!\})", "…", text)


def test_the_page_on_troubleshooting_has_every_warning():
    sentences = list(_sentences())
    assert len(sentences) > 50
    for sentence in sentences:
        assert _longest(sentence) in PAGE, sentence


def test_what_the_page_on_troubleshooting_quotes_is_in_the_source():
    source = "\n".join(text for path in SOURCE.rglob("*.py") for text in _strings(path))
    quoted = [
        text
        for line in PAGE.splitlines()
        if line.startswith("| ")
        for text in re.findall(r"`([^`]*)`", line.split(" | ")[0])
        if " " in text
    ]
    assert len(quoted) > 100
    for text in quoted:
        assert _longest(text, r"…| must |, got ") in source, text
