"""A log of closed chunks: one line of JSON each."""

import json
import os
from pathlib import Path
from typing import Any

from tepid.errors import InputError


def append(path: str | os.PathLike[str], row: dict[str, Any]) -> None:
    """Add a row to the log, in one write."""
    with Path(path).open("ab") as file:
        file.write(json.dumps(row, allow_nan=False).encode() + b"\n")


def mend(path: str | os.PathLike[str]) -> None:
    """Cut off a last line that a killed process left without its end; refuse any other file."""
    if not Path(path).parent.is_dir():
        raise InputError(f"log must be in a folder that exists, got {path}")
    if not Path(path).exists():
        return
    read_log(path)
    with Path(path).open("r+b") as file:
        whole = file.read()
        end = whole.rfind(b"\n") + 1
        if end < len(whole) and not whole[end:].startswith(b"{"):
            raise InputError(
                f"log must be a log of chunks, got {whole[end : end + 40]!r} in {path}"
            )
        file.truncate(end)


def read_log(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The rows of a log, in order.

    A last line without its end was torn by a crash and is left out. A chunk that was closed twice,
    because the process died after its line was written and before its state was saved, counts once,
    as it was closed last.
    """
    *lines, _ = Path(path).read_bytes().split(b"\n")
    rows: dict[int, dict[str, Any]] = {}
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            rows.pop(row["chunk"], None)
            rows[row["chunk"]] = row
        except (ValueError, TypeError, KeyError, RecursionError):
            must = "hold one chunk as JSON in every line"
            raise InputError(f"{path} must {must}, got {line[:40]!r} in line {number}") from None
    return list(rows.values())
