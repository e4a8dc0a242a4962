"""Run mutants in a process of its own: `python -m fuzz.worker FORMAT SEED FIRST STOP FOLDER`.

The number of the current mutant lies in a memory-mapped file, so that the parent knows it after a
crash; a mutant is a function of the format, the seed and its number. Findings are JSON lines on
standard output. `python -m fuzz.worker FORMAT FILE` runs one file, first with tepid and then with
the format's own library, and prints what came of it.
"""

import contextlib
import faulthandler
import json
import mmap
import os
import random
import resource
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fuzz.corpus import CORPUS
from fuzz.harnesses import HARNESSES, Harness, compare, execute, mutant, put, read_corpus

# What is no finding: accepted files are the same as the library's or refused by it.
COUNTED = ("refused", "same", "library refused")
# The number of the mutant, and how many were counted; the worker writes, its parent reads.
PROGRESS = struct.Struct("<4q")
# A header that claims terabytes must not take the machine with it.
ADDRESS_SPACE = 12 << 30
# What an execution may take at its peak beyond what the process had: a constant and a multiple of
# the file, which bounds the largest ratio of deflate for files that are compressed.
CONSTANT, MULTIPLE = 64 << 20, 64
# Seconds of processor time that one execution may take.
SLOW = 5.0
# One in so many executions also fits or uses what was read.
DEEP = 32


def mutant_of(name: str, seed: int, number: int, corpus: Path = CORPUS) -> bytes:
    """The mutant of this number; the first are the files of the corpus as they are."""
    files = read_corpus(corpus, name)
    if number < len(files):
        return list(files.values())[number]
    return mutant(HARNESSES[name], random.Random(f"{name} {seed} {number}"), files)


def _reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_bytes(b"5")


def _memory(field: bytes) -> int:
    for line in Path("/proc/self/status").read_bytes().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) << 10
    return 0


def judge(harness: Harness, path: Path, size: int, *, deep: bool) -> tuple[str, str]:
    """What came of one file, with its time and memory, and compared with the library."""
    _reset_peak()
    # The time of all threads takes longer to ask for than a file to read.
    before, begin = _memory(b"VmRSS"), time.thread_time()
    result, why, found = execute(harness, path, deep=deep)
    seconds, peak = time.thread_time() - begin, _memory(b"VmHWM") - before
    if result == "raised":
        return result, why
    if seconds > SLOW:
        return "slow", f"{seconds:.1f} s"
    if peak > CONSTANT + MULTIPLE * size:
        return "memory", f"{peak >> 20} MB for {size} bytes"
    return (result, why) if result == "refused" else (compare(harness, path, found), "")


def run_range(
    name: str, seed: int, first: int, stop: int, folder: Path
) -> Iterator[dict[str, object]]:
    """Run mutants, and yield the findings."""
    harness = HARNESSES[name]
    path = folder / f"mutant{harness.suffix}"
    counts: Counter[str] = Counter()
    with (
        (folder / "progress").open("r+b") as file,
        mmap.mmap(file.fileno(), PROGRESS.size) as memory,
    ):
        for number in range(first, stop):
            PROGRESS.pack_into(memory, 0, number, *(counts[each] for each in COUNTED))
            content = mutant_of(name, seed, number)
            put(content, path)
            result, why = judge(harness, path, len(content), deep=number % DEEP == 0)
            counts[result] += 1
            if result not in COUNTED:
                yield {"number": number, "result": result, "why": why}
        PROGRESS.pack_into(memory, 0, stop, *(counts[each] for each in COUNTED))


def run_file(name: str, path: Path) -> tuple[str, str]:
    """What comes of one file: a file of the corpus, or one that failed."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        warm_up(name, Path(folder))
        harness, content = HARNESSES[name], path.read_bytes()
        copy = Path(folder) / f"file{harness.suffix}"
        put(content, copy)
        return judge(harness, copy, len(content), deep=True)


def prepare() -> None:
    """Limit the memory, and load what an execution would otherwise load."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


def warm_up(name: str, folder: Path) -> None:
    """Every seed once, so that imports and compiled kernels count for no mutant."""
    harness = HARNESSES[name]
    path = folder / f"mutant{harness.suffix}"
    for seed in sorted((CORPUS / name).glob("seed-*")):
        put(seed.read_bytes(), path)
        execute(harness, path, deep=True)


def main() -> None:
    prepare()
    name = sys.argv[1]
    if len(sys.argv) == 3:
        sys.stdout.write(" ".join(run_file(name, Path(sys.argv[2]))) + "\n")
        return
    seed, first, stop = map(int, sys.argv[2:5])
    folder = Path(sys.argv[5])
    os.chdir(folder)
    warm_up(name, folder)
    for finding in run_range(name, seed, first, stop, folder):
        sys.stdout.write(json.dumps(finding) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
