"""From records of single decisions to the figures of each row, and their comparison with targets.

Figures are means over sets of the means over splits and draws, unless they are shares of all cases.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import record

Figures = dict[str, Any]
Records = list[dict[str, Any]]
TARGETS = Path(__file__).with_name("decisions_targets.json")
# A precision that falls short of the wanted one by more than this is counted.
SHORT = 0.02
# An interval that misses by less than this covers up to rounding.
NEAR = 0.005
# Sets of more classes are left out of the mean size.
MOST_CLASSES = 100
# Half of the last printed digit of the targets.
COARSE, FINE = 0.005, 0.0005
# Each figure: its heading, its format, which tolerance it has, and the rounding of its target.
PARTS: dict[str, dict[str, tuple[str, str, str, float]]] = {
    "precision": {
        "realized": ("realized precision", "{:.3f}", "mean", FINE),
        "error": ("abs. error of the expected one", "{:.3f}", "mean", FINE),
        "worst_error": ("worst set", "{:.3f}", "worst", FINE),
        "short": (f"sets short by > {SHORT}", "{:.2f}", "worst", COARSE),
        "worst_shortfall": ("worst shortfall", "{:.3f}", "worst", FINE),
        "accepted": ("accepted rows", "{:.2f}", "mean", COARSE),
        "nothing": ("nothing accepted", "{:.2f}", "mean", COARSE),
        "cover_strictly": ("interval covers", "{:.2f}", "mean", COARSE),
        "cover": (f"up to {NEAR}", "{:.2f}", "mean", COARSE),
    },
    "sets": {
        "coverage": ("coverage", "{:.3f}", "mean", FINE),
        "error": ("abs. error", "{:.3f}", "mean", FINE),
        "worst_error": ("worst set", "{:.3f}", "worst", FINE),
        "worst_draw": ("worst draw", "{:.3f}", "worst", FINE),
        "size": ("mean size", "{:.2f}", "mean", COARSE),
    },
    "performance": {
        "error": ("accuracy: abs. error", "{:.3f}", "mean", FINE),
        "worst_error": ("worst set", "{:.3f}", "worst", FINE),
        "cover": ("interval covers", "{:.2f}", "mean", COARSE),
        "width": ("width", "{:.3f}", "mean", FINE),
        "precision": ("precision per class: abs. error", "{:.3f}", "mean", FINE),
        "recall": ("recall", "{:.3f}", "mean", FINE),
        "f1": ("F1", "{:.3f}", "mean", FINE),
        "worst_f1": ("F1 of the worst class", "{:.3f}", "mean", FINE),
    },
}
TITLES = {
    "precision": "A threshold for a precision of {}",
    "sets": "Prediction sets for a coverage of {}",
    "performance": "Expected performance",
}


# Figures ------------------------------------------------------------------------------------------


def summarize(records: Records) -> Figures:
    """The figures of every row, by part and wanted value."""
    of = {"precision": _precision, "sets": _sets}
    found: Figures = {}
    for part, figures in of.items():
        own = [r for r in records if r["part"] == part]
        found[part] = {
            f"{wanted:.2f}": _by_row([r for r in own if r["wanted"] == wanted], figures)
            for wanted in sorted({r["wanted"] for r in own})
        }
    return found | {
        "performance": _by_row([r for r in records if r["part"] == "performance"], _performance)
    }


def _by_row(records: Records, figures: Callable[[Records], Figures]) -> dict[str, Figures]:
    rows = dict.fromkeys(each["row"] for each in records)
    return {row: figures([r for r in records if r["row"] == row]) for row in rows}


def _by_set(records: Records, value: Callable[[dict[str, Any]], float]) -> list[float]:
    """The mean of a value over the cases of each set."""
    by_set: dict[str, list[float]] = {}
    for each in records:
        by_set.setdefault(each["set"], []).append(value(each))
    return [float(np.mean(values)) for values in by_set.values()]


def _precision(records: Records) -> Figures:
    some = [r for r in records if not r["nothing"]]
    wanted = records[0]["wanted"]
    realized = _by_set(some, lambda r: r["realized"])
    # Where every row is accepted, the threshold is not what the precision depends on.
    binding = [r for r in some if r["binding"]]
    error = _by_set(binding, lambda r: abs(r["realized"] - r["expected"]))
    shortfall = [wanted - value for value in realized]
    found: Figures = {
        "sets": len({r["set"] for r in records}),
        "cases": len(records),
        "realized": float(np.mean(realized)) if some else None,
        "error": float(np.mean(error)) if binding else None,
        "worst_error": max(error, default=None),
        "short": sum(s > SHORT for s in shortfall) / len({r["set"] for r in records}),
        "worst_shortfall": max([0.0, *shortfall]),
        "accepted": float(np.mean(_by_set(records, lambda r: r["accepted"]))),
        "nothing": float(np.mean([r["nothing"] for r in records])),
    }
    missed = [r["missed"] for r in some if "missed" in r]
    if missed:
        found["cover_strictly"] = float(np.mean([m == 0 for m in missed]))
        found["cover"] = float(np.mean([m <= NEAR for m in missed]))
    return found


def _sets(records: Records) -> Figures:
    error = _by_set(records, lambda r: abs(r["coverage"] - r["wanted"]))
    few = [r for r in records if r["classes"] <= MOST_CLASSES]
    return {
        "sets": len(error),
        "cases": len(records),
        "coverage": float(np.mean(_by_set(records, lambda r: r["coverage"]))),
        "error": float(np.mean(error)),
        "worst_error": max(error),
        "worst_draw": max(abs(r["coverage"] - r["wanted"]) for r in records),
        "size": float(np.mean(_by_set(few, lambda r: r["size"]))) if few else None,
    }


def _performance(records: Records) -> Figures:
    error = _by_set(records, lambda r: r["error"])
    found: Figures = {"sets": len(error), "cases": len(records)}
    found |= {"error": float(np.mean(error)), "worst_error": max(error)}
    if "covered" in records[0]:
        found["cover"] = float(np.mean([r["covered"] for r in records]))
        found["width"] = float(np.mean([r["width"] for r in records]))
    few = [r for r in records if "f1" in r]
    for name in ("precision", "recall", "f1", "worst_f1") if few else ():
        found[name] = float(np.mean(_by_set(few, lambda r, name=name: r[name])))
    return found


# Comparison with the targets ----------------------------------------------------------------------


def read_targets() -> dict[str, Any]:
    """The figures that the design reached."""
    found: dict[str, Any] = json.loads(TARGETS.read_text(encoding="utf-8"))
    return found


def _tables(figures: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Figures]]:
    """Each table by its part and wanted value."""
    found = {(part, w): figures[part][w] for part in ("precision", "sets") for w in figures[part]}
    return found | {("performance", ""): figures["performance"]}


def _misses(part: str, name: str, found: Any, target: float, targets: Mapping[str, Any]) -> bool:
    _, _, kind, rounding = PARTS[part][name]
    return found is None or abs(found - target) > targets["tolerance"][kind] + rounding


def outside(summary: Figures, targets: Mapping[str, Any]) -> Records:
    """Every figure that misses its target by more than the tolerance."""
    wanted = _tables(targets)
    return [
        {"part": part, "wanted": w, "row": row, "figure": name, "target": target,
         "measured": rows[row].get(name)}
        for (part, w), rows in _tables(summary).items()
        for row, figures in wanted[part, w].items()
        for name, target in figures.items()
        if _misses(part, name, rows[row].get(name), target, targets)
    ]  # fmt: skip


# Markdown -----------------------------------------------------------------------------------------

NOTE = """\
Each cell is the measured figure and, in brackets, the design target. A figure in bold misses its
target by more than the tolerance: .01 on means and shares of cases, .03 on the worst set or draw
and on shares of sets.
"""
ABOUT = """\
A fifth of the rows gives T; everything else is found on the other rows without their labels and
judged with them. "Cautious" is the threshold at the upper end of T's interval, whose expected
precision is the one there. Fewer than 50 accepted rows count as none. Errors of the expected
precision are over the cases in which some rows are accepted and some are not. Mean size: over the
sets of at most 100 classes. Measures per class: over the sets of at most 10 classes. "Logits alone"
is what `threshold` and `prediction_sets` refuse. Split conformal prediction uses T = 1.

The design does not state the rules of 50 rows, of the cases that the error is over, and of
intervals that cover up to .005; they were inferred from its figures for the rows without draws.
"""


def markdown(summary: Figures, targets: Mapping[str, Any] | None) -> str:
    """Every table; without targets where the sets are others than those of the targets."""
    text = [*([NOTE] if targets else []), ABOUT]
    wanted = _tables(targets) if targets else {}
    for (part, w), rows in _tables(summary).items():
        head = ("T from", *(heading for heading, *_ in PARTS[part].values()))
        lines = [
            [row, *_cells(part, found, wanted.get((part, w), {}).get(row, {}), targets)]
            for row, found in rows.items()
        ]
        text += [f"## {TITLES[part].format(w)}\n", record.table(head, lines) + "\n"]
    if targets:
        head = ("part", "wanted", "row", "figure", "target", "measured")
        missed = [
            [m["part"], m["wanted"], m["row"], m["figure"], f"{m['target']:g}",
             "none" if m["measured"] is None else f"{m['measured']:.4g}"]
            for m in outside(summary, targets)
        ]  # fmt: skip
        text += ["## Outside the tolerance\n", record.table(head, missed)]
    return "\n".join(text) + "\n"


def _cells(
    part: str, found: Figures, target: Figures, targets: Mapping[str, Any] | None
) -> list[str]:
    cells = []
    for name, (_, form, _, _) in PARTS[part].items():
        value = found.get(name)
        text = "" if value is None else form.format(value)
        if targets and name in target:
            if _misses(part, name, value, target[name], targets):
                text = f"**{text or 'none'}**"
            text = f"{text} ({form.format(target[name])})"
        cells.append(text)
    return cells
