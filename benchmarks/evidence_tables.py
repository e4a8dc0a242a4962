"""From records of single cases to the figures of each row, and their comparison with the targets.

ECE, its change and tension are in percent. ECE and excess NLL are means over sets of the means over
draws; a set is harmed if its mean ECE rises by more than .2 points over T = 1. Coverage, width and
tension are over all cases. In a family of models each group and split counts as a set.
"""

import csv
import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import record

Record = dict[str, Any]
Figures = dict[str, Any]
TARGETS = Path(__file__).with_name("evidence_targets.json")
HARM = 0.2
# Half of the last printed digit of the targets.
ROUNDING = {"ece": 0.005, "excess_nll": 0.00005, "cover": 0.0005}
# The evidence of the reliability table of `helps`, and its bins.
JUDGED = (
    "logits alone", "5 labels", "10 labels", "25 labels", "100 labels", "accuracy ±.01",
    "accuracy ±.03", "accuracy counted on 50",
)  # fmt: skip
EDGES = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)


# Figures ------------------------------------------------------------------------------------------


def summarize(
    records: list[Record], folder_of: Mapping[str, str], is_language: Callable[[str], bool]
) -> Figures:
    """The figures of every row, by part and group of sets."""
    parts: dict[str, dict[str, dict[str, list[Record]]]] = {}
    folders = set(folder_of.values())
    for each in records:
        groups = [each["group"]]
        if each["part"] == "sets":
            groups = ["all sets", *([folder_of[each["set"]]] if len(folders) > 1 else [])]
        if each["part"] == "sources":
            groups = ["all together", each["group"]]
        for group in groups:
            rows = parts.setdefault(each["part"], {}).setdefault(group, {})
            rows.setdefault(each["row"], []).append(each)
    targets = read_targets()
    found: Figures = {}
    for part, groups in parts.items():
        like = targets[part]
        rows_like = next(iter(like.values()))
        found[part] = {
            group: {
                row: figures(cases, is_language) for row, cases in _ordered(rows, rows_like).items()
            }
            for group, rows in _ordered(groups, like).items()
        }
    return found | {"helps": helps([each for each in records if each["part"] == "sets"])}


def _ordered(found: Mapping[str, Any], like: Iterable[str]) -> dict[str, Any]:
    """The same in the order of another mapping; what is only in the first comes last."""
    return {name: found[name] for name in dict.fromkeys((*like, *found)) if name in found}


def figures(records: list[Record], is_language: Callable[[str], bool]) -> Figures:
    """The figures of one row."""
    by_case: dict[str, list[Record]] = {}
    for each in records:
        by_case.setdefault(each["case"], []).append(each)
    change = {case: 100 * _mean(each, "change") for case, each in by_case.items()}
    harmed = [case for case, value in change.items() if value > HARM]
    found: Figures = {
        "sets": len(by_case),
        "cases": len(records),
        "ece": 100 * float(np.mean([_mean(each, "ece") for each in by_case.values()])),
        "excess_nll": float(np.mean([_mean(each, "excess_nll") for each in by_case.values()])),
        "harmed": len(harmed),
        "worst": max(change.values()),
        "errors": {
            "ece": 100 * _standard_error(by_case, "ece"),
            "excess_nll": _standard_error(by_case, "excess_nll"),
        },
    }
    if "covered" not in records[0]:
        return found
    vision = [r for r in records if not is_language(r["set"])]
    language = [r for r in records if is_language(r["set"])]
    each_set = {name: _mean([r for r in records if r["set"] == name], "covered")
                for name in {r["set"] for r in records}}  # fmt: skip
    least = min(sorted(each_set), key=lambda name: each_set[name])
    found["cover"] = _mean(records, "covered")
    found |= {"cover_vision": _mean(vision, "covered")} if vision else {}
    found |= {"cover_language": _mean(language, "covered")} if language else {}
    return found | {
        "cover_least": each_set[least],
        "least_covered_set": least,
        "width": float(np.median([r["width"] for r in records])),
        "tension": 100 * _mean(records, "tension"),
    }


def _mean(records: Iterable[Record], name: str) -> float:
    return float(np.mean([each[name] for each in records]))


def _standard_error(by_case: Mapping[str, list[Record]], name: str) -> float:
    """The standard error that the draws give to a mean over cases of the means over draws."""
    variances = [
        np.var([each[name] for each in records], ddof=1) / len(records)
        for records in by_case.values()
        if len(records) > 1
    ]
    return float(np.sqrt(np.sum(variances)) / len(by_case))


def helps(records: list[Record]) -> Figures:
    """The reliability of `helps`: by its value, and by kind of evidence."""
    known = [r for r in records if r.get("helps") is not None]
    judged = [r for r in known if r["row"] in JUDGED]
    place = np.digitize([r["helps"] for r in judged], EDGES[1:-1])
    bins = [[r for r, at in zip(judged, place, strict=True) if at == bin_]
            for bin_ in range(len(EDGES) - 1)]  # fmt: skip
    kinds = dict.fromkeys(r["row"] for r in known)
    return {
        "bins": [_reliability(each) for each in bins],
        "kinds": {kind: _reliability([r for r in known if r["row"] == kind]) for kind in kinds},
    }


def _reliability(records: list[Record]) -> Figures:
    if not records:
        return {"cases": 0}
    return {
        "cases": len(records),
        "predicted": _mean(records, "helps"),
        "realized": _mean(records, "helped"),
    }


def write_csv(path: Path, records: list[Record]) -> None:
    """The means of each row on each set, numbers to six digits."""
    by_key: dict[tuple[str, str], list[Record]] = {}
    for each in records:
        if each["part"] == "sets":
            by_key.setdefault((each["row"], each["set"]), []).append(each)
    names = ("ece", "change", "excess_nll", "covered")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("row", "set", "cases", *names))
        for key, cases in by_key.items():
            values = (f"{_mean(cases, n):.6g}" if n in cases[0] else "" for n in names)
            writer.writerow((*key, len(cases), *values))


# Comparison with the targets ----------------------------------------------------------------------


def read_targets() -> dict[str, Any]:
    """The figures that the design reached."""
    found: dict[str, Any] = json.loads(TARGETS.read_text(encoding="utf-8"))
    return found


def outside(found: Figures, target: Mapping[str, Any], targets: Mapping[str, Any]) -> list[str]:
    """The figures of a row that miss their target by more than the tolerance."""
    tolerance = targets["tolerance"]["fixed" if target["fixed"] else "drawn"]
    allowed = {
        "ece": tolerance["ece"],
        "excess_nll": tolerance["excess_nll"] * target["excess_nll"],
        "cover": tolerance["cover"],
    }
    return [
        name
        for name, most in allowed.items()
        if name in target and abs(found[name] - target[name]) > most + ROUNDING[name]
    ]


def all_outside(summary: Figures, targets: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every figure that misses its target by more than the tolerance."""
    return [
        {"part": part, "group": group, "row": row, "figure": name,
         "target": target[name], "measured": summary[part][group][row][name],
         "error": summary[part][group][row]["errors"].get(name, 0.0)}
        for part in ("sets", "sources", "families")
        for group, rows in targets[part].items()
        for row, target in rows.items()
        for name in outside(summary[part][group][row], target, targets)
    ]  # fmt: skip


# Markdown -----------------------------------------------------------------------------------------

NOTE = """\
Each cell is the measured figure and, in brackets, the design target. A figure in bold misses its
target by more than the tolerance: .25 points of ECE and 15 % of the excess NLL where the evidence
is drawn, .15 points and 10 % where it is not, and .02 of coverage. ECE: 15 equal-width bins, in
percent. Excess NLL: above that of the oracle temperature on the same rows. Harmed: sets whose ECE
rises by more than .2 points over T = 1; worst: the largest rise. Coverage: cases in which the 95 %
interval contains the T of temperature scaling on all rows. Width: the median of log(high / low).
Tension: cases in which the result names a kind of evidence that contradicts the others.
"""
DRAWS = """\
The design's own draws cannot be repeated: every row here has drawn evidence, and other draws of it.
The standard error is that of the measured figure over its draws. The target has one of its own,
which is not known and is larger, since it comes from half as many draws.
"""
TITLES = {
    "sets": "Evidence on the same rows",
    "sources": "An older labeled set",
    "families": "Other models, by family",
}
HEAD = (
    "evidence", "ECE, %", "excess NLL", "harmed", "worst", "coverage", "vision", "LLM",
    "least set", "width", "tension, %",
)  # fmt: skip
COLUMNS = (
    ("ece", "{:.2f}"), ("excess_nll", "{:.4f}"), ("harmed", "{:d}"), ("worst", "{:+.1f}"),
    ("cover", "{:.3f}"), ("cover_vision", "{:.2f}"), ("cover_language", "{:.2f}"),
    ("cover_least", "{:.2f}"), ("width", "{:.2f}"), ("tension", "{:.1f}"),
)  # fmt: skip


def markdown(summary: Figures, targets: Mapping[str, Any] | None) -> str:
    """Every table; without targets where the sets are others than those of the targets."""
    text = [NOTE if targets else NOTE[NOTE.index("ECE: 15") :]]
    for part, title in TITLES.items():
        if part in summary:
            text.append(f"## {title}\n")
        if part == "families":
            text.append(_families(summary.get(part, {}), targets) + "\n")
            continue
        for group, rows in summary.get(part, {}).items():
            wanted = targets[part].get(group, {}) if targets else {}
            text += [f"### {group}\n", _table(rows, wanted, targets) + "\n"]
    text += ["## The probability that T helps\n", _helps(summary["helps"], targets)]
    if targets:
        text += ["\n## Outside the tolerance\n", _missed(summary, targets)]
    return "\n".join(text)


def _table(
    rows: Mapping[str, Figures], wanted: Mapping[str, Any], targets: Mapping[str, Any] | None
) -> str:
    lines = []
    for row, found in rows.items():
        target = wanted.get(row, {})
        missed = outside(found, target, targets) if target and targets else []
        # Tension needs two kinds of evidence.
        shown = [(name, form) for name, form in COLUMNS if name != "tension" or "+" in row]
        cells = [_cell(found, target, name, form, name in missed) for name, form in shown]
        lines.append([row, *cells, *[""] * (len(COLUMNS) - len(cells))])
    return record.table(HEAD, lines)


def _cell(found: Figures, target: Mapping[str, Any], name: str, form: str, missed: bool) -> str:  # noqa: FBT001
    if name not in found:
        return ""
    text = form.format(found[name])
    text = f"**{text}**" if missed else text
    if name == "harmed":
        text = f"{text} of {found['sets']}"
    return f"{text} ({form.format(target[name])})" if name in target else text


def _families(groups: Mapping[str, Any], targets: Mapping[str, Any] | None) -> str:
    """One line per family and size of the groups."""
    lines = []
    for group, rows in groups.items():
        wanted = targets["families"].get(group, {}) if targets else {}
        cells = []
        for row, names in (
            *((row, ("ece", "excess_nll")) for row in ("T = 1", "UTS", "without a gate")),
            ("models", ("ece", "excess_nll", "harmed", "worst", "cover", "width")),
        ):
            target = wanted.get(row, {})
            missed = outside(rows[row], target, targets) if target and targets else []
            # Shares of all cases, since their number differs between families.
            found = rows[row] | {"harmed": round(100 * rows[row]["harmed"] / rows[row]["sets"])}
            cells.append([
                _cell(found, target, name, form, name in missed).replace(f" of {found['sets']}", "")
                for name, form in COLUMNS if name in names
            ])  # fmt: skip
        *pairs, models = cells
        lines.append(
            [group, rows["models"]["sets"], *(" / ".join(pair) for pair in pairs), *models]
        )
    head = (
        "models", "cases", "T = 1: ECE, % / excess NLL", "UTS", "without a gate",
        "calibrate: ECE, %", "excess NLL", "harmed, %", "worst", "coverage", "width",
    )  # fmt: skip
    return record.table(head, lines)


def _helps(found: Figures, targets: Mapping[str, Any] | None) -> str:
    names = [f"{low:g} to {high:g}" for low, high in itertools.pairwise(EDGES)]
    wanted: Mapping[str, Any] = targets["helps"] if targets else {"bins": [{}] * 7, "kinds": {}}
    bins = [
        _judged(n, *pair) for n, *pair in zip(names, found["bins"], wanted["bins"], strict=True)
    ]
    kinds = [_judged(k, r, wanted["kinds"].get(k, {})) for k, r in found["kinds"].items()]
    head = ("cases", "mean predicted", "realized")
    return (
        f"Bins of the evidence {', '.join(JUDGED)}:\n\n"
        f"{record.table(('predicted', *head), bins)}\n\n"
        f"By evidence:\n\n{record.table(('evidence', *head), kinds)}\n"
    )


def _judged(name: str, found: Figures, target: Mapping[str, float]) -> tuple[str, ...]:
    cells = [
        (f"{found[key]:.3f}" if key in found else "")
        + (f" ({target[key]:.3f})" if key in target else "")
        for key in ("predicted", "realized")
    ]
    return name, str(found["cases"]), *cells


def _missed(summary: Figures, targets: Mapping[str, Any]) -> str:
    rows = [
        (m["part"], m["group"], m["row"], m["figure"], f"{m['target']:g}", f"{m['measured']:.4g}",
         f"{m['error']:.2g}" if m["error"] else "")
        for m in all_outside(summary, targets)
    ]  # fmt: skip
    head = ("part", "group", "row", "figure", "target", "measured", "standard error")
    return f"{DRAWS}\n{record.table(head, rows)}\n"
