"""Ctrl-C: one sentence, exit code 130, and no file that is half written."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn

CODE = 128 + 2  # what a shell says of a command that SIGINT ended


class Stopped(BaseException):
    """Ctrl-C; a KeyboardInterrupt would be turned into an exit code before the sentence is said."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Let Ctrl-C unwind the work inside, so that temporary files go, and end the process.

    Where Ctrl-C is ignored or belongs to someone else, as for a job in the background, it stays so.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _stop)
    try:
        yield
    except Stopped:
        _end()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop(*_: object) -> NoReturn:
    raise Stopped


def _end() -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.write(
            "tepid: stopped; no file was left half written, and those that were there are kept\n"
        )
        sys.stderr.flush()
    # Threads may still be in a batch or compiling, and an ordinary exit would wait for them.
    os._exit(CODE)
