"""What a test cannot do without: packages, and the kernels of another process."""

import importlib
import importlib.util
import os

import pytest

from tepid.kernels import tiers


def needed(name):
    """A package that may be missing, but not where everything is to be tested."""
    if os.environ.get("CI"):
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"{name} is not installed")


def same_kernels():
    """The environment for a process whose numbers are compared with those of the tests."""
    default = "numba" if importlib.util.find_spec("numba") else "numpy"
    return {tiers.ENVIRONMENT: default} | os.environ
