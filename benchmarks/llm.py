"""Language models that choose an option, with the evidence that they have: `results/llm.json`.

`python benchmarks/llm.py FOLDER`, each file an `.npz` of `logits` and `labels` of one model on the
same questions. Rows are cut, split and drawn as in `evidence.py`. The reference is one of the
models, `--reference`, which is judged without one.
"""

import argparse
import multiprocessing
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import evidence_cases
import evidence_tables
import numpy as np
import record
from evidence_cases import (
    FULL,
    ONE,
    QUICK,
    SEED,
    Collection,
    Draw,
    Judge,
    Make,
    Record,
    Scale,
    View,
)
from rich.progress import track

import tepid

# So many rows were judged by the reference, of 2000 that are fitted.
JUDGED = (50, 100, 200, 500)


def judged(n: int, name: str, *, classes: bool) -> Make:
    """The reference's logits, or its classes alone, on n random fitted rows."""

    def make(view: View, draw: Draw) -> dict[str, Any] | None:
        if name not in view.others:
            return None
        other, rows = view.others[name], draw.fitted[:n]
        given = np.full(len(other), -1) if classes else np.full(other.shape, np.nan)
        given[rows] = other.argmax(axis=1)[rows] if classes else other[rows]
        return {"reference": given}

    return make


def evidence(reference: str) -> tuple[dict[str, Make], dict[str, Make]]:
    """The rows that are the same in every draw, and those that are drawn."""
    cases = evidence_cases
    given, whole = cases.named_reference(reference), 1 << 30
    fixed = {
        "logits alone": cases.FIXED["logits alone"],
        "reference": given,
        "reference, classes alone": judged(whole, reference, classes=True),
    }
    drawn = {
        "25 labels": cases.labels(25),
        "25 labels + accuracy ±.03": cases.together(cases.labels(25), cases.accuracy(0.03)),
        "reference + 25 labels": cases.together(given, cases.labels(25)),
    }
    for n in JUDGED:
        drawn[f"{n} judged rows"] = judged(n, reference, classes=False)
        drawn[f"{n} judged rows, classes alone"] = judged(n, reference, classes=True)
    return fixed, drawn


def of_set(name: str, folder: Path, reference: str, scale: Scale) -> list[Record]:
    """All records of one set."""
    collection = Collection((folder,))
    whole = collection.load(name)
    target = tepid.temperature_scaling(*whole, engine=ONE).value
    found: list[Record] = []
    for split in range(scale.splits):
        inside, outside = evidence_cases.halves(whole, split)
        others = {o: collection.load(o).logits[inside] for o in collection.relatives(name)}
        view = View(name, whole.of(inside), whole, whole.accuracy, others, None, None)
        judge = Judge(whole.of(outside), target)
        found += [
            {"set": name, "case": name} | each
            for each in _of_split(view, judge, reference, split, scale.draws)
        ]
    return found


def _of_split(view: View, judge: Judge, reference: str, split: int, draws: int) -> Iterator[Record]:
    z, y = view.fitted
    yield judge.record("T = 1", 1.0)
    yield judge.record("UTS", tepid.uts(z, engine=ONE))
    yield judge.record("labeled TS", tepid.temperature_scaling(z, y, engine=ONE))
    if reference in view.others:
        yield judge.record("DACA", evidence_cases.daca(z, view.others[reference]))
    rng = evidence_cases.random_of(view.name, split)
    fixed, drawn = evidence(reference)
    for turn in range(draws):
        draw = evidence_cases.random_draw(view, rng)
        for row, make in {**({} if turn else fixed), **drawn}.items():
            known = make(view, draw)
            if known is not None:
                yield judge.record(row, evidence_cases.calibrate(z, **known))


# Figures ------------------------------------------------------------------------------------------

ROWS = (
    "T = 1", "UTS", "logits alone", "reference", "DACA", "25 labels", "25 labels + accuracy ±.03",
    "reference + 25 labels", "labeled TS",
)  # fmt: skip


def summarize(records: list[Record], reference: str) -> dict[str, Any]:
    """The figures of every row: of all sets, without the reference, and by set."""
    names = sorted({each["set"] for each in records})
    without = [each for each in records if each["set"] != reference]
    return {
        "reference": reference,
        "all sets": _figures(records),
        "without the reference": _figures(without),
        "by set": {
            name: {
                row: figures["ece"]
                for row, figures in _figures([r for r in records if r["set"] == name]).items()
            }
            for name in names
        },
    }


def _figures(records: list[Record]) -> dict[str, Any]:
    rows: dict[str, list[Record]] = {}
    for each in records:
        rows.setdefault(each["row"], []).append(each)
    return {row: evidence_tables.figures(cases, lambda _: True) for row, cases in rows.items()}


def markdown(found: dict[str, Any]) -> str:
    """The tables to read."""
    few, every = found["without the reference"], found["all sets"]
    lines = [
        (
            row,
            f"{every[row]['ece']:.2f}" if every[row]["sets"] == every["T = 1"]["sets"] else "",
            f"{few[row]['ece']:.2f}",
            f"{few[row]['excess_nll']:.4f}",
            f"{few[row]['harmed']} of {few[row]['sets']}",
            f"{few[row]['cover']:.2f}" if "cover" in few[row] else "",
        )
        for row in ROWS
    ]
    sets = every["T = 1"]["sets"]
    head = ("evidence", f"ECE of {sets} sets", "ECE without the reference", "excess NLL", "harmed",
            "interval covers")  # fmt: skip
    counts = [(f"{n} judged rows", n) for n in JUDGED] + [("reference", "all")]
    judges = []
    for row, n in counts:
        own, votes = few[row], few[f"{row}, classes alone"]
        judges.append((n, *_judge_cells(own), *_judge_cells(votes)))
    columns = ("ECE", "excess NLL", "covers")
    names = ("judged rows", *columns, *(f"{name}, classes alone" for name in columns))
    rows = [row for row in ROWS if row != "25 labels + accuracy ±.03"]
    by_set = [
        (name, *(f"{each[row]:.1f}" if row in each else "" for row in rows))
        for name, each in found["by set"].items()
    ]
    return (
        f"\nECE in percent, 15 bins. The reference is {found['reference']}.\n\n"
        f"{record.table(head, lines)}\n\n## Judged rows\n\n{record.table(names, judges)}\n\n"
        f"## ECE by set\n\n{record.table(('set', *rows), by_set)}\n"
    )


def _judge_cells(row: dict[str, Any]) -> tuple[str, str, str]:
    return f"{row['ece']:.2f}", f"{row['excess_nll']:.4f}", f"{row['cover']:.2f}"


def main() -> None:
    """Measure every set and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--reference", default="llama31_70b_base")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one split and a few draws")
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    args = parser.parse_args()
    names = list(Collection((args.folder,)).paths)
    if args.reference not in names:
        parser.error(f"--reference must be one of {', '.join(names)}, got {args.reference}")
    shown = f"{args.folder.resolve().parent.name}/{args.folder.name}"
    command = f"python benchmarks/llm.py {shown}" + (" --quick" if args.quick else "")
    about = record.circumstances(command, SEED, args.workers, ("tepid", "numpy", "numba"))
    start = time.perf_counter()
    task = partial(
        of_set, folder=args.folder, reference=args.reference, scale=QUICK if args.quick else FULL
    )
    with multiprocessing.get_context("spawn").Pool(args.workers) as pool:
        every = list(track(pool.imap(task, names), "", len(names)))
    records = [each for found in every for each in found]
    summary = summarize(records, args.reference)
    about |= {"records": len(records), "seconds": round(time.perf_counter() - start)}
    text = record.preamble("Language models", about) + markdown(summary)
    record.write("llm", about | summary, text, args.results)
    print(text)


if __name__ == "__main__":
    main()
