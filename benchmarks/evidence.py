"""What each kind of evidence is worth on folders of real logit sets: `results/evidence.json`.

`python benchmarks/evidence.py FOLDER...`, each file an `.npz` of `logits` and `labels`. Everything
goes through `tepid.calibrate`, `uts`, `temperature_scaling` and `match_accuracy`. `evidence_cases`,
`evidence_shifts` and `evidence_families` say what is drawn, `evidence_tables` what the figures are.
On the 39 sets of the design the figures are compared with its targets.
"""

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import evidence_cases
import evidence_families
import evidence_shifts
import evidence_tables
import figures
import record
from evidence_cases import FULL, QUICK, SEED, Record, Scale, open_collection, spread
from rich.progress import track

ROOT = Path(__file__).parents[1]
PARTS = {
    "sets": evidence_cases.of_set,
    "sources": evidence_shifts.of_set,
    "families": evidence_families.of_set,
}
# The number of sets that the design targets were measured on.
DESIGN = 39


def measure(job: tuple[str, str], folders: tuple[Path, ...], scale: Scale) -> list[Record]:
    """All records of one part of one set."""
    part, name = job
    return list(PARTS[part](open_collection(folders), name, scale))


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one split and a few draws")
    parser.add_argument("--sets", type=lambda text: text.split(","), help="only these are judged")
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    parser.add_argument("--figures", type=Path, help="draw docs/figures there")
    args = parser.parse_args(arguments)
    known = open_collection(tuple(args.folders)).paths
    if not known:
        parser.error(f"the folders must hold .npz files, got none in {args.folders}")
    if strangers := sorted(set(args.sets or []) - set(known)):
        parser.error(f"--sets must be names of sets in the folders, got {', '.join(strangers)}")
    return args


def main() -> None:
    """Measure every set and write the figures."""
    args = options()
    folders, scale = tuple(args.folders), QUICK if args.quick else FULL
    shown = " ".join(f"{f.resolve().parent.name}/{f.name}" for f in folders)
    command = f"python benchmarks/evidence.py {shown}" + (" --quick" if args.quick else "")
    command += f" --sets {','.join(args.sets)}" if args.sets else ""
    about = record.circumstances(command, SEED, args.workers, ("tepid", "numpy", "numba"))
    paths = open_collection(folders).paths
    names = [name for name in paths if args.sets is None or name in args.sets]
    start = time.perf_counter()
    records: list[Record] = []
    jobs = [(part, name) for part in PARTS for name in names]
    task = partial(measure, folders=folders, scale=scale)
    for found in track(spread(task, jobs, args.workers), "", len(jobs)):
        records += found
    summary = evidence_tables.summarize(
        records,
        {name: paths[name].parent.name for name in names},
        open_collection(folders).is_language_model,
    )
    targets = evidence_tables.read_targets() if _is_design(names, args) else None
    about |= _circumstances(names, scale, records, time.perf_counter() - start)
    text = record.preamble("Evidence", about) + "\n" + evidence_tables.markdown(summary, targets)
    missed = {"outside": evidence_tables.all_outside(summary, targets)} if targets else {}
    record.write("evidence", about | summary | missed, text, args.results)
    evidence_tables.write_csv(args.results / "evidence.csv", records)
    print(text)
    if args.figures:
        figures.draw(records, summary, args.figures)


def _is_design(names: list[str], args: argparse.Namespace) -> bool:
    return len(names) == DESIGN and not args.quick and not args.sets


def _circumstances(
    names: list[str], scale: Scale, records: list[Record], seconds: float
) -> dict[str, Any]:
    drawn = {"splits": scale.splits, "draws": scale.draws, "shifts": scale.shifts}
    return {"sets_judged": len(names), "records": len(records), "seconds": round(seconds)} | drawn


if __name__ == "__main__":
    main()
