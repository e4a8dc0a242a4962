"""The examples in the README are tests."""

from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Examples that save a file do so in a temporary folder."""
    monkeypatch.chdir(tmp_path)


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    path=str(Path(__file__).parent),
    patterns=["README.md", "docs/*.md"],
    fixtures=["elsewhere"],
).pytest()
