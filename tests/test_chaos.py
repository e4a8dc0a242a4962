"""Kills and faults change no temperature and leave no half-written file: short runs of chaos.py."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from tepid.cli.app import app
from tests.needs import needed

SCRIPTS = Path(__file__).parents[1] / "scripts"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="it forks, and kills what it forked"),
]


LOCAL = ("fit", "monitor", "writers")


def _chaos(count, *only, before=""):
    code = f"import runpy, sys; sys.path.insert(0, {str(SCRIPTS)!r})\n{before}\n"
    words = ["chaos.py", "--count", str(count), "--seed", "1", "--only", *only]
    code += f"sys.argv = {words!r}\n"
    code += f"runpy.run_path({str(SCRIPTS / 'chaos.py')!r}, run_name='__main__')"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_ten_kills_and_faults_do_no_harm():
    done = _chaos(10, *LOCAL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed." in done.stdout
    for target in ("fit", "monitor", "tepid fit calibration.json"):
        assert f"| {target} " in done.stdout


def test_a_training_that_is_killed_resumes():
    needed("torch")
    done = _chaos(2, "training")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| training " in done.stdout


def test_a_dask_cluster_that_loses_processes_does_no_harm():
    needed("distributed")
    done = _chaos(1, "dask")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| Dask: worker" in done.stdout


def test_a_spark_session_that_loses_processes_does_no_harm():
    needed("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    done = _chaos(1, "spark")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| Spark: Python worker" in done.stdout


def _commands_that_write(command, name=""):
    if isinstance(command, typer.core.TyperGroup):
        for word, inner in command.commands.items():
            yield from _commands_that_write(inner, f"{name} {word}".strip())
    elif any("-o" in option.opts for option in command.params):
        yield name


def test_every_command_that_writes_is_killed(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    writers = importlib.import_module("faults.writers")
    killed = {name.rpartition(" ")[0] for name in writers.COMMANDS} | set(writers.ELSEWHERE)
    assert set(_commands_that_write(typer.main.get_command(app))) <= killed


def test_the_script_sees_a_file_that_is_left_half_written():
    in_place = (
        "import contextlib, tepid.store\n"
        "@contextlib.contextmanager\n"
        "def in_place(path):\n"
        "    with open(path, 'wb') as file:\n        yield file\n"
        "tepid.store.atomic_write = in_place"
    )
    done = _chaos(30, "monitor", "writers", before=in_place)
    assert done.returncode == 1, done.stdout
    assert "the file is the old or the new one, whole" in done.stderr, done.stderr
    assert "the saved state can be loaded" in done.stderr


def test_the_script_sees_a_fit_that_leaves_damaged_files_out():
    lenient = (
        "import tepid\n"
        "fit = tepid.uts\n"
        "def lenient(logits, **options):\n"
        "    try:\n        return fit(logits, **options)\n"
        "    except tepid.InputError:\n        return fit(logits[-1:], **options)\n"
        "tepid.uts = lenient"
    )
    done = _chaos(30, "fit", before=lenient)
    assert done.returncode == 1, done.stdout
    assert "a damaged file is refused" in done.stderr
