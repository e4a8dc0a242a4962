"""The table of a campaign: benchmarks/results/fuzz.json and .md."""

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fuzz.worker import CONSTANT, DEEP, MULTIPLE, SLOW

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import record

PACKAGES = (
    "tepid", "numpy", "pyarrow", "h5py", "zarr", "safetensors", "torch", "onnx",
)  # fmt: skip
NOTE = f"""\
An execution writes one mutant to a file and reads it with tepid; one in {DEEP} also fits or
uses what was read. *Same* counts accepted files of which the format's own library reads the
same numbers; saved files, which must have the same bytes when they are saved again; and logs,
models and accuracies, which have no library to compare with. *tepid alone* counts accepted
files that the library refuses, mostly for a column that tepid does not read. A finding is a
crash, {SLOW:g} s of processor time, no progress for a minute, any exception but
`tepid.InputError`, a refusal of more than one line or 1,000 characters, numbers that differ
from those of the library, or a peak of memory above {CONSTANT >> 20} MB plus {MULTIPLE} times
the size of the file. The mutants of a format are a function of the corpus, the seed and their
number; the first are the files of the corpus.
"""
HEADER = ("format", "executions", "refused", "same", "tepid alone", "findings", "per second")


def merge(lines: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The sums of several runs by format."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        total = found.setdefault(line["format"], {"findings": []})
        for name in ("executions", "refused", "same", "alone", "seconds"):
            total[name] = total.get(name, 0) + line[name]
        total["findings"] += line["findings"]
    return found


def table(totals: dict[str, dict[str, Any]]) -> str:
    """One row per format."""
    rows = [
        (name, f"{t['executions']:,}", f"{t['refused']:,}", f"{t['same']:,}",
         f"{t['alone']:,}", _kinds(t["findings"]), f"{t['executions'] / t['seconds']:.0f}")
        for name, t in totals.items()
    ]  # fmt: skip
    return str(record.table(HEADER, rows))


def _kinds(findings: list[dict[str, Any]]) -> str:
    counted = Counter(str(finding["result"]) for finding in findings)
    return ", ".join(f"{count} × {kind}" for kind, count in counted.items()) or "0"


def write(totals: dict[str, dict[str, Any]], command: str, seed: int) -> None:
    """Write the results of a campaign."""
    about = record.circumstances(command, seed, 1, PACKAGES)
    executions = sum(total["executions"] for total in totals.values())
    wrong = sum(len(total["findings"]) for total in totals.values())
    text = (
        f"{record.preamble('Fuzzing', about)}\n{NOTE}\n{table(totals)}\n\n"
        f"{executions:,} executions, {wrong} findings.\n"
    )
    figures = {**about, "formats": totals, "executions": executions, "findings": wrong}
    record.write("fuzz", figures, text)


def read(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The runs that were recorded with `--out`."""
    return [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]
