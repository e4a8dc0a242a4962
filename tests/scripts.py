"""The project's own scripts, loaded as modules."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"


def benchmark(name):
    """A script of benchmarks/, which finds its neighbours as when it is run."""
    return _load(BENCHMARKS / f"{name}.py")


def script(name):
    """A script of scripts/."""
    return _load(ROOT / "scripts" / f"{name}.py")


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    before = sys.path[:]
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
    return module
