"""Entry point of the `tepid` command: Ctrl-C, closed streams, and errors as one sentence.

Only the standard library is imported at the top, so that Ctrl-C is handled while the rest loads.
"""

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

_INTERRUPTED = 128 + 2  # the exit code by which a shell reports SIGINT


def main() -> None:
    """Run the command in `sys.argv`; Ctrl-C ends it with one sentence and exit code 130."""
    with handle_interrupts():
        run()


def run() -> None:
    """Run the command in `sys.argv`; bad input ends it with one sentence and exit code 2."""
    from tepid.cli.app import app  # noqa: PLC0415  # loading it takes time; see above
    from tepid.errors import InputError, one_line  # noqa: PLC0415  # the same

    _repair_streams()
    try:
        app(prog_name="tepid")
    except InputError as error:
        _fail(str(error))
    except MemoryError:
        _fail("the command needs more memory than there is")
    except RecursionError:
        _fail("folders and values must not be nested this deep, got more levels than Python allows")
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        _fail(one_line((error.strerror or str(error)) + place))


def _fail(sentence: str) -> NoReturn:
    sys.stderr.write(f"tepid: {sentence}\n")
    sys.exit(2)


def _repair_streams() -> None:
    """Open a closed stdout or stderr on os.devnull; replace characters that one cannot encode."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115  # until the process ends
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


class _Interrupted(BaseException):
    """Ctrl-C; typer would turn a KeyboardInterrupt into an exit code without the sentence."""


@contextlib.contextmanager
def handle_interrupts() -> Iterator[None]:
    """On Ctrl-C, unwind the work inside, which removes temporary files, and end the process.

    Nothing changes where SIGINT is ignored or handled already, as for a job in the background.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    except _Interrupted:
        _exit_interrupted()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(*_: object) -> NoReturn:
    raise _Interrupted


def _exit_interrupted() -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.write(
            "tepid: stopped; no file was left half written, and those that were there are kept\n"
        )
        sys.stderr.flush()
    # Threads may still be in a batch or compiling, and an ordinary exit would wait for them.
    os._exit(_INTERRUPTED)
