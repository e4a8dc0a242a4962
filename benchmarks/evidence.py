"""What every rung of evidence is worth on a folder of logit sets: `results/evidence.json`.

`python benchmarks/evidence.py FOLDER`; `sets` says what a folder holds, `cases` what is drawn from
it, `rungs`, `shifts` and `covering` what is done with it. Each finished case is a line of the
state file, and a second run leaves out what is there. `--only` says which parts to measure; every
part that the state file has whole is reported. Only figures are written.
"""

import argparse
import multiprocessing
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import covering
import figures
import journal
import record
import report
import rungs
import sets
import shifts
import tally
from cases import FULL, PARTS, QUICK, Case, cases
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

# Another number makes a state file's lines void: raise it when what is drawn or scored changes.
PROTOCOL = 3
ROOT = Path(__file__).parents[1]
MEASURES = {
    "alone": rungs.alone,
    "few": rungs.few,
    "peers": rungs.peers,
    "shift": shifts.shift,
    "coverage": covering.coverage,
}


def measure(case: Case, folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """All rows of one case, by its key."""
    return case.key, MEASURES[case.part](folder, case)


def run(wanted: list[Case], folder: Path, workers: int) -> Iterator[tuple[str, Any]]:
    """The rows of the cases as they are finished.

    Workers are spawned: a fork would copy tepid's thread pool without its threads.
    """
    if not wanted:
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool:
        yield from pool.imap_unordered(partial(measure, folder=folder), wanted)


def completed(args: argparse.Namespace, every: list[Case]) -> dict[str, Any]:
    """The rows of every case that is finished, those of earlier runs included."""
    stamp = {
        "tepid": record.version("tepid"),
        "protocol": PROTOCOL,
        "data": sets.digest(args.folder),
    }
    done = journal.finished(args.state, stamp)
    wanted = [case for case in every if case.part in args.only and case.key not in done]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with (
        journal.writing(args.state, stamp) as write,
        Progress(*columns, TimeRemainingColumn()) as bar,
    ):
        task = bar.add_task("cases", total=len(wanted))
        for key, rows in run(wanted, args.folder, args.workers):
            write(key, rows)
            done[key] = rows
            bar.advance(task)
    return done


def draws_of(every: list[Case], done: dict[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
    """The rows of each part that is whole, with what they are rows of."""
    whole = {part for part in PARTS if all(c.key in done for c in every if c.part == part)}
    for case in every:
        if case.part in whole:
            simulated = case.set == "simulated"
            classes = covering.CLASSES if simulated else _classes(folder, case.set)
            about = {
                "part": case.part,
                "group": case.group,
                "set": case.set,
                "classes": classes,
                # The other networks of a shift are all others.
                "case": " + ".join(case.others) if case.part == "peers" else "",
            }
            yield from (about | row for row in done[case.key])


def _classes(folder: Path, name: str) -> int:
    return int(sets.load(folder, name).logits.shape[1])


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """What the command was told."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="a few draws of each")
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "evidence.jsonl")
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    parser.add_argument("--figures", type=Path, default=ROOT / "docs" / "figures")
    args = parser.parse_args(arguments)
    for part in args.only:
        if part not in PARTS:
            parser.error(f"--only must be of {', '.join(PARTS)}, got {part!r}")
    if not sets.names(args.folder):
        parser.error(f"FOLDER must hold .npz files, got none in {args.folder}")
    return args


def main() -> None:
    """Measure what is wanting and write the figures."""
    args = options()
    command = "python benchmarks/evidence.py FOLDER" + (" --quick" if args.quick else "")
    about = record.circumstances(command, 0, args.workers, ("tepid", "numpy", "numba"))
    every = cases(args.folder, QUICK if args.quick else FULL)
    table = tally.tidy(draws_of(every, completed(args, every), args.folder))
    summary = tally.summary(table)
    about |= {"protocol": PROTOCOL, "sets": len(sets.names(args.folder))}
    text = record.preamble("Evidence", about) + "\n" + report.tables(summary)
    record.write("evidence", about | {"parts": summary}, text, args.results)
    tally.write_csv(args.results / "evidence.csv", table)
    print(text)
    print(figures.draw(table, summary, args.figures))


if __name__ == "__main__":
    main()
