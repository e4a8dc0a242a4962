"""Tests of the built wheel in environments of its own: lowest versions, few extras, other Pythons.

`python scripts/matrix.py` builds the wheel, makes a virtual environment for each cell, and runs
tests in it from a folder without `src/`. With names of cells it runs only those; `--list` prints
the names. `--record` writes what came of them to benchmarks/results/matrix.json and .md, where
cells that did not run keep their earlier result, with its date and commit.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import record
from tests import processors

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [c.split()[-1] for c in PROJECT["classifiers"] if "Python :: 3." in c]
TOOLS = ("pytest>=8", "hypothesis>=6.100")
CORE = ("summaries", "calibrate", "temperature", "formats", "tiers", "cli_evidence", "terminal")
NUMERICAL = ("kernels", "summaries", "calibrate")
FORMATS = ("containers", "files")
TORCH = ("torch", "torch_fold", "lab_networks", "lab_recipes", "lab_tables")
NOTE = """\
Each cell installs the built wheel into an environment of its own and runs the tests that are not
marked slow, from a folder without `src/`. For Spark, boosted trees and Hugging Face it runs all.
"Lowest" installs every package of the core and of the cell's extras at its lower bound in
`pyproject.toml`, and the newest of what they need in turn. In every environment `pip check` must
agree and every package that the cell names must import. Tests that need a package which a cell does
not install are skipped. The cells may come from several runs: each has its date, its commit and the
load of the machine.
"""
# Imports one module of each distribution; tests would only be skipped if it cannot be imported.
IMPORTS = """\
import contextlib, importlib, importlib.metadata, sys
for wanted in sys.argv[1:]:
    for module, names in importlib.metadata.packages_distributions().items():
        if wanted in [name.lower().replace("_", "-") for name in names] and module[0] != "_":
            with contextlib.suppress(ImportError):
                importlib.import_module(module)
                break
    else:
        sys.exit(f"{wanted} cannot be imported")
"""


class Cell(NamedTuple):
    """One environment, and the tests that run in it."""

    tests: tuple[str, ...]
    extras: tuple[str, ...] = ()
    python: str | None = PYTHONS[0]  # None is the Python of this script
    lowest: bool = False
    beside: tuple[str, ...] = ()  # packages of `dev` that the tests need, with their lower bounds
    variables: Mapping[str, str | None] = MappingProxyType({})  # None removes one
    read_only: bool = False
    processor: str = "generic"
    large: bool = False  # installs gigabytes
    slow: bool = False  # also runs the tests that are marked slow


CELLS = {
    "no extras": Cell((*CORE, "architecture", "public_names"), python=None),
    "numba absent": Cell((*CORE, *FORMATS), ("parquet", "files", "remote", "scaling")),
    "lowest core": Cell(CORE, lowest=True),
    "lowest command line": Cell(("cli", "shards_cli"), ("scaling", "parquet"), lowest=True),
    "lowest fast": Cell((*NUMERICAL, "tiers"), ("fast",), lowest=True),
    "lowest plots": Cell(("plots",), ("plots",), lowest=True),
    "lowest sklearn": Cell(("sklearn", "metrics"), ("sklearn",), lowest=True),
    "lowest scaling": Cell(
        ("scaling", "scaling_saving", "methods", "formats"), ("scaling",), lowest=True
    ),
    "lowest onnx": Cell(("onnx",), ("onnx",), lowest=True, beside=("scikit-learn", "skl2onnx")),
    "lowest online": Cell(("online",), ("online",), lowest=True, beside=("scipy",)),
    "lowest parquet": Cell(FORMATS, ("parquet",), lowest=True),
    "lowest files": Cell(FORMATS, ("files",), lowest=True),
    "lowest remote": Cell(("files",), ("remote", "parquet", "files"), lowest=True),
    "lowest frames": Cell(
        ("containers", "arrays"), ("parquet",), lowest=True, beside=("pandas", "polars", "duckdb")
    ),
    "lowest dask": Cell(("dask", "machines"), ("dask", "parquet"), lowest=True),
    "lowest spark": Cell(("spark",), ("spark",), lowest=True, slow=True),
    "lowest boosting": Cell(
        ("boosting",), ("sklearn",), lowest=True, slow=True,
        beside=("lightgbm", "xgboost-cpu", "pandas"),
    ),
    "lowest torch": Cell(TORCH, ("torch", "lab", "parquet"), lowest=True, large=True),
    "lowest Hugging Face": Cell(
        ("hugging_face", "torch_fold"), ("torch", "parquet"), lowest=True, large=True, slow=True,
        beside=("transformers", "datasets", "accelerate", "pandas"),
    ),
    "torch": Cell(TORCH, ("torch", "lab", "parquet")),
    "read-only installation": Cell(NUMERICAL, ("fast",), read_only=True),
} | {
    f"Python {version}": Cell(
        (*CORE, "kernels"), ("fast", "parquet", "files", "scaling"), python=version
    )
    for version in PYTHONS[1:]
} | {
    "HOME unset": Cell(
        (*CORE, "kernels"),
        ("fast",),
        variables={"HOME": None, "XDG_CACHE_HOME": None, "NUMBA_CACHE_DIR": None},
    ),
} | {
    f"tier {tier}": Cell(NUMERICAL, ("fast",), variables={"TEPID_KERNELS": tier})
    for tier in ("numpy", "numba")
} | {
    f"processor {name}": Cell(
        NUMERICAL,
        ("fast",),
        variables={"TEPID_KERNELS": "numba"} | processors.variables(name),
        processor=name,
    )
    for name in processors.FEATURES
}  # fmt: skip


class Outcome(NamedTuple):
    """What came of one cell."""

    cell: str
    python: str
    versions: str
    tests: str
    result: str  # the last line of pytest, or why the cell failed or was skipped
    seconds: int
    load: float  # of the machine, after the cell
    date: str
    commit: str


# --- requirements


def requirements(cell: Cell) -> list[str]:
    """The packages that pip installs beside the wheel, apart from the tools of the tests."""
    named = _parse([*PROJECT["dependencies"], *_extras(cell.extras)])
    development = _parse(_extras(["dev"]))
    named |= {name: development[name] for name in cell.beside}
    return [_lowest(r) if cell.lowest else str(r) for r in named.values()]


def _extras(names: Iterable[str]) -> list[str]:
    return [line for name in names for line in PROJECT["optional-dependencies"][name]]


def _parse(lines: Iterable[str]) -> dict[str, Requirement]:
    return {requirement.name: requirement for requirement in map(Requirement, lines)}


def _lowest(requirement: Requirement) -> str:
    (bound,) = (s.version for s in requirement.specifier if s.operator == ">=")
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}=={bound}"


# --- environments


def find_python(version: str) -> str | None:
    """A Python of this version that can make environments."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for place in (f"python{version}", *sorted(pyenv.glob(f"versions/{version}.*/bin/python"))):
        path = shutil.which(place)
        if path and _run(path, "-c", "import venv, ensurepip").returncode == 0:
            return path
    return None


def install(folder: Path, python: str, wheel: Path, cell: Cell) -> str:
    """Make the environment of a cell; returns what went wrong, or nothing."""
    lines = requirements(cell)
    # pyspark is released as source only; the constraints pin the torch of the other tests.
    options = ["-q", "--only-binary", ":all:", "--no-binary", "pyspark"]
    options += [] if cell.lowest else ["-c", str(ROOT / "constraints.txt")]
    binary = folder / "bin" / "python"
    # torchvision may not fit the build of torch beside it; the tests mend that.
    names = [Requirement(line).name for line in lines if not line.startswith("torchvision")]
    for command in (
        (python, "-m", "venv", folder),
        (binary, "-m", "pip", "install", *options, wheel, *lines, *TOOLS),
        (binary, "-m", "pip", "check"),
        (binary, "-c", IMPORTS, *names),
    ):
        done = _run(*command)
        if done.returncode:
            return done.stdout + done.stderr
    return ""


def read_versions(binary: Path, cell: Cell) -> str:
    """The installed versions of what a cell names."""
    listed = _run(binary, "-m", "pip", "list", "--format", "json").stdout
    found = {p["name"].lower().replace("_", "-"): p["version"] for p in json.loads(listed)}
    names = [Requirement(line).name for line in requirements(cell)]
    return ", ".join(f"{name} {found[name]}" for name in [*names, "click"] if name in found)


def _run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True, encoding="utf-8", check=False, **options,
    )  # fmt: skip


# --- cells


class Matrix:
    """A folder with the wheel, the tests, and one environment, so that it stays small."""

    def __init__(self, folder: Path, wheel: Path | None) -> None:
        """Build the wheel unless one is given, and copy the tests to where `src/` is not."""
        self.folder = folder
        self.wheel = wheel.resolve() if wheel else _build_wheel(folder / "dist")
        self.tests = folder / "elsewhere"
        for name in ("tests", "examples", "benchmarks", "docs"):
            shutil.copytree(ROOT / name, self.tests / name)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, self.tests)
        self.commit = _run("git", "-C", ROOT, "describe", "--always", "--dirty").stdout.strip()
        self.key: tuple[Any, ...] = ()
        self.failure = ""  # of making the environment
        self.environment = tempfile.TemporaryDirectory(dir=folder)

    def run(self, name: str, *, large: bool) -> Outcome:
        """Run the tests of a cell in its environment; prints the output of what failed."""
        cell = CELLS[name]
        start = time.perf_counter()
        number = installed = ""
        python = find_python(cell.python) if cell.python else sys.executable
        if lacking := processors.missing(cell.processor):
            result = f"skipped: this processor lacks {', '.join(lacking)}"
        elif python is None:
            result = f"skipped: Python {cell.python} is not installed"
        elif cell.large and not large:
            result = "skipped: installs gigabytes of CUDA packages; `--large` runs it"
        else:
            self._install(python, cell)
            binary = Path(self.environment.name) / "bin" / "python"
            if self.failure:
                result = f"failed: {self.failure.strip().splitlines()[-1]}"
                print(self.failure[-6000:], file=sys.stderr)
            else:
                number = _run(binary, "--version").stdout.split()[-1]
                installed = read_versions(binary, cell)
                result = _test(cell, binary, self.tests)
        seconds = round(time.perf_counter() - start)
        return Outcome(
            name, number, installed, " ".join(cell.tests), result, seconds,
            load=round(os.getloadavg()[0], 1),
            date=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
            commit=self.commit,
        )  # fmt: skip

    def _install(self, python: str, cell: Cell) -> None:
        """Replace the environment, unless the cell before had the same."""
        key = (python, *requirements(cell), cell.lowest, cell.read_only)
        if key == self.key:
            return
        self.environment.cleanup()
        self.environment = tempfile.TemporaryDirectory(dir=self.folder)
        self.key, folder = key, Path(self.environment.name)
        self.failure = install(folder, python, self.wheel, cell)
        if cell.read_only:
            for path in [folder, *folder.rglob("*")]:
                if not path.is_symlink():
                    path.chmod(path.stat().st_mode & ~0o222)


def _build_wheel(folder: Path) -> Path:
    done = _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT)
    if done.returncode:
        sys.exit(f"The wheel cannot be built:\n{done.stderr[-3000:]}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def _test(cell: Cell, binary: Path, tests: Path) -> str:
    dropped = {"PYTHONPATH", "CI", "TEPID_KERNELS", *cell.variables}
    environment = {k: v for k, v in os.environ.items() if k not in dropped}
    environment |= {k: v for k, v in cell.variables.items() if v is not None}
    command: list[str | Path] = []
    if cell.read_only and os.geteuid() == 0:  # root may write everywhere unless it gives that up
        command = ["setpriv", "--bounding-set=-dac_override"]
    command += [binary, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    if not cell.slow:
        command += ["-m", "not slow"]
    if cell.lowest:  # warnings of old packages about themselves say nothing about tepid
        command += ["-W", "ignore::DeprecationWarning"]
    command += [f"tests/test_{name}.py" for name in cell.tests]
    done = _run(*command, env=environment, cwd=tests)
    found = re.findall(r"^(.*\d+ (?:passed|failed|error).*?) in [\d.]+s", done.stdout, re.M)
    summary = found[-1].strip("= ") if found else f"ended with {done.returncode}"
    if done.returncode == 0 and found:
        return summary
    print((done.stdout + done.stderr)[-6000:], file=sys.stderr)
    return f"failed: {summary}"


# --- results


def write(about: dict[str, Any], found: Sequence[Outcome]) -> None:
    """Write the results as a table and as JSON; cells that were not run keep their result."""
    path = record.RESULTS / "matrix.json"
    earlier = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []
    known = {cell["cell"]: Outcome(**cell) for cell in earlier} | {o.cell: o for o in found}
    cells = [known[name] for name in CELLS if name in known]
    counts = {
        "cells": len(CELLS),
        "not_run": len(CELLS) - len(cells),
        "failed": _count(cells, "failed"),
        "skipped": _count(cells, "skipped"),
    }
    said = "{cells} cells: {failed} failed, {skipped} skipped, {not_run} never run.\n".format(
        **counts
    )
    table = record.table(Outcome._fields, cells)
    text = "\n".join([record.preamble("Matrix", about), NOTE, said, table, ""])
    figures = {**about, "counts": counts, "cells": [cell._asdict() for cell in cells]}
    record.write("matrix", figures, text)


def _count(found: Sequence[Outcome], word: str) -> int:
    return sum(outcome.result.startswith(word) for outcome in found)


def main() -> None:
    """Read the command line."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("cells", nargs="*", help="names of cells; all of them if none is given")
    options.add_argument("--list", action="store_true", help="print the names of the cells")
    options.add_argument("--large", action="store_true", help="run cells that install gigabytes")
    options.add_argument("--record", action="store_true", help="write benchmarks/results/matrix.*")
    options.add_argument("--wheel", type=Path, help="test this wheel instead of building one")
    chosen = options.parse_args()
    if chosen.list:
        print("\n".join(CELLS))
        return
    if unknown := set(chosen.cells) - CELLS.keys():
        options.error(f"no such cell: {', '.join(sorted(unknown))}")
    about = record.circumstances("python scripts/matrix.py --record", 0, 1, ())
    found = []
    with tempfile.TemporaryDirectory(prefix="tepid-matrix-") as folder:
        matrix = Matrix(Path(folder), chosen.wheel)
        for name in chosen.cells or CELLS:
            outcome = matrix.run(name, large=chosen.large)
            print(f"{name:<28} {outcome.result} ({outcome.seconds} s)", flush=True)
            found.append(outcome)
            if chosen.record:  # after each cell, so that a run which is stopped is not lost
                write(about, found)
    sys.exit(1 if _count(found, "failed") else 0)


if __name__ == "__main__":
    main()
