"""Kills and faults change no temperature and leave no half-written file: a short run of them."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="it forks, and kills what it forked"),
]


def _chaos(count, before=""):
    code = f"import runpy, sys; sys.path.insert(0, {str(SCRIPTS)!r})\n{before}\n"
    code += f"sys.argv = ['chaos.py', '--count', '{count}', '--seed', '1']\n"
    code += f"runpy.run_path({str(SCRIPTS / 'chaos.py')!r}, run_name='__main__')"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_ten_kills_and_faults_do_no_harm():
    done = _chaos(10)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 wrong." in done.stdout
    for victim in ("fit", "monitor", "writer of npy"):
        assert f"| {victim}" in done.stdout


def test_the_script_sees_a_file_that_is_left_half_written():
    in_place = (
        "import contextlib, tepid.store\n"
        "@contextlib.contextmanager\n"
        "def in_place(path):\n"
        "    with open(path, 'wb') as file:\n        yield file\n"
        "tepid.store.atomic_write = in_place"
    )
    done = _chaos(30, in_place)
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
    done = _chaos(30, lenient)
    assert done.returncode == 1, done.stdout
    assert "a damaged file is refused" in done.stderr
