"""Tests of the built wheel in environments of its own: lowest versions, few extras, other Pythons.

`python scripts/matrix.py run` builds the wheel, makes a virtual environment for each cell, copies
the tests to a folder without `src/`, runs a fast subset of them in each cell, and writes
benchmarks/results/matrix.json and .md. With names of cells it only prints.
`wheel` is the one cell that a release needs. `list` prints the cells. `lowest PACKAGE` searches the
released versions for the lowest that passes the tests of its cell.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.version import Version

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import record

ROOT = Path(__file__).parents[1]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OLDEST = PROJECT["requires-python"].removeprefix(">=")
TOOLS = ("pytest>=8", "hypothesis>=6.100")
CORE = ("kernels", "summaries", "calibrate", "temperature", "formats", "tiers")
NUMERICAL = ("kernels", "summaries", "calibrate")
FORMATS = ("containers", "files")
# Features that a processor must have to run the code of another.
PROCESSORS = {
    "generic": (),
    "haswell": ("avx2", "fma", "bmi2", "f16c"),
    "skylake-avx512": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "znver3": ("avx2", "sse4a", "vaes", "clzero"),
}
NOTE = """\
Each cell installs the built wheel into an environment of its own and runs tests from a folder
without `src/`. "Lowest" pins every package that is named in the cell's extras, and NumPy, narwhals,
typer and rich, to the lower bound in `pyproject.toml`; what they need in turn is the newest that
fits. `pip check` must agree in every environment.
"""


class Cell(NamedTuple):
    """One environment, and the tests that run in it."""

    tests: tuple[str, ...]
    extras: tuple[str, ...] = ()
    python: str = OLDEST
    lowest: bool = False
    beside: tuple[str, ...] = ()  # packages that the tests need and the extras do not name
    environment: Mapping[str, str | None] = MappingProxyType({})  # None removes a variable
    read_only: bool = False
    features: tuple[str, ...] = ()  # of the processor


CELLS = {
    "wheel": Cell((*CORE, "architecture", "public_names")),
    "lowest core": Cell(CORE, lowest=True),
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
    "lowest remote": Cell(("files",), ("remote",), lowest=True),
    "lowest frames": Cell(
        ("containers", "arrays"),
        ("parquet",),
        lowest=True,
        beside=("pandas", "polars", "duckdb"),
    ),
    "lowest dask": Cell(("dask",), ("dask", "parquet"), lowest=True),
    "lowest spark": Cell(("spark",), ("spark",), lowest=True),
    "lowest torch": Cell(("torch", "torch_fold"), ("torch",), lowest=True),
    "lowest lab": Cell(("lab_networks", "lab_recipes", "lab_tables"), ("lab",), lowest=True),
    "newest Python": Cell(CORE, ("fast", "parquet", "files", "scaling"), "newest"),
    "numba absent": Cell((*NUMERICAL, *FORMATS), ("parquet", "files", "remote", "scaling")),
    "read-only installation": Cell(NUMERICAL, ("fast",), read_only=True),
    "HOME unset": Cell(
        CORE,
        ("fast",),
        environment={"HOME": None, "XDG_CACHE_HOME": None, "NUMBA_CACHE_DIR": None},
    ),
} | {
    f"tier {tier}": Cell(NUMERICAL, ("fast",), environment={"TEPID_KERNELS": tier})
    for tier in ("numpy", "numba")
} | {
    f"processor {name}": Cell(
        NUMERICAL,
        ("fast",),
        environment={
            "TEPID_KERNELS": "numba",
            "NUMBA_CPU_NAME": name,
            "NUMBA_CPU_FEATURES": "",  # or numba adds those of this processor
        },
        features=features,
    )
    for name, features in PROCESSORS.items()
}  # fmt: skip


class Outcome(NamedTuple):
    """What came of one cell."""

    cell: str
    python: str
    versions: str
    tests: str
    result: str  # passed, failed, skipped with a reason
    seconds: float
    text: str


# --- requirements


def bounds(extras: Iterable[str]) -> dict[str, Requirement]:
    """Every package of the core and of these extras, with its lower bound."""
    lines = [*PROJECT["dependencies"]]
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    found = (Requirement(line) for line in lines)
    return {r.name: r for r in found if r.marker is None or r.marker.evaluate()}


def lower(requirement: Requirement) -> str:
    """The lower bound of a requirement."""
    (bound,) = (s.version for s in requirement.specifier if s.operator in (">=", "=="))
    return bound


def requirements(cell: Cell, pins: dict[str, str]) -> list[str]:
    """What pip installs beside the wheel, apart from the tools of the tests."""
    named = bounds(cell.extras)
    development = bounds(["dev"])
    named |= {name: development.get(name, Requirement(name)) for name in cell.beside}
    lines = []
    for name, requirement in named.items():
        extra = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        version = pins.get(name) or (lower(requirement) if cell.lowest else "")
        lines.append(f"{name}{extra}=={version}" if version else str(requirement))
    return lines


# --- environments


def interpreter(version: str) -> str | None:
    """The path of a Python 3.x, or of the newest one that is installed."""
    numbers = range(20, 10, -1) if version == "newest" else [int(version.partition(".")[2])]
    for number in numbers:
        places = [f"python3.{number}"]
        pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
        places += map(str, sorted(pyenv.glob(f"versions/3.{number}.*/bin/python")))
        for place in places:
            path = shutil.which(place)
            if path and _runs(path, "-c", "import venv, ensurepip").returncode == 0:
                return path
    return None


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this tree."""
    done = _runs(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT)
    if done.returncode:
        sys.exit(f"The wheel cannot be built:\n{done.stderr[-3000:]}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def copy_tests(folder: Path) -> Path:
    """Copy the tests to a folder without `src/`."""
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "examples", folder / "examples")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder)
    return folder


def install(folder: Path, python: str, wheel: Path, lines: Sequence[str]) -> str:
    """Make an environment; what went wrong, or nothing."""
    _runs(python, "-m", "venv", folder)
    pip = (folder / "bin" / "python", "-m", "pip")
    # pyspark is released as source alone.
    shared = (
        "-q",
        "--only-binary",
        ":all:",
        "--no-binary",
        "pyspark",
        "-c",
        ROOT / "constraints.txt",
    )
    if any(line.startswith("torch==") for line in lines):
        shared = shared[:-2]
    done = _runs(*pip, "install", *shared, wheel, *lines, *TOOLS)
    if done.returncode:
        return done.stderr[-3000:]
    return _runs(*pip, "check").stdout if _runs(*pip, "check").returncode else ""


def versions(folder: Path, lines: Sequence[str]) -> str:
    """The installed versions of what a cell asks for."""
    listed = _runs(folder / "bin" / "python", "-m", "pip", "list", "--format", "json").stdout
    found = {_plain(p["name"]): p["version"] for p in json.loads(listed)}
    names = [_plain(Requirement(line).name) for line in lines]
    return ", ".join(f"{name} {found[name]}" for name in names if name in found)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _runs(
    *command: str | Path, environment: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True, encoding="utf-8", check=False, env=environment, cwd=cwd,
    )  # fmt: skip


# --- cells


def run_cell(
    name: str, folder: Path, wheel: Path, tests: Path, pins: dict[str, str] | None = None
) -> Outcome:
    """Install what a cell needs, unless another cell did, and run its tests."""
    cell = CELLS[name]
    start = time.perf_counter()
    lines = requirements(cell, pins or {})
    number, installed, result, text = "", "", "", ""
    python = interpreter(cell.python)
    missing = [f for f in cell.features if f not in _processor_features()]
    if missing or python is None:
        lack = f"no {', '.join(missing)}" if missing else f"no Python {cell.python}"
        result = f"skipped: {lack}"
    else:
        place = folder / re.sub(r"\W+", "-", " ".join([python, *lines, str(cell.read_only)]))[-200:]
        if not (place / "ready").exists():
            text = install(place, python, wheel, lines)
            if not text:
                (place / "ready").write_text("")
        binary = place / "bin" / "python"
        number = _runs(binary, "-c", "import platform; print(platform.python_version())").stdout
        installed = versions(place, lines)
        result = "failed: pip" if text else ""
        if not text:
            result, text = run_tests(cell, binary, tests)
    seconds = time.perf_counter() - start
    return Outcome(name, number.strip(), installed, " ".join(cell.tests), result, seconds, text)


def run_tests(cell: Cell, binary: Path, tests: Path) -> tuple[str, str]:
    """Run the tests of a cell: the last line of pytest, and its whole output if any failed."""
    dropped = ("PYTHONPATH", "CI", "TEPID_KERNELS")
    environment = {k: v for k, v in os.environ.items() if k not in dropped}
    for variable, value in cell.environment.items():
        environment.pop(variable, None)
        if value is not None:
            environment[variable] = value
    command: list[str | Path] = []
    if cell.read_only:
        _make_read_only(binary.parents[1])
        if os.geteuid() == 0:  # whom permissions do not bind, unless it gives up the right
            command = ["setpriv", "--bounding-set=-dac_override"]
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    # Warnings of old versions about themselves say nothing about tepid.
    strict = [] if not cell.lowest else ["-W", "ignore::DeprecationWarning"]
    command += [binary, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *strict]
    command += [f"tests/test_{name}.py" for name in cell.tests]
    done = _runs(*command, environment=environment, cwd=tests)
    found = re.findall(r"^(.*\d+ (?:passed|failed|error|skipped).*?) in [\d.]+s", done.stdout, re.M)
    summary = found[-1].strip("= ") if found else f"ended with {done.returncode}"
    if done.returncode == 0:
        return summary, ""
    return f"failed: {summary}", done.stdout + done.stderr


def _make_read_only(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)


def _make_writable(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200)


def _processor_features() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return set()
    found = re.search(r"^flags\s*:(.*)$", text, re.M)
    return set(found[1].split()) if found else set()


# --- commands


def run(names: Sequence[str], keep: Path | None, built: Path | None) -> None:
    """Run cells, print what came of them, and write the results if they are all."""
    about = record.circumstances("python scripts/matrix.py run", 0, 1, ())
    found = []

    def each(folder: Path, wheel: Path, tests: Path) -> None:
        for name in names or CELLS:
            outcome = run_cell(name, folder, wheel, tests)
            print(f"{name:<28} {outcome.result} ({outcome.seconds:.0f} s)", flush=True)
            if outcome.text:
                print(outcome.text[-6000:], file=sys.stderr, flush=True)
            found.append(outcome)

    _prepared(each, keep, built)
    failed = [o.cell for o in found if o.result.startswith("failed")]
    if not names:
        write(about, found)
    sys.exit(f"Failed: {', '.join(failed)}" if failed else 0)


def write(about: dict[str, Any], found: Sequence[Outcome]) -> None:
    """Write the results as a table and as JSON."""
    head = ("cell", "python", "versions", "tests", "result", "seconds")
    rows = [(*o[:5], round(o.seconds)) for o in found]
    failed = sum(o.result.startswith("failed") for o in found)
    skipped = sum(o.result.startswith("skipped") for o in found)
    said = f"{len(found)} cells, {failed} failed, {skipped} skipped.\n"
    text = "\n".join([record.preamble("Matrix", about), NOTE, record.table(head, rows), "", said])
    cells = [dict(zip(head, row, strict=True)) for row in rows]
    record.write("matrix", {**about, "failed": failed, "skipped": skipped, "cells": cells}, text)


def search(package: str, name: str, keep: Path | None) -> None:
    """Print the lowest released version of a package that passes the tests of a cell.

    It halves the versions between the lower bound and the newest, so it takes for granted that
    what works in one version works in the later ones.
    """
    bound = Version(lower((bounds(CELLS[name].extras) | bounds(["dev"]))[package]))
    listed = _runs(sys.executable, "-m", "pip", "index", "versions", package).stdout
    numbers = re.search(r"Available versions: (.*)", listed)
    if numbers is None:
        sys.exit(f"pip lists no version of {package}.")
    released = sorted(v for v in map(Version, numbers[1].split(", ")) if v >= bound)

    def halve(folder: Path, wheel: Path, tests: Path) -> None:
        low, high = 0, len(released) - 1
        while low < high:
            middle = (low + high) // 2
            pins = {package: str(released[middle])}
            outcome = run_cell(name, folder, wheel, tests, pins)
            print(f"{package} {released[middle]}: {outcome.result}", flush=True)
            failed = outcome.result.startswith("failed")
            low, high = (middle + 1, high) if failed else (low, middle)
        print(f"lowest: {package} {released[low]}")

    _prepared(halve, keep, None)


def _prepared(
    work: Callable[[Path, Path, Path], None], keep: Path | None, built: Path | None
) -> None:
    """Call `work` with a folder for environments, the wheel and the folder of the tests."""
    with tempfile.TemporaryDirectory(prefix="tepid-matrix-") as temporary:
        folder = Path(temporary)
        wheel = built.resolve() if built else build_wheel(folder / "dist")
        tests = copy_tests(folder / "elsewhere")
        environments = keep or folder / "environments"
        environments.mkdir(exist_ok=True, parents=True)
        try:
            work(environments, wheel, tests)
        finally:
            _make_writable(environments)


def main() -> None:
    """Read the command line."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("command", choices=["run", "wheel", "list", "lowest"])
    options.add_argument("names", nargs="*", help="cells; for `lowest`, a package and a cell")
    options.add_argument("--keep", type=Path, help="keep the environments in this folder")
    options.add_argument("--wheel", type=Path, help="test this wheel instead of building one")
    chosen = options.parse_args()
    if chosen.command == "list":
        print("\n".join(CELLS))
    elif chosen.command == "lowest":
        search(*chosen.names, chosen.keep)
    else:
        run(["wheel"] if chosen.command == "wheel" else chosen.names, chosen.keep, chosen.wheel)


if __name__ == "__main__":
    main()
