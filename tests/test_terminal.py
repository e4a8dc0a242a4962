"""The terminal: greeting, help, doctor, progress, Ctrl-C, completion and diagrams."""

import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import typer.main

import tepid
from tepid.cli.app import app

VERSION = importlib.metadata.version("tepid")
COMMANDS = [n for n, c in typer.main.get_command(app).commands.items() if n != "lab"]
# Ctrl-C is ignored by what runs in the background, and its children; this gives it back.
PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from tepid.cli.main import main; main()"
)
SAID = "tepid: stopped; no file was left half written, and those that were there are kept"


def _spawn(*args, **environment):
    return subprocess.run(
        [sys.executable, "-m", "tepid", *map(str, args)],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"} | environment,
        check=False,
    )


@pytest.fixture
def vast(tmp_path):
    """Logits of 80 GB that take no room on the disk, so that reading them takes a while."""
    pytest.importorskip("pty", reason="files with holes and signals are those of POSIX")
    path = tmp_path / "vast.npy"
    header = {"descr": "<f4", "fortran_order": False, "shape": (20_000_000, 1000)}
    try:
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + 4 * 20_000_000 * 1000)
    except OSError:
        pytest.skip("the disk has no files with holes")
    if path.stat().st_blocks > 1000:
        pytest.skip("the disk has no files with holes")
    yield path
    path.unlink()


@pytest.fixture
def terminal():
    """Run `tepid` with its stderr on a terminal of 80 columns: (process, read all it said)."""
    pty = pytest.importorskip("pty")
    termios = pytest.importorskip("termios")
    children, masters = [], []

    def run(*args, **environment):
        master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 80))
        environment = {"TERM": "xterm", "NO_COLOR": "1"} | environment
        child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=slave,
            env={k: v for k, v in os.environ.items() if k != "COLUMNS"} | environment,
        )
        os.close(slave)
        children.append(child)
        masters.append(master)
        return child, master

    yield run
    for child, master in zip(children, masters, strict=True):
        child.kill()
        child.communicate()
        os.close(master)


def _until(master, wanted=None):
    """What a terminal says until it has said something, or until it is closed."""
    said = b""
    while wanted is None or not re.search(wanted, said.decode("utf-8", "replace")):
        try:
            more = os.read(master, 1 << 16)
        except OSError:  # Linux's word for the end
            more = b""
        if not more:
            break
        said += more
    return said.decode("utf-8", "replace")


# --- greeting and help


def test_tepid_alone_greets_and_shows_three_commands():
    done = _spawn()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"tepid {VERSION}: ")
    commands = re.findall(r"^  tepid (\w+)", done.stdout, re.MULTILINE)
    assert commands == ["demo", "fit", "ask"]
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "Options" not in done.stdout


def test_greeting_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['tepid']\n"
        "from tepid.cli.main import main\n"
        "try:\n    main()\n"
        "finally:\n    assert not {'numpy', 'numba', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_prints_json(command, tepid_here):
    code, out, _ = tepid_here(command, "--help")
    assert code == 0
    assert f"Example: tepid {command}" in out
    assert "--json" in out


def test_an_unknown_verb_is_a_mistake_and_not_a_greeting(tepid_here):
    code, out, err = tepid_here("fitt")
    assert (code, out) == (2, "")
    assert "No such command 'fitt'" in err


# --- doctor


def test_the_doctor_knows_every_version(tepid_here):
    code, out, err = tepid_here("doctor", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["tepid"] == VERSION
    assert found["python"] == sys.version.split()[0]
    for name, version in found["needed"].items():
        assert version == importlib.metadata.version(name)
    assert found["threads"]["count"] == tepid.Threads().threads


def test_the_doctor_finds_the_compiled_kernels(tepid_here):
    pytest.importorskip("numba", reason="numba compiles the kernels")
    tepid.summaries.Tails.of([[1.0, 0.0]])  # compiles it, or reads it
    kernels = json.loads(tepid_here("doctor", "--json")[1])["kernels"]
    if kernels["writable"]:
        assert list(Path(kernels["cache"]).glob("*.nbi"))
        assert kernels["compiled"] >= 1


def test_the_doctor_says_how_to_get_what_is_missing(tepid_here, monkeypatch):
    real = importlib.metadata.version

    def version(name):
        if name in ("torch", "pyarrow"):
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    wanted = ["numpy>=1.26", "torch>=2.2; extra == 'bench'", "torch>=2.2; extra == 'lab'"]
    wanted += ["scipy>=1.13; extra == 'lab'", "torch>=2.2; extra == 'torch'"]
    wanted += ["pyarrow>=15; extra == 'parquet'"]
    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: wanted)
    _, out, _ = tepid_here("doctor")
    assert re.search(r"torch +not there; pip install 'tepid\[torch\]'", out)
    assert re.search(r"pyarrow +not there; pip install 'tepid\[parquet\]'", out)
    optional = json.loads(tepid_here("doctor", "--json")[1])["optional"]
    assert optional["torch"] == {"version": None, "install": "pip install 'tepid[torch]'"}


def test_the_doctor_looks_at_the_threads_that_were_asked_for(tepid_here, monkeypatch):
    monkeypatch.setenv("TEPID_THREADS", "3")
    threads = json.loads(tepid_here("doctor", "--json")[1])["threads"]
    assert threads == {"count": 3, "TEPID_THREADS": "3", "problem": None}
    monkeypatch.setenv("TEPID_THREADS", "many")
    code, out, _ = tepid_here("doctor")
    assert code == 0
    assert "TEPID_THREADS must be a whole number in 1 to 256, got 'many'" in out


@pytest.mark.slow
def test_the_doctor_finds_kernels_where_numba_was_told_to_keep_them(tmp_path):
    done = _spawn("doctor", "--json", NUMBA_CACHE_DIR=str(tmp_path))
    kernels = json.loads(done.stdout)["kernels"]
    assert kernels["cache"].startswith(str(tmp_path))
    assert (kernels["writable"], kernels["compiled"]) == (True, 0)


# --- progress


@pytest.mark.slow
def test_long_work_draws_its_stage_rate_and_time_left(vast, terminal):
    _, screen = terminal("fit", vast)
    drawn = _until(screen, r"summing .* \d[\d,]*/s +\d+:\d\d:\d\d")
    assert re.search(r"[1-9][\d,]*/s", drawn)


@pytest.mark.slow
def test_an_error_takes_the_progress_away(vast, terminal):
    z = np.load(vast, mmap_mode="r+")
    z[2_000_000, 7] = np.nan
    z.flush()
    child, screen = terminal("fit", vast)
    drawn = _until(screen)
    assert child.wait(30) == 2
    assert "summing" in drawn
    said = "tepid: vast.npy must be finite, or -inf for a masked class, got nan for class 7"
    assert re.split(r"[\r\n]+|\x1b\[\S*?[A-Za-z]", drawn.rstrip())[-1].startswith(said)


def test_without_a_terminal_no_progress_is_drawn(tmp_path):
    np.save(tmp_path / "z.npy", 2 * np.eye(3, dtype=np.float32))
    done = _spawn("fit", tmp_path / "z.npy", "--accuracy", "0.5", "--json")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_comparison_counts_its_splits_one_at_a_time(network):
    reports, busy = [], threading.Lock()

    def progress(*report):
        assert busy.acquire(blocking=False), "two threads report at once"
        time.sleep(0.01)  # time enough for another thread to come in between
        reports.append(report)
        busy.release()

    z, y = (column[:200] for column in network)
    engine = tepid.Threads(8, progress)
    tepid.comparison.compare(z, y, methods=["uncalibrated"], splits=40, engine=engine)
    assert reports == [("comparing", done, 40) for done in range(1, 41)]


@pytest.mark.parametrize("rows", [1, 20_000])
def test_the_progress_of_a_csv_file_never_guesses_the_number_of_rows(rows, tmp_path, rng):
    path = tmp_path / "z.csv"
    np.savetxt(path, rng.normal(size=(rows, 3)), fmt="%.3f", delimiter=",")
    reports = []
    engine = tepid.Threads(1, lambda *report: reports.append(report))
    assert tepid.match_accuracy(path, 0.5, engine=engine).samples == rows
    assert max(done for _, done, _ in reports) == rows
    assert reports[0][2] is None  # nobody has counted them yet
    assert {total for _, _, total in reports} <= {None, rows}


# --- Ctrl-C


@pytest.mark.slow
def test_ctrl_c_stops_a_fit_with_a_sentence_and_keeps_the_old_file(vast, terminal):
    old = vast.with_name("cal.json")
    old.write_text("old")
    child, screen = terminal("fit", vast, "-o", old)
    drawn = _until(screen, r"\d/s")  # in the middle of the first pass
    assert "summing" in drawn
    child.send_signal(signal.SIGINT)
    said = _until(screen)
    assert child.wait(30) == 130
    assert said.replace("\r", "").endswith(f"{SAID}\n")
    assert "Traceback" not in said
    assert child.stdout.read() == b""
    assert old.read_text() == "old"
    assert sorted(p.name for p in vast.parent.iterdir()) == ["cal.json", "vast.npy"]


@pytest.mark.slow
def test_ctrl_c_leaves_no_temporary_file(vast, terminal):
    calibration = vast.with_name("cal.json")
    tepid.Temperature(2.0, "made", samples=3, classes=1000, implied_accuracy=0.5).save(calibration)
    child, screen = terminal("apply", calibration, vast, "-o", vast.with_name("p.csv"))
    _until(screen, r"applying .* \d[\d,]*/s")  # some rows are written
    child.send_signal(signal.SIGINT)
    said = _until(screen)
    assert child.wait(30) == 130
    assert said.replace("\r", "").endswith(f"{SAID}\n")
    assert child.stdout.read() == b""
    assert sorted(p.name for p in vast.parent.iterdir()) == ["cal.json", "vast.npy"]


def test_where_ctrl_c_is_ignored_it_stays_so():
    code = (
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from tepid.cli.main import handle_interrupts\n"
        "with handle_interrupts():\n    os.kill(os.getpid(), signal.SIGINT); print('went on')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, [b"went", b"on"])


def test_ctrl_c_while_the_command_is_still_loading_is_a_sentence_too():
    code = PROGRAM.replace(
        "from tepid.cli.main",
        "import os, sys\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "from tepid.cli.main",
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"{SAID}\n")


# --- completion


def _completed(*words):
    done = _spawn(
        _TEPID_COMPLETE="complete_bash",
        COMP_WORDS=" ".join(words),
        COMP_CWORD=str(len(words) - 1),
    )
    return done.stdout.split()


def test_bash_completes_verbs_and_options():
    assert _completed("tepid", "fi") == ["fit"]
    assert set(_completed("tepid", "d")) == {"decide", "demo", "doctor"}
    assert _completed("tepid", "fit", "--acc") == ["--accuracy"]


@pytest.mark.slow
def test_files_are_left_to_the_shell_to_complete():
    script = _spawn(_TEPID_COMPLETE="source_bash").stdout
    assert "complete -o default -F _tepid_completion tepid" in script
    assert _completed("tepid", "fit", "logits.n") == []


def test_help_says_how_to_have_completion(tepid_here):
    out = tepid_here("--help")[1]
    assert "--install-completion" in out
    assert "--show-completion" in out
    assert "Tab completes commands and options" in out


# --- tables and diagrams


@pytest.fixture
def scored(network, tmp_path):
    """Files of a made-up network whose right temperature is 2, and the calibration."""
    z, y = network
    np.savez(tmp_path / "z.npz", logits=z, labels=y)
    t = tepid.Temperature(2.0, "made", samples=9, classes=z.shape[1], implied_accuracy=0.5)
    t.save(tmp_path / "cal.json")
    found = [tepid.summaries.Reliability.of_logits(z, y, temperature=t) for t in (1.0, 2.0)]
    return tmp_path / "z.npz", tmp_path / "cal.json", found


def test_the_diagram_lines_up_in_80_columns_and_marks_what_is_apart(scored, tepid_here):
    file, calibration, found = scored
    code, out, _ = tepid_here("score", file, "-c", calibration, "--draws", "0")
    assert code == 0
    title, head, *rows = out[out.index("reliability (") :].rstrip("\n").split("\n")
    assert {len(line) for line in rows} == {len(head)}
    assert max(len(head), len(title.rstrip())) <= 80
    assert len(rows) == sum(found[0].count + found[1].count > 0)
    for line in rows:
        assert set(line[head.index("before") :][:20]) <= set("█·◆ ")
    filled = [r.count > 0 for r in found]
    gaps = np.concatenate([
        abs((r.correct - r.confidence)[there] / r.count[there]) > 0.1
        for r, there in zip(found, filled, strict=True)
    ])  # fmt: skip
    assert "".join(rows).count("!") == gaps.sum()
    assert 0 < gaps.sum() < len(gaps)


@pytest.mark.slow
def test_a_comparison_of_every_method_fits_in_80_columns(scored, tepid_here):
    file = scored[0]
    line = ("compare", file, "--methods", "all", "--models", file, "--source", file)
    code, out, _ = tepid_here(*line, "--splits", "3", "--fraction", "0.1")
    assert code == 0
    rows = [line for line in out.splitlines() if "±" in line][1:]  # the first is the title
    assert len(rows) > 12
    assert max(len(line.rstrip()) for line in rows) <= 80
