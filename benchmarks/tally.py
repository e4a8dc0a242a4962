"""From measured cases to one tidy table, and from that to the figures of each rung."""

import csv
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]
COLUMNS = (
    "part",
    "group",
    "set",
    "classes",
    "rung",
    "case",
    "draws",
    "temperature",
    "ece",
    "excess_nll",
    "ece_before",
    "status",
    "low",
    "high",
    "target",
    "covered",
    "intervals",
)
MEANS = ("ece", "excess_nll", "ece_before", "covered")
GEOMETRIC = ("temperature", "low", "high", "target")
# A rise of the calibration error by this much is harm.
HARM = 0.002


def tidy(draws: Iterable[Row]) -> list[Row]:
    """One row for each set, rung and case: means over the draws, geometric ones of temperatures."""
    by_case: dict[tuple[Any, ...], list[Row]] = {}
    for row in draws:
        by_case.setdefault(tuple(row[name] for name in COLUMNS[:6]), []).append(row)
    return [_mean(key, rows) for key, rows in by_case.items()]


def _mean(key: tuple[Any, ...], rows: list[Row]) -> Row:
    out: Row = dict(zip(COLUMNS, key, strict=False)) | {"draws": len(rows)}
    for name in (*MEANS, *GEOMETRIC):
        values = [row[name] for row in rows if row.get(name) is not None]
        if not values:
            out[name] = None
        elif name in GEOMETRIC:
            out[name] = float(np.exp(np.mean(np.log(values))))
        else:
            out[name] = float(np.mean(values))
    out["intervals"] = sum(row.get("covered") is not None for row in rows)
    counts = Counter(row["status"] for row in rows)
    each = (f"{count} {status}" for status, count in sorted(counts.items()))
    out["status"] = ", ".join(each) if len(counts) > 1 else next(iter(counts))
    return {name: out[name] for name in COLUMNS}


def summary(table: list[Row]) -> dict[str, Any]:
    """The figures of every rung: `summary[part][group][rung]`."""
    found: dict[str, Any] = {}
    for row in table:
        rungs = found.setdefault(row["part"], {}).setdefault(row["group"], {})
        rungs.setdefault(row["rung"], []).append(row)
    for groups in found.values():
        for rungs in groups.values():
            accepted = {
                r["set"] + r["case"] for r in rungs.get("models", []) if r["status"] == "ok"
            }
            for rung, rows in rungs.items():
                rungs[rung] = figures(rows)
                kept = [r for r in rows if r["set"] + r["case"] in accepted]
                if accepted:
                    rungs[rung]["accepted"] = figures(kept)
    return found


def figures(rows: list[Row]) -> dict[str, Any]:
    """Means over cases of the means over draws; how many cases were harmed, and by how much."""
    out: dict[str, Any] = {"cases": len(rows), "draws": sum(row["draws"] for row in rows)}
    for name in MEANS:
        values = [row[name] for row in rows if row[name] is not None]
        if values:
            out[name] = float(np.mean(values))
    if "ece" in out:
        gap = np.array([row["ece"] - row["ece_before"] for row in rows])
        out |= {"harmed": int((gap > HARM).sum()), "worst": float(gap.max())}
        away = [abs(np.log(row["temperature"] / row["target"])) for row in rows]
        out["median_log_error"] = float(np.median(away))
    if "covered" in out:
        out["intervals"] = sum(row["intervals"] for row in rows)
        out["least_covered"] = min(r["covered"] for r in rows if r["covered"] is not None)
        widths = [np.log(r["high"] / r["low"]) for r in rows if r["low"] is not None]
        out |= {"width": float(np.mean(widths))} if widths else {}
    refused = sum("refused" in row["status"] for row in rows)
    return out | ({"refused": refused} if refused else {})


def write_csv(path: Path, table: list[Row]) -> None:
    """The tidy table, numbers to six digits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in table:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
