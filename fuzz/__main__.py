"""Run the fuzzer: `python -m fuzz [FORMAT ...] [--count 2000] [--seed 0]`.

Mutants run in worker processes with a limit on time and memory. The table that is printed counts
what came of them; inputs that failed are written to `--findings`. Without `--count` it is the
campaign, 100,000 executions of each cheap format and 10,000 of the slow ones, and the table goes to
benchmarks/results/fuzz.json and .md. The exit code is 1 if anything was found.
"""

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fuzz import results
from fuzz.harnesses import HARNESSES
from fuzz.worker import PROGRESS, mutant_of

ROOT = Path(__file__).parents[1]
# Seconds without progress after which a worker is taken to hang; the first also imports.
HANG = 60.0
# Mutants per process: whatever a library leaks ends with it.
CHUNK = 20_000


@dataclass
class Tally:
    """What came of the mutants of one format."""

    executions: int = 0
    refused: int = 0
    same: int = 0
    alone: int = 0
    seconds: float = 0.0
    findings: list[dict[str, Any]] = field(default_factory=list)

    def add(self, executions: int, refused: int, same: int, alone: int) -> None:
        """Count the mutants of one worker; `alone` are those that the library refuses."""
        self.executions += executions
        self.refused += refused
        self.same += same
        self.alone += alone


def run_format(
    name: str, seed: int, first: int, count: int, worker: tuple[str, ...] = ("-m", "fuzz.worker")
) -> Tally:
    """Run the mutants of one format, starting a new worker after every crash."""
    tally, begin = Tally(), time.monotonic()
    stop = first + count
    while first < stop:
        numbers = (first, min(stop, first + CHUNK))
        last, finding = _run_worker([*worker, name, str(seed)], numbers, tally)
        if finding is not None:
            tally.executions += 1
            tally.findings.append({"number": last, **finding})
            last += 1
        first = last
    tally.seconds = time.monotonic() - begin
    return tally


def _memory_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _run_worker(
    worker: list[str], numbers: tuple[int, int], tally: Tally
) -> tuple[int, dict[str, Any] | None]:
    """The number at which a worker ended, and how if it did not end by itself."""
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_memory_folder()) as where:
        folder, (first, stop) = Path(where), numbers
        progress = folder / "progress"
        progress.write_bytes(PROGRESS.pack(first, 0, 0, 0))
        command = [sys.executable, *worker, *map(str, numbers), where]
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=err)
            try:
                hung = _watch(process, progress)
            finally:
                process.kill()
                process.wait()
        number, *counts = PROGRESS.unpack(progress.read_bytes())
        tally.add(number - first, *counts)
        for line in (folder / "out").read_text().splitlines():
            with contextlib.suppress(ValueError):
                tally.findings.append(json.loads(line))
        if number == stop:
            return number, None
        said = (folder / "err").read_text(errors="replace")
        if not hung and process.returncode == 1:
            raise RuntimeError(f"{' '.join(command)} failed at {number}: {said[-2000:]}")
        ended = "hang" if hung else signal.Signals(-process.returncode).name
        return number, {"result": ended, "why": _blamed(said)}


def _watch(process: subprocess.Popen[bytes], progress: Path) -> bool:
    """Wait for a worker; True if it made no progress for too long."""
    seen, since = -1, time.monotonic()
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
            return False
        number = PROGRESS.unpack(progress.read_bytes())[0]
        if number != seen:
            seen, since = number, time.monotonic()
        elif time.monotonic() - since > HANG:
            return True


def _blamed(said: str) -> str:
    """The innermost Python frame of a crash, and the last line before it."""
    lines = said.splitlines()
    frames = [line.strip() for line in lines if line.strip().startswith("File ")]
    before = [line for line in lines if line.strip() and not line.strip().startswith("File ")]
    said = next((line for line in before if "Fatal" not in line and "Current" not in line), "")
    return f"{said[:160]} | {frames[0] if frames else ''}"


def keep(name: str, seed: int, tally: Tally, folder: Path, most: int = 5) -> None:
    """Write inputs that failed, a few for each reason."""
    seen: Counter[str] = Counter()
    for finding in tally.findings:
        reason = f"{finding['result']} {finding['why'][:80]}"
        seen[reason] += 1
        if seen[reason] <= most:
            folder.mkdir(parents=True, exist_ok=True)
            ending = "zarr.zip" if name == "zarr" else HARNESSES[name].suffix.lstrip(".")
            target = folder / f"{name}-{seed}-{finding['number']}-{finding['result']}.{ending}"
            target.write_bytes(mutant_of(name, seed, finding["number"]))


def parse() -> argparse.Namespace:
    """The arguments of the command."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("formats", nargs="*", default=list(HARNESSES))
    parser.add_argument("--count", type=int, help="executions per format; default: the campaign's")
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=Path, default=ROOT / ".cache" / "fuzz")
    parser.add_argument("--out", type=Path, help="append what was counted to this file")
    parser.add_argument("--record", type=Path, nargs="+", help="run nothing; merge files of --out")
    return parser.parse_args()


def main() -> None:
    """Run the formats that were named, by default all."""
    args = parse()
    lines = results.read(args.record) if args.record else []
    for name in [] if args.record else args.formats:
        tally = run_format(name, args.seed, args.first, args.count or HARNESSES[name].count)
        keep(name, args.seed, tally, args.findings)
        line = {"format": name, "seed": args.seed, "first": args.first} | asdict(tally)
        lines.append(line)
        print(f"{name}: {tally.executions} executions, {len(tally.findings)} findings", flush=True)
        for finding in tally.findings[:12]:
            print(f"    {finding['number']} {finding['result']}: {finding['why'][:150]}")
        if args.out:
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    totals = results.merge(lines)
    print(results.table(totals))
    if args.record or (args.count is None and len(totals) == len(HARNESSES)):
        results.write(totals, f"python -m fuzz --seed {args.seed}", args.seed)
    sys.exit(1 if any(total["findings"] for total in totals.values()) else 0)


if __name__ == "__main__":
    main()
