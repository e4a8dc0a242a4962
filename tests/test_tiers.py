"""When the kernels move from NumPy to numba, and what happens where they cannot."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tepid
from tests import processors

SOURCES = Path(tepid.__file__).parents[1]
# What is slow to import, and needed by nothing small.
HEAVY = ("numba", "scipy", "torch", "pandas", "pyarrow", "sklearn", "matplotlib", "dask")
# A softmax is the cheapest kernel to compile; it is worth it where this many logits are expected.
LARGE = """
import sys, warnings
import numpy as np, tepid
from tepid import kernels
t = tepid.Temperature(2.0, "manual", samples=1, classes=3, implied_accuracy=0.5)
z = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
with kernels.expecting(1e13):
    for _ in range(3):
        p = t(z)
print("numba" if "numba" in sys.modules else "numpy", repr(float(p[0, 0])))
"""


def _run(code, *args, **variables):
    """Run Python in a process of its own: (exit code, stdout, stderr). None removes a variable."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "TEPID_"))}
    environment |= {"PYTHONPATH": str(SOURCES)} | variables
    environment = {k: v for k, v in environment.items() if v is not None}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        capture_output=True, encoding="utf-8", check=False, env=environment,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def _tepid(*args, **variables):
    return _run("from tepid.cli.main import main; main()", *args, **variables)


@pytest.fixture
def logits(tmp_path, network):
    path = tmp_path / "logits.npy"
    np.save(path, network[0])
    return path


# --- what a small run imports


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [("--help",), ("fit", "--help"), ("fit", "{logits}", "-o", "{folder}/t.json"),
     ("apply", "{folder}/given.json", "{logits}", "-o", "{folder}/p.npy")],
)  # fmt: skip
def test_small_commands_import_nothing_heavy(command, logits, tmp_path):
    given = tepid.Temperature(2.0, "manual", samples=1, classes=12, implied_accuracy=0.5)
    given.save(tmp_path / "given.json")
    arguments = [part.format(logits=logits, folder=tmp_path) for part in command]
    code = (
        "import sys\nfrom tepid.cli.main import main\n"
        "try:\n    main()\n"
        f"finally:\n    print('heavy:', [m for m in {HEAVY} if m in sys.modules])"
    )
    status, out, err = _run(code, *arguments)
    assert status == 0, err
    assert out.endswith("heavy: []\n")


def test_a_small_fit_in_python_imports_nothing_heavy():
    code = (
        "import numpy as np, sys, tepid\n"
        "z = 9 * np.random.default_rng(0).normal(size=(2000, 10)); y = z.argmax(axis=1)\n"
        "t = tepid.uts(z), tepid.calibrate(z, y), tepid.temperature_scaling(z, y)\n"
        "t[0](z)\n"
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    status, out, err = _run("import warnings; warnings.simplefilter('ignore')\n" + code)
    assert (status, out) == (0, "[]\n"), err


# --- the rule


@pytest.mark.slow
def test_many_small_fits_move_to_numba_and_give_the_same():
    pytest.importorskip("numba")
    code = (
        "import numpy as np, sys, tepid\n"
        "z = 3 * np.random.default_rng(0).normal(size=(2000, 500)).astype(np.float32)\n"
        "found = []\n"
        "for turn in range(100):\n"
        "    found.append(tepid.uts(z, engine=tepid.Threads(1)).value)\n"
        "    if 'numba' in sys.modules: break\n"
        "found.append(tepid.uts(z).value)\n"
        "print(turn, max(found) / min(found) - 1)"
    )
    status, out, err = _run("import warnings; warnings.simplefilter('ignore')\n" + code)
    assert status == 0, err
    turn, apart = out.split()
    assert 0 < int(turn) < 99
    assert float(apart) < 1e-7


def test_a_tier_can_be_forced(logits):
    pytest.importorskip("numba")
    for tier in ("numpy", "numba"):
        status, out, err = _run(LARGE, TEPID_KERNELS=tier)
        assert (status, err) == (0, "")
        assert out.split()[0] == tier
    status, out, err = _tepid("fit", logits, TEPID_KERNELS="fortran")
    assert (status, out) == (2, "")
    assert err == "tepid: TEPID_KERNELS must be numpy or numba, got 'fortran'\n"


def test_worker_threads_may_meet_the_change_at_once():
    pytest.importorskip("numba")
    code = (
        LARGE.partition("with kernels")[0]
        + "from concurrent.futures import ThreadPoolExecutor\n"
        + "with kernels.expecting(1e13), ThreadPoolExecutor(8) as pool:\n"
        + "    many = list(pool.map(lambda _: t(z)[0, 0], range(64)))\n"
        + "print('numba' in sys.modules, max(many) / min(many) - 1 < 1e-6)"
    )
    status, out, err = _run(code)
    assert status == 0, err
    assert out.split() == ["True", "True"]


# --- where numba cannot serve


WITHOUT = "import sys; sys.modules['numba'] = None\n"


def test_without_numba_large_work_warns_once_and_small_work_not_at_all(logits, tmp_path):
    status, out, err = _run(WITHOUT + LARGE.replace('"numba" in sys', 'False and "numba" in sys'))
    assert status == 0
    assert out.startswith("numpy ")
    assert err.count("PerformanceWarning") == 1
    assert "pip install 'tepid[fast]'" in err
    main = "from tepid.cli.main import main; main()"
    status, _, err = _run(WITHOUT + main, "fit", logits, "-o", tmp_path / "t.json")
    assert status == 0
    assert "numba" not in err


def test_without_numba_a_forced_numba_is_an_error_that_names_the_extra(logits):
    main = "from tepid.cli.main import main; main()"
    status, out, err = _run(WITHOUT + main, "fit", logits, TEPID_KERNELS="numba")
    assert (status, out) == (2, "")
    assert "pip install 'tepid[fast]'" in err
    assert "Traceback" not in err


def test_a_compiler_that_is_switched_off_is_not_used():
    status, out, err = _run(LARGE, NUMBA_DISABLE_JIT="1")
    assert status == 0
    assert out.startswith("numpy ")
    assert err.count("NUMBA_DISABLE_JIT switches numba off") == 1


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_a_damaged_cache_is_named_and_not_used(suffix, tmp_path):
    pytest.importorskip("numba")
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert _run(LARGE, **cache)[1].startswith("numba ")
    (path,) = tmp_path.rglob(f"*{suffix}")
    path.write_bytes(path.read_bytes()[:90])
    status, _, err = _run(LARGE, **cache)
    assert status == 0
    assert err.count(f"{path} is damaged") == 1
    found = json.loads(_tepid("doctor", "--json", **cache)[1])["kernels"]
    assert found["tier"] == "numpy"
    assert f"{path} is damaged" in found["problem"]
    status, _, err = _run(LARGE, **cache, TEPID_KERNELS="numba")
    assert status == 1
    assert "InputError: TEPID_KERNELS=numba is not possible" in err


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_said_once_and_numba_compiles(tmp_path):
    pytest.importorskip("numba")
    nowhere = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null"}
    nowhere["PYTHONPATH"] = str(_unwritable(tmp_path))
    status, out, err = _run(LARGE, **nowhere)
    assert (status, out.split()[0]) == (0, "numba"), err
    assert err.count("NUMBA_CACHE_DIR may name one") == 1
    found = json.loads(_tepid("doctor", "--json", **nowhere)[1])["kernels"]
    assert not found["writable"]


@pytest.mark.slow
def test_a_user_without_a_home_can_use_an_installation_that_cannot_be_written(tmp_path):
    """As in a container that runs with any user number."""
    homeless = (
        "import os, pwd\n"
        "def unknown(_): raise KeyError\n"
        "pwd.getpwuid = unknown\n"
        f"os.chdir({str(tmp_path)!r})\n"
    )
    variables = {"HOME": None, "XDG_CACHE_HOME": None, "PYTHONPATH": str(_unwritable(tmp_path))}
    status, _, err = _run(homeless + LARGE, **variables)
    assert (status, "Traceback" in err) == (0, False), err
    code = homeless + "from tepid.cli.main import main; main()"
    status, _, err = _run(code, "doctor", **variables)
    assert (status, "Traceback" in err) == (0, False), err


def _unwritable(folder):
    """A copy of tepid with no place for numba's cache."""
    shutil.copytree(
        SOURCES / "tepid", folder / "tepid", ignore=shutil.ignore_patterns("__pycache__")
    )
    (folder / "tepid" / "kernels" / "compiled" / "__pycache__").write_text("no folder")
    return folder


@pytest.mark.slow
def test_long_compilation_is_announced_once(logits, tmp_path):
    pytest.importorskip("numba")
    variables = {"TEPID_KERNELS": "numba", "NUMBA_CACHE_DIR": str(tmp_path)}
    status, _, err = _tepid("fit", logits, **variables)
    assert status == 0
    assert err.count("tepid: compiling for this processor") == 1
    status, _, err = _tepid("fit", logits, **variables)
    assert (status, "compiling" in err) == (0, False)


# --- every processor, and every method


@pytest.mark.slow
@pytest.mark.parametrize("processor", processors.FEATURES)
def test_both_tiers_agree_on_every_processor(processor, tmp_path):
    pytest.importorskip("numba")
    if lacking := processors.missing(processor):
        pytest.skip(f"this machine lacks {', '.join(lacking)}")
    variables = processors.variables(processor)
    _pytest("tests/test_kernels.py", NUMBA_CACHE_DIR=str(tmp_path), **variables)


@pytest.mark.slow
def test_the_numerical_tests_pass_on_numpy_alone():
    files = ("kernels", "summaries", "methods", "metrics", "calibrate", "weights")
    _pytest(*(f"tests/test_{name}.py" for name in files), TEPID_KERNELS="numpy")


def _pytest(*files, **variables):
    environment = os.environ | {"PYTHONPATH": str(SOURCES)} | variables
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *files],
        capture_output=True, encoding="utf-8", check=False, env=environment,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
