"""From records of single decisions to the figures of each row, and their comparison with targets.

Figures are means over sets of the means over splits and draws, unless they are shares of all cases.
Where the evidence is random, a figure is the mean over the random seeds, with the range between
them: the targets come from one seed, and no more than the range can be reproduced.
"""

import json
import math
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
# How a figure compares with its target.
WITHIN, BETWEEN_SEEDS, OUTSIDE = "within tolerance", "within the range of seeds", "outside"
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
    """The figures of every row, by part and wanted value; in `range`, those of random rows."""
    fixed = _figures([r for r in records if "seed" not in r])
    seeds = sorted({r["seed"] for r in records if "seed" in r})
    drawn = [_tables(_figures([r for r in records if r.get("seed") == seed])) for seed in seeds]
    for table, rows in _tables(fixed).items():
        for row in drawn[0][table]:
            rows[row] = _over_seeds([each[table][row] for each in drawn])
    return fixed


def _over_seeds(found: list[Figures]) -> Figures:
    """The mean of each figure, and its least and largest value."""
    names = [name for name in found[0] if all(each.get(name) is not None for each in found)]
    values = {name: [each[name] for each in found] for name in names}
    ranges = {name: [min(each), max(each)] for name, each in values.items()}
    return {name: float(np.mean(each)) for name, each in values.items()} | {"range": ranges}


def _figures(records: Records) -> Figures:
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


def _tables(figures: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Figures]]:
    """Each table by its part and wanted value."""
    found = {(part, w): figures[part][w] for part in ("precision", "sets") for w in figures[part]}
    return found | {("performance", ""): figures["performance"]}


def _verdict(
    part: str, name: str, found: Figures, target: float, tolerance: Mapping[str, float]
) -> str:
    _, _, kind, rounding = PARTS[part][name]
    value = found.get(name)
    if value is not None and abs(value - target) <= tolerance[kind] + rounding:
        return WITHIN
    low, high = found.get("range", {}).get(name, (math.inf, -math.inf))
    return BETWEEN_SEEDS if low - rounding <= target <= high + rounding else OUTSIDE


def missed(summary: Figures, targets: Mapping[str, Any]) -> Records:
    """Every figure that misses its target by more than the tolerance."""
    compared = [
        {"part": part, "wanted": w, "row": row, "figure": name, "target": target,
         "measured": rows[row].get(name), "range": rows[row].get("range", {}).get(name),
         "verdict": _verdict(part, name, rows[row], target, targets["tolerance"])}
        for (part, w), rows in _tables(summary).items()
        for row, figures in _tables(targets)[part, w].items()
        for name, target in figures.items()
    ]  # fmt: skip
    return [each for each in compared if each["verdict"] != WITHIN]


# Markdown -----------------------------------------------------------------------------------------

NOTE = """\
Each cell is the measured figure and, in round brackets, the design target. In square brackets: the
least and the largest figure of {seeds} random seeds, where the evidence is random; the figure is
their mean. A figure misses its target if the two differ by more than .01 (means and shares of
cases) or .03 (the worst set or draw, and shares of sets). It is in italics if its target lies
within the range of the seeds, and bold if it does not.

{count} figures have a target: {within} are within the tolerance, {seeds_only} miss it with the
target within the range of the seeds, and {outside} are outside of both. The last table lists
those that miss it.
"""
ABOUT = """\
A fifth of the rows gives T, the thresholds and the prediction sets. They are applied to the other
rows and judged with the labels of these. "Cautious" is the threshold at the upper end of T's
interval, whose expected precision is the one there. The expected performance is that of the other
rows, found without their labels. "Logits alone" is what `threshold` and `prediction_sets` refuse.
Split conformal prediction uses T = 1.

The design states the sets, the splits and the definitions of a threshold and of a prediction set.
It does not state the following rules. They were found by searching for rules that give its figures
of the rows without random evidence:

- Two splits. The target .094 for the worst set of the accuracy (labels for all fitted rows) is the
  mean of the first two splits of `llm_falcon_7b_emotion`, .0945 and .0940; the third has .1001.
- Thresholds and levels are found on the fitted fifth and applied to the other rows. Found on the
  other rows themselves, they do not give the worst sets and the mean sizes.
- A threshold that accepts fewer than 12 of the fitted rows counts as none.
- The error of the expected precision is over the cases in which some of the fitted rows are
  accepted and some are not. Shares of sets are shares of all sets.
- The interval is that of the mean confidence of the accepted rows at both ends of T's interval. It
  covers if it misses by at most .005.
- Mean size: over the sets of at most 100 classes. Measures per class: over the sets of at most 10
  classes, and over the classes that at least 30 rows are predicted as and 30 rows are labeled as.

The number of draws in each split and the random numbers are not stated in the design. We use two
draws: of 1, 2, 3, 4, 5, 8 and 16, tried with few seeds, two fitted the stated figures best.

Known differences: levels are the lower edges of bins of 1/64 in the log-odds, so that sets are
slightly too large (UTS at .95: 2.10 with exact levels, 2.11 with bins). The interval of the row
"TS on 20 % labels" is that of temperature scaling; with the interval of the posterior of the same
labels, 46 of 66 cases at .95 are covered (.70) instead of 48.
"""


def markdown(summary: Figures, targets: Mapping[str, Any] | None) -> str:
    """Every table; without targets where the sets are others than those of the targets."""
    text = [*([_note(summary, targets)] if targets else []), ABOUT]
    wanted = _tables(targets) if targets else {}
    for (part, w), rows in _tables(summary).items():
        head = ("T from", *(heading for heading, *_ in PARTS[part].values()))
        lines = [
            [row, *_cells(part, found, wanted.get((part, w), {}).get(row, {}), targets)]
            for row, found in rows.items()
        ]
        text += [f"## {TITLES[part].format(w)}\n", record.table(head, lines) + "\n"]
    if targets:
        head = ("part", "wanted", "row", "figure", "target", "measured", "seeds", "verdict")
        lines = [
            [m["part"], m["wanted"], m["row"], m["figure"], f"{m['target']:g}",
             "none" if m["measured"] is None else f"{m['measured']:.4g}",
             "" if m["range"] is None else "{:.4g} to {:.4g}".format(*m["range"]), m["verdict"]]
            for m in missed(summary, targets)
        ]  # fmt: skip
        text += ["## Outside the tolerance\n", record.table(head, lines)]
    return "\n".join(text) + "\n"


def _note(summary: Figures, targets: Mapping[str, Any]) -> str:
    verdicts = [each["verdict"] for each in missed(summary, targets)]
    count = sum(len(row) for rows in _tables(targets).values() for row in rows.values())
    return NOTE.format(
        seeds=summary["seeds"], count=count, within=count - len(verdicts),
        seeds_only=verdicts.count(BETWEEN_SEEDS), outside=verdicts.count(OUTSIDE),
    )  # fmt: skip


def _cells(
    part: str, found: Figures, target: Figures, targets: Mapping[str, Any] | None
) -> list[str]:
    cells = []
    for name, (_, form, _, _) in PARTS[part].items():
        value = found.get(name)
        text = "" if value is None else form.format(value)
        if targets and name in target:
            verdict = _verdict(part, name, found, target[name], targets["tolerance"])
            mark = {WITHIN: "", BETWEEN_SEEDS: "*", OUTSIDE: "**"}[verdict]
            text = f"{mark}{text or 'none'}{mark}"
        if name in found.get("range", {}):
            low, high = (form.format(end) for end in found["range"][name])
            text += f" [{low}, {high}]"
        if targets and name in target:
            text += f" ({form.format(target[name])})"
        cells.append(text)
    return cells
