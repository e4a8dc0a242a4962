"""The examples in the README are tests."""

from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from tests import mending

_FOLDERS: dict[Path, Path] = {}


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
    parsers=[PythonCodeBlockParser(), SkipParser()],
    path=str(Path(__file__).parent),
    patterns=["README.md", "docs/*.md"],
    fixtures=["elsewhere"],
).pytest()
