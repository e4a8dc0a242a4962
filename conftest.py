"""The examples in the README and the docs are tests, and print what the pages show."""

import contextlib
import io
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

import pytest
from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown import SkipParser
from tests import mending

_FOLDERS: dict[Path, Path] = {}
_HIDDEN = r"<!--- invisible-code-block: python\n(?P<hidden>.*?)^-->"
_SHOWN = r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```$"
_OUTPUT = r"(?:\s*<!-- output -->\n```text\n(?P<output>.*?)^```$)?"
_BLOCK = re.compile(f"(?:{_HIDDEN}|{_SHOWN}){_OUTPUT}", re.DOTALL | re.MULTILINE)


def _parse_examples(document: Document) -> Iterable[Region]:
    """The Python blocks of a page, each with the output that the page shows after it."""
    for block in _BLOCK.finditer(document.text):
        start = block.start("hidden") if block["code"] is None else block.start("code")
        lines = document.text.count("\n", 0, start)
        code = textwrap.dedent(block["hidden"] or block["code"] or "")
        parsed = "\n" * lines + code, block["output"]
        yield Region(block.start(), block.end(), parsed, _evaluate)


def _evaluate(example: Example) -> None:
    code, shown = example.parsed
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(example.path), "exec", dont_inherit=True), example.namespace)
    assert shown is None or printed.getvalue() == shown


@pytest.fixture
def elsewhere(request, tmp_path_factory, monkeypatch):
    """Examples save files in a temporary folder, which all examples of a page share."""
    page = request.node.path
    if "import transformers" in page.read_text() or "from transformers" in page.read_text():
        mending.mend()  # it imports torchvision where that is installed
    if page not in _FOLDERS:
        _FOLDERS[page] = tmp_path_factory.mktemp(page.stem)
    monkeypatch.chdir(_FOLDERS[page])


pytest_collect_file = Sybil(
    parsers=[_parse_examples, SkipParser()],
    path=str(Path(__file__).parent),
    patterns=["README.md", "docs/*.md"],
    fixtures=["elsewhere"],
).pytest()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pages whose examples train models are slow tests."""
    for item in items:
        if item.path.name in {"binary.md", "gradient-boosting.md", "hugging-face.md"}:
            item.add_marker(pytest.mark.slow)
