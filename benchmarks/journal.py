"""The state file: one line of JSON for each finished case, so that a run can be taken up again."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Stamp = dict[str, Any]
Writing = Callable[[str, list[dict[str, Any]]], None]


def finished(path: Path, stamp: Stamp) -> dict[str, list[dict[str, Any]]]:
    """The rows of every case that was finished under this stamp; a torn line counts for nothing."""
    if not path.exists():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
            if entry["stamp"] == stamp:
                found[entry["case"]] = entry["rows"]
        except (ValueError, KeyError, TypeError):
            continue
    return found


@contextmanager
def writing(path: Path, stamp: Stamp) -> Iterator[Writing]:
    """A function that appends one finished case and flushes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if not _ends_in_newline(file):
            file.write(b"\n")  # what was torn stays by itself

        def write(key: str, rows: list[dict[str, Any]]) -> None:
            entry = {"stamp": stamp, "case": key, "rows": rows}
            file.write(json.dumps(entry, allow_nan=False).encode() + b"\n")
            file.flush()

        yield write


def _ends_in_newline(file: Any) -> bool:
    if not file.seek(0, 2):
        return True
    file.seek(-1, 2)
    return bool(file.read(1) == b"\n")
