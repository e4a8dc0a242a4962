"""A short run of the fuzzer: the corpus, with every input that ever failed, and some mutants."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import guided
from fuzz.__main__ import run_format

from tests.needs import needed

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "fuzz" / "corpus"
CHEAP = ("npy",)
PACKAGES = {
    "parquet": "pyarrow", "arrow": "pyarrow", "feather": "pyarrow", "hdf5": "h5py", "zarr": "zarr",
    "safetensors": "safetensors", "pt": "torch", "onnx": "onnx",
}  # fmt: skip
FORMATS = sorted(path.name for path in CORPUS.iterdir())

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="measures memory through /proc")


def _fuzz(name, count, tmp_path):
    command = [sys.executable, "-m", "fuzz", name, "--count", str(count), "--seed", "7"]
    done = subprocess.run(
        [*command, "--findings", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{name}: {count} executions, 0 findings" in done.stdout


@pytest.mark.parametrize("name", CHEAP)
def test_damaged_files_are_refused_or_read_as_their_library_does(name, tmp_path):
    _fuzz(name, 200, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_of_every_format(name, tmp_path):
    if name in PACKAGES:
        needed(PACKAGES[name])
    _fuzz(name, 300, tmp_path)


def test_every_format_has_sound_files_in_the_corpus_and_all_are_small():
    for name in FORMATS:
        files = list((CORPUS / name).iterdir())
        assert any(path.name.startswith("seed-") for path in files)
        assert all(path.name.startswith(("seed-", "made-", "found-")) for path in files)
        assert max(path.stat().st_size for path in files) < 40_000


@pytest.mark.slow
def test_the_fuzzer_finds_crashes_raw_exceptions_other_numbers_and_memory():
    """No finding must not mean that nothing can be found."""
    broken = str(Path(__file__).with_name("fuzz_broken.py"))
    tally = run_format("npy", 7, 0, 100, worker=(broken,))
    assert tally.executions == 100
    found = {finding["result"] for finding in tally.findings}
    assert found == {"SIGSEGV", "raised", "differs", "memory"}
    assert tally.same + len(tally.findings) == 100


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="atheris is not built for it")
@pytest.mark.parametrize("name", ["npy", "temperature"])
def test_fuzzing_guided_by_coverage_reaches_new_code_and_finds_nothing(name, tmp_path):
    needed("atheris")
    found, executions, first, last, finding = guided.run(name, 500, 7, tmp_path)
    assert (found, executions, finding) == (name, 500, "")
    assert last > first > 50


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="atheris is not built for it")
def test_fuzzing_guided_by_coverage_keeps_the_input_of_its_finding(tmp_path):
    needed("atheris")
    broken = (str(Path(__file__).with_name("fuzz_broken.py")),)
    *_, finding = guided.run("npy", 500, 7, tmp_path, broken)
    assert finding
    assert [path.name.startswith("npy-") for path in tmp_path.iterdir()] == [True]
