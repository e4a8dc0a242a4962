"""`tepid apply` over many files: one file of probabilities for each, several at a time."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import tepid

FORMS = ("npy", "csv", "parquet")


def is_folder(out: Path) -> bool:
    """Whether an output is a folder of files rather than one: there is one, or it has no ending."""
    return out.is_dir() or not out.suffix


def targets(out: Path, logits: list[str], form: str | None) -> list[Path]:
    """The file to write for each one that is read, under its name in the folder `out`."""
    if form is not None and form not in FORMS:
        raise tepid.InputError(f"--format must be one of {', '.join(FORMS)}, got {form}")
    if not out.parent.is_dir():
        raise tepid.InputError(f"output must be in a folder that exists, got {out}")
    places = tepid.sources.places
    found = places.expanded(logits, "logits file")
    names = [_named(name, form) for name in places.shown(found)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise tepid.InputError(f"files must have names of their own, got two that make {twice}")
    wanted = [out / name for name in names]
    for target, place in zip(wanted, found, strict=True):
        source = Path(places.named(place)[0])
        if target.exists() and source.exists() and target.samefile(source):
            raise tepid.InputError(f"output must not be one of the inputs, got {target}")
    return wanted


def _named(name: str, form: str | None) -> str:
    """The name with the ending of its new form, by default that of a table as it was."""
    places = tepid.sources.places
    ending = places.suffix(name)
    usual = {".csv": "csv", ".parquet": "parquet"}
    own = "parquet" if ending in places.ARROW else usual.get(ending[:4], "npy")
    return f"{name[: len(name) - len(ending)]}.{form or own}"


def apply_each(
    calibrator: Any, source: "tepid.sources.Source", wanted: list[Path], engine: "tepid.Threads"
) -> int:
    """Write the probabilities of every part to its own file, and count the rows."""
    parts = tepid.engines.portions.portions(source)
    done = _Done(engine, source.expected)
    with ThreadPoolExecutor(min(engine.threads, len(parts))) as pool:
        write = partial(_written, calibrator, done=done)
        try:
            return sum(pool.map(write, parts, wanted))
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


def _written(
    calibrator: Any, portion: "tepid.engines.portions.Portion", target: Path, done: _Done
) -> int:
    target.parent.mkdir(parents=True, exist_ok=True)
    blocks = calibrated(calibrator, portion.source, done.add)
    return tepid.sources.write_blocks(target, blocks, classes=calibrator.classes)


def calibrated(
    calibrator: Any, source: "tepid.sources.Source", tell: Any, *, some: bool = False
) -> Iterator[Any]:
    """The probabilities of each block; `tell` hears how many rows each had once it is written."""
    rows = tepid.shapes.rows_per_block(calibrator.classes)
    for block in source.blocks(rows, some=some):
        groups = {} if block.groups is None else {"groups": block.groups}
        try:
            yield calibrator(block.logits, **groups)
        except tepid.errors.RowError as error:
            raise tepid.sources.block.located(error, block) from None
        tell(len(block.logits))
