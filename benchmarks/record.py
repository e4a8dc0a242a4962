"""Where figures go: a table to read, and JSON with all that is needed to read it years later."""

import datetime
import json
import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def circumstances(command: str, seed: int, threads: int, packages: Iterable[str]) -> dict[str, Any]:
    """What a figure depends on besides the code."""
    return {
        "command": command,
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "seed": seed,
        "threads": threads,
        "processor": _processor(),
        "processors": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in packages},
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table, padded so that it also reads well in a terminal."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    padded = [[c.ljust(w) for c, w in zip(row, widths, strict=True)] for row in cells]
    padded.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(row)} |" for row in padded)


def preamble(title: str, about: dict[str, Any]) -> str:
    """The head of a Markdown file: how these figures came about."""
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    return (
        f"# {title}\n\n"
        f"`{about['command']}`, seed {about['seed']}, {about['date']}, {about['threads']} threads "
        f"on {about['processor']} ({about['processors']} processors, load {about['load_before']} "
        f"before the run). {versions}.\n"
    )


def write(name: str, figures: dict[str, Any], text: str, folder: Path = RESULTS) -> None:
    """Write `name.json` and `name.md` into the folder of results."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {**figures, "load_after": round(os.getloadavg()[0], 2)}
    content = json.dumps(figures, indent=2, ensure_ascii=False) + "\n"
    (folder / f"{name}.json").write_text(content, encoding="utf-8")
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
