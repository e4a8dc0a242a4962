"""`tepid apply` over many files: one file of probabilities for each, several at a time."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import tepid
from tepid.cli import output

FORMS = ("npy", "csv", "parquet")


def is_folder(out: Path) -> bool:
    """Whether an output is a folder of files rather than one: there is one, or it has no ending."""
    return out.is_dir() or not out.suffix


def targets(out: Path, logits: list[str], form: str | None, others: list[str]) -> list[Path]:
    """The file to write for each one that is read, under its name in the folder `out`."""
    if form is not None and form not in FORMS:
        raise tepid.InputError(f"--format must be one of {', '.join(FORMS)}, got {form}")
    if not out.parent.is_dir():
        raise tepid.InputError(f"output must be in a folder that exists, got {out}")
    paths = tepid.sources.paths
    found = paths.expand(logits, "logits file")
    names = [_named(name, form) for name in paths.short_names(found)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise tepid.InputError(f"files must have names of their own, got two that make {twice}")
    wanted = [out / name for name in names]
    for target, path in zip(wanted, found, strict=True):
        if not target.resolve().is_relative_to(out.resolve()):
            raise tepid.InputError(
                f"output must stay in {out}, got {target}, which leads elsewhere"
            )
        if target.exists() and any(output.is_file_of(given, target) for given in (path, *others)):
            raise tepid.InputError(f"output must not be one of the inputs, got {target}")
    return wanted


def _named(name: str, form: str | None) -> str:
    """The name with the ending of its new form, by default that of a table as it was."""
    paths = tepid.sources.paths
    ending = paths.suffix(name)
    usual = {".csv": "csv", ".parquet": "parquet"}
    own = "parquet" if ending in paths.ARROW else usual.get(ending[:4], "npy")
    return f"{name[: len(name) - len(ending)]}.{form or own}"


def apply_each(
    calibrator: Any, source: "tepid.sources.Source", wanted: list[Path], engine: "tepid.Threads"
) -> int:
    """Write the probabilities of every file to its own file, and count the rows."""
    files = source.files()
    done = _Done(engine, source.rows)
    with ThreadPoolExecutor(min(engine.threads, len(files))) as pool:
        write = partial(_written, calibrator, done=done)
        try:
            return sum(pool.map(write, files, wanted))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


class _Done:
    """How many rows have been written, by whichever thread."""

    def __init__(self, engine: "tepid.Threads", expected: int | None) -> None:
        self.engine, self.expected, self.rows = engine, expected, 0
        self.lock = threading.Lock()

    def add(self, rows: int) -> None:
        with self.lock:
            self.rows += rows
            if self.engine.progress:
                self.engine.progress("applying", self.rows, self.expected)


def _written(calibrator: Any, source: "tepid.sources.Source", target: Path, done: _Done) -> int:
    target.parent.mkdir(parents=True, exist_ok=True)
    blocks = calibrated(calibrator, source, done.add)
    return tepid.sources.write_batches(target, blocks, classes=calibrator.classes)


def calibrated(
    calibrator: Any, source: "tepid.sources.Source", tell: Any, *, allow_empty: bool = True
) -> Iterator[Any]:
    """The probabilities of each batch; `tell` hears how many rows each had once it is written."""
    rows = tepid.shapes.rows_per_block(calibrator.classes)
    for batch in source.batches(rows, allow_empty=allow_empty, once=True):
        groups = {} if batch.group is None else {"groups": batch.group}
        try:
            yield calibrator(batch.logits, **groups)
        except tepid.errors.RowError as error:
            raise batch.locate(error) from None
        tell(len(batch.logits))
