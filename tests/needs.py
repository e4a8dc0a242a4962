"""Packages that a test cannot do without."""

import importlib
import os

import pytest


def needed(name):
    """A package that may be missing, but not where everything is to be tested."""
    if os.environ.get("CI"):
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"{name} is not installed")
