"""The terminal: greeting, help, doctor, progress, Ctrl-C, completion and pictures of text."""

import contextlib
import importlib.metadata
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import tepid
from tepid.cli import app, diagram, output, progress, standings

VERSION = importlib.metadata.version("tepid")
VERBS = [c.name or c.callback.__name__ for c in app.app.registered_commands]
# Ctrl-C is ignored by what runs in the background, and its children; this gives it back.
PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from tepid.cli.start import main; main()"
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
    assert commands == ["demo", "advise", "fit"]
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "Options" not in done.stdout


def test_greeting_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['tepid']\n"
        "from tepid.cli.start import main\n"
        "try:\n    main()\n"
        "finally:\n    assert not {'numpy', 'numba', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example_and_speaks_json(verb, tepid_here):
    code, out, _ = tepid_here(verb, "--help")
    assert code == 0
    assert f"Example: tepid {verb}" in out
    assert "--json" in out


def test_an_unknown_verb_is_a_mistake_and_not_a_greeting(tepid_here):
    code, out, err = tepid_here("fitt")
    assert (code, out) == (2, "")
    assert "No such command 'fitt'" in err


# --- doctor


def test_the_doctor_knows_every_version_and_where_the_kernels_are(tepid_here):
    code, out, err = tepid_here("doctor", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["tepid"] == VERSION
    assert found["python"] == sys.version.split()[0]
    for name, version in found["needed"].items():
        assert version == importlib.metadata.version(name)
    assert found["threads"]["count"] == tepid.Threads().threads
    tepid.Tails.of([[1.0, 0.0]])  # compiles it, or reads it
    kernels = json.loads(tepid_here("doctor", "--json")[1])["kernels"]
    if kernels["writable"]:
        assert list(Path(kernels["cache"]).glob("tails.tail_sums-*.nbi"))
        assert kernels["compiled"] >= 1


def test_the_doctor_says_how_to_get_what_is_missing(tepid_here, monkeypatch):
    real = importlib.metadata.version

    def version(name):
        if name in ("torch", "pyarrow"):
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    wanted = ["torch>=2.2; extra == 'bench'", "torch>=2.2; extra == 'torch'", "numpy>=1.26"]
    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: wanted)
    _, out, _ = tepid_here("doctor")
    assert re.search(r"torch +not there; pip install 'tepid\[torch\]'", out)
    assert re.search(r"pyarrow +not there; pip install pyarrow", out)
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


def test_the_doctor_says_that_nothing_can_be_cached(tepid_here, monkeypatch):
    class Uncached:
        class stats:  # noqa: N801  # as numba calls it
            cache_path = None

    tepid.Tails.of([[1.0, 0.0]])
    monkeypatch.setattr(sys.modules["tepid.kernels.tails"], "tail_sums", Uncached)
    found = json.loads(tepid_here("doctor", "--json")[1])["kernels"]
    assert (found["cache"], found["writable"], found["compiled"]) == (None, False, 0)
    assert "NUMBA_CACHE_DIR" in found["problem"]


# --- progress


class _Screen(io.StringIO):
    def isatty(self):
        return True


def _drawn(monkeypatch, patience, seconds, *reports):
    """What the progress draws of some reports with a rest after each."""
    screen = _Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "_PATIENCE", patience)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with output.working(1) as engine:
        for report in reports:
            engine.progress(*report)
            time.sleep(seconds)
    return screen.getvalue()


def test_short_work_draws_nothing(monkeypatch):
    assert _drawn(monkeypatch, 30, 0, ("reading", 1, 2), ("reading", 2, 2)) == ""


def test_long_work_draws_its_stage_rate_and_time_left(monkeypatch):
    steps = [("reading", done, 1000) for done in range(50, 350, 50)]
    drawn = _drawn(monkeypatch, 0, 0.1, *steps)
    assert "reading" in drawn
    assert re.search(r"[1-9]\d*/s", drawn)
    assert re.search(r"0:00:\d\d", drawn)
    assert drawn.rstrip().endswith("\x1b[2K")  # and wipes it away


def test_work_that_has_not_reported_yet_is_said_to_be_prepared(monkeypatch):
    screen = _Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    monkeypatch.setenv("TERM", "xterm")
    with output.working(1):
        time.sleep(0.3)
    assert "preparing" in screen.getvalue()


def test_a_stage_that_begins_again_is_one_line(monkeypatch):
    drawn = _drawn(monkeypatch, 0, 0.15, ("judging", 9, 10), ("judging", 2, 10), ("judging", 4, 10))
    lines = [line for line in re.split(r"[\r\n]", drawn) if "judging" in line]
    assert "40%" in lines[-1]
    assert not [line for line in lines if line.count("judging") > 1]


def test_an_error_takes_the_bar_away(monkeypatch):
    screen = _Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    monkeypatch.setenv("TERM", "xterm")

    def failing():
        with output.working(1):
            time.sleep(0.2)
            raise tepid.InputError("no")

    with pytest.raises(tepid.InputError, match=r"^no$"):
        failing()
    assert "\x1b[?25h" in screen.getvalue()  # the cursor is back


@pytest.mark.parametrize("rows", [1, 20_000])
def test_the_progress_of_a_csv_file_never_guesses_the_number_of_rows(rows, tmp_path, rng):
    path = tmp_path / "z.csv"
    np.savetxt(path, rng.normal(size=(rows, 3)), fmt="%.3f", delimiter=",")
    reports = []
    engine = tepid.Threads(1, lambda *report: reports.append(report))
    assert tepid.from_accuracy(path, 0.5, engine=engine).samples == rows
    assert max(done for _, done, _ in reports) == rows
    assert reports[0][2] is None  # nobody has counted them yet
    assert {total for _, _, total in reports} <= {None, rows}


def test_apply_reports_how_far_it_is(tmp_path, tepid_here, monkeypatch):
    np.save(tmp_path / "z.npy", np.eye(3, dtype=np.float32))
    calibration = tepid.Temperature(2.0, "made", samples=3, classes=3, implied_accuracy=0.5)
    calibration.save(tmp_path / "cal.json")
    reports = []
    monkeypatch.setattr(
        "tepid.cli.progress._reporter", lambda _: lambda *report: reports.append(report)
    )
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    code, _, _ = tepid_here(
        "apply", tmp_path / "cal.json", tmp_path / "z.npy", "-o", tmp_path / "p.npy"
    )
    assert code == 0
    assert reports == [("applying", 3, 3)]


# --- Ctrl-C


@pytest.mark.slow
def test_ctrl_c_stops_a_fit_with_a_sentence_and_keeps_the_old_file(vast, terminal):
    old = vast.with_name("cal.json")
    old.write_text("old")
    child, screen = terminal("fit", vast, "-o", old)
    drawn = _until(screen, r"\d/s")  # in the middle of the first pass
    assert "reading" in drawn
    child.send_signal(signal.SIGINT)
    said = _until(screen)
    assert child.wait(30) == 130
    assert said.replace("\r", "").endswith(f"{SAID}\n")
    assert "Traceback" not in said
    assert child.stdout.read() == b""
    assert old.read_text() == "old"
    assert sorted(p.name for p in vast.parent.iterdir()) == ["cal.json", "vast.npy"]


def _written(child, folder):
    """Whether a process has begun to write into a folder: under a hidden name, or under none."""
    if any(path.stat().st_size for path in folder.glob(".p.csv.*")):
        return True
    for file in Path(f"/proc/{child.pid}/fd").glob("*"):
        with contextlib.suppress(OSError):  # closed by now
            place = str(file.readlink())
            nameless = place.startswith(str(folder)) and place.endswith("(deleted)")
            if nameless and file.stat().st_size:
                return True
    return False


@pytest.mark.slow
def test_ctrl_c_leaves_no_temporary_file(vast):
    calibration = vast.with_name("cal.json")
    tepid.Temperature(2.0, "made", samples=3, classes=1000, implied_accuracy=0.5).save(calibration)
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "apply", calibration, vast, "-o", vast.with_name("p.csv")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    while child.poll() is None and not _written(child, vast.parent):
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err) == (130, "", f"{SAID}\n")
    assert sorted(p.name for p in vast.parent.iterdir()) == ["cal.json", "vast.npy"]


def test_where_ctrl_c_is_ignored_it_stays_so():
    code = (
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from tepid.cli.stopping import stoppable\n"
        "with stoppable():\n    os.kill(os.getpid(), signal.SIGINT); print('went on')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, [b"went", b"on"])


def test_ctrl_c_while_the_command_is_still_loading_is_a_sentence_too():
    code = PROGRAM.replace(
        "from tepid.cli.start",
        "import os, sys\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "from tepid.cli.start",
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
    assert set(_completed("tepid", "d")) == {"demo", "doctor"}
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


# --- the diagram


def _text_of(table, width=80, **environment):
    screen = io.StringIO()
    environment = {"TERM": "xterm"} | environment
    Console(file=screen, width=width, force_terminal=True, _environ=environment).print(table)
    return screen.getvalue()


@pytest.fixture
def scored(network):
    z, y = network
    return {
        name: 1000 * tepid.Reliability.of_logits(z, y, temperature=t)
        for name, t in (("before", 1.0), ("after", 2.0))
    }


def test_the_diagram_of_millions_of_rows_fits_and_lines_up_in_80_columns(scored):
    text = re.sub(r"\x1b\[\d*m", "", _text_of(diagram.side_by_side(scored)))
    title, head, *rows = text.rstrip("\n").split("\n")
    assert re.search(r" [1-9]\d{6}\b", text)
    assert {len(line) for line in rows} == {len(head)} == {len(title)}
    assert len(head) <= 80
    assert len(rows) == sum(scored["before"].count + scored["after"].count > 0)
    for line in rows:
        before = line[head.index("before") :][:20]
        assert set(before) <= set("█·◆ ")


def test_a_comparison_of_every_method_fits_in_80_columns(network):
    z, y = network[0][:600], network[1][:600]
    result = tepid.protocol.compare(z, y, methods="all", others=[z], source=(z, y), splits=3)
    assert len(result["methods"]) > 12
    lines = re.sub(r"\x1b\[\d*m", "", _text_of(standings.table(result), width=120)).splitlines()
    assert len(lines) == len(result["methods"]) + 1
    assert max(len(line.rstrip()) for line in lines) <= 80


def test_without_colour_the_diagram_has_none_and_still_marks_what_is_apart(scored):
    text = _text_of(diagram.side_by_side(scored), NO_COLOR="1")
    assert not re.findall(r"\x1b\[3[1-7]m", text)
    assert re.findall(r"\x1b\[3[16]m", _text_of(diagram.side_by_side(scored)))
    gaps = [
        abs(b.accuracy - b.confidence) > 0.1 for r in scored.values() for b in tepid.plots.bins(r)
    ]
    assert text.count("!") == sum(gaps) + 1  # and once in the title
    assert 0 < sum(gaps) < len(gaps)
