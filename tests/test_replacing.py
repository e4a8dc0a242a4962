"""What is written appears whole or not at all, whatever happens on the way."""

import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

from tepid import replacing as module
from tepid.replacing import replacing


@pytest.fixture(params=["as here", "without nameless files"])
def ways(request, monkeypatch):
    if request.param != "as here":
        monkeypatch.setattr(module, "_nameless", lambda _: None)


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("old", [None, b"old"])
def test_the_new_file_is_there_with_its_permissions_and_nothing_else(tmp_path, old):
    path = tmp_path / "file"
    if old is not None:
        path.write_bytes(old)
    with replacing(path) as file:
        file.write(b"new")
        assert (path.read_bytes() if path.exists() else None) == old
    assert path.read_bytes() == b"new"
    assert _names(tmp_path) == ["file"]
    (tmp_path / "other").touch()
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode
    assert stat.S_ISREG(path.stat().st_mode)


@pytest.mark.usefixtures("ways")
def test_an_error_while_writing_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), replacing(path) as file:
        file.writelines([b"half", "and no bytes"])
    assert path.read_bytes() == b"old"
    assert _names(tmp_path) == ["file"]


@pytest.mark.usefixtures("ways")
def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "file", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert _names(target.parent) == ["file"]


@pytest.mark.usefixtures("ways")
def test_of_many_who_write_at_once_one_wins_and_nothing_is_left(tmp_path):
    path = tmp_path / "file"
    contents = [bytes([65 + i]) * 10_000 for i in range(8)]

    def write(content):
        for _ in range(20):
            with replacing(path) as file:
                file.write(content)

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert path.read_bytes() in contents
    assert _names(tmp_path) == ["file"]


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are Linux's")
def test_a_killed_writer_leaves_nothing_behind(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    code = (
        "import os, signal, sys; from tepid.replacing import replacing\n"
        "with replacing(sys.argv[1]) as file:\n"
        "    file.write(b'half' * 100_000); file.flush(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    if _known(tmp_path):
        assert _names(tmp_path) == ["file"]


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are Linux's")
def test_a_writer_killed_before_the_last_step_leaves_a_whole_file_to_the_next(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    code = (
        "import os, pathlib, signal, sys; from tepid.replacing import replacing\n"
        "pathlib.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "with replacing(sys.argv[1]) as file: file.write(b'new')"
    )
    if not _known(tmp_path):
        pytest.skip("the file system has no files without a name")
    subprocess.run([sys.executable, "-c", code, path], check=False)
    assert path.read_bytes() == b"old"
    (left,) = set(tmp_path.iterdir()) - {path}
    assert left.name.startswith(".file.")
    assert left.read_bytes() == b"new"
    with replacing(path) as file:
        file.write(b"newer")
    assert path.read_bytes() == b"newer"
    assert _names(tmp_path) == ["file"]


def _known(folder):
    """Whether the file system of a folder has files without a name."""
    found = module._nameless(folder)
    if found is not None:
        os.close(found)
    return found is not None


def _names(folder):
    return [path.name for path in folder.iterdir()]
