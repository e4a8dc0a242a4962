"""Puts the committed results into the README and the docs, between the marks of each."""

import csv
import itertools
import json
import math
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reading import reading_memory, reading_rates
from reproduced import OF_REPRODUCTION
from tables import decisions, methods, overhead, resnet20, table, warmup
from trust import (
    fuzzing,
    guided_fuzzing,
    interruptions,
    intervals_hold,
    long_run,
    mutation_testing,
    other_machines,
    other_packages,
)

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
RESULTS = Path(__file__).parent / "results"
PEERS = ("scikit-learn", "probmetrics", "torch L-BFGS")
# Part, group and row of the results, and what the reader has.
HAVING = (
    ("sets", "T = 1", "nothing: T = 1"),
    ("sets", "UTS", "logits, with `uts`"),
    ("sets", "logits alone", "logits"),
    ("sets", "10 labels", "10 labels"),
    ("sets", "25 labels", "25 labels"),
    ("sets", "100 labels", "100 labels"),
    ("sets", "labels: all fitted rows", "a label for every fitted row"),
    ("sets", "accuracy counted on 25", "an accuracy counted on 25 rows"),
    ("sets", "accuracy counted on 100", "an accuracy counted on 100 rows"),
    ("sets", "accuracy ±0", "the exact accuracy of all rows, which nobody has"),
    ("sets", "25 labels + counted on 100", "25 labels, and an accuracy counted on 100 rows"),
    ("sets", "1 model", "one other model"),
    ("sets", "4 models", "four other models"),
    ("sets", "reference", "a stronger reference model"),
    ("sets", "reference + 25 labels", "a stronger reference model and 25 labels"),
    ("sources", "source", "an older labeled set"),
    ("sources", "source + 25 target labels", "an older labeled set and 25 labels"),
)
WHOLE = {"sets": "all sets", "sources": "all together"}
ACCURACIES = {
    "exact": "±0",
    "± .01": "±.01",
    "± .03": "±.03",
    **{f"counted on {n} rows": f"counted on {n}" for n in (25, 50, 100, 200)},
}
COVERED = (
    "logits alone", "5 labels", "10 labels", "25 labels", "100 labels", "200 labels",
    "labels: all fitted rows", "accuracy ±0", "accuracy ±.03", "stale accuracy",
    "accuracy counted on 25", "accuracy counted on 100", "25 labels + counted on 100", "1 model",
    "4 models", "reference", "reference + 25 labels",
)  # fmt: skip
SOURCES = (
    "T = 1", "source TS", "ATC + matching", "source", "25 target labels",
    "source + 25 target labels",
)  # fmt: skip
FAMILIES = {
    "T = 1": "T = 1",
    "UTS": "UTS",
    "without a gate": "votes alone",
    "models": "`calibrate`",
}


def evidence(found: dict[str, Any]) -> str:
    """What each kind of evidence is worth, beside T = 1 on the same sets."""
    rows = []
    for part, row, title in HAVING:
        r = found[part][WHOLE[part]][row]
        before = _before(row) if part == "sets" else found[part][WHOLE[part]]["T = 1"]["ece"]
        covered = f"{100 * r['cover']:.0f}" if "cover" in r else ""
        harmed = f"{r['harmed']} of {r['sets']}"
        rows.append((title, f"{before:.2f}", f"{r['ece']:.2f}", _excess(r), harmed, covered))
    head = ("you have", "ECE at T = 1, %", "ECE, %", "excess NLL", "sets harmed", "covered, %")
    return table(head, rows)


# The rows of the README, which share one baseline.
BOUGHT = (
    ("logits alone", "logits alone"),
    ("10 labels", "10 labels"),
    ("25 labels", "25 labels"),
    ("100 labels", "100 labels"),
    ("accuracy counted on 100", "an accuracy counted on 100 rows"),
    ("25 labels + counted on 100", "25 labels, and an accuracy counted on 100 rows"),
    ("accuracy ±0", "the exact accuracy of all rows"),
)


def bought(found: dict[str, Any]) -> str:
    """What each kind of evidence buys, on the same sets."""
    rows = found["sets"]["all sets"]
    lines = [("nothing: T = 1", f"{rows['T = 1']['ece']:.1f}", "", "")]
    for name, title in BOUGHT:
        r = rows[name]
        lines.append((title, f"{r['ece']:.1f}", r["harmed"], f"{100 * r['cover']:.0f}"))
    head = ("you have", "ECE, %", "harmed, of 39 sets", "95 % interval covers, %")
    return table(head, lines)


def promise(found: dict[str, Any]) -> str:
    """What a reader may expect, in one sentence."""
    rows = found["sets"]["all sets"]
    shown = ("T = 1", "logits alone", "25 labels", "100 labels")
    one, alone, few, more = (rows[name]["ece"] for name in shown)
    sentence = (
        f"On {rows['T = 1']['sets']} real sets of logits the mean calibration error (ECE) falls "
        f"from {one:.1f} % to {alone:.1f} % with logits alone, to {few:.1f} % with 25 labels, and "
        f"to {more:.1f} % with 100."
    )
    return textwrap.fill(sentence, 108)


def _before(row: str) -> float:
    """The mean ECE at T = 1 of the sets that have this row, in percent."""
    with (RESULTS / "evidence.csv").open(newline="", encoding="utf-8") as file:
        own = [each for each in csv.DictReader(file) if each["row"] == row]
    return 100 * sum(float(each["ece"]) - float(each["change"]) for each in own) / len(own)


def harm(found: dict[str, Any]) -> str:
    """How often UTS and the default helped and harmed, in a sentence."""
    rows = found["sets"]["all sets"]
    plain, uts, default = (rows[name] for name in ("T = 1", "UTS", "logits alone"))
    sentence = (
        f"On {uts['sets']} real sets of logits, UTS raised the ECE of {uts['harmed']} by more than "
        f"0.2 points, at worst by {uts['worst']:.0f} points. The default of `calibrate` raised it "
        f"on {default['harmed']}, at worst by {default['worst']:.1f} points, and lowered the mean "
        f"from {plain['ece']:.1f} % to {default['ece']:.1f} %."
    )
    return textwrap.fill(sentence, 100)


def accuracies(found: dict[str, Any]) -> str:
    """An accuracy as evidence, beside exact matching of the same number."""
    rows = []
    for title, name in ACCURACIES.items():
        ours, matched = (
            found["sets"]["all sets"][f"{how} {name}"] for how in ("accuracy", "matching")
        )
        figures = (f"{ours['ece']:.2f}", _excess(ours), f"{ours['harmed']} of {ours['sets']}")
        other = (f"{matched['ece']:.2f}", _excess(matched), matched["harmed"])
        rows.append((title, *figures, *other))
    head = ("ECE, %", "excess NLL", "harmed")
    exact = tuple(f"`match_accuracy`: {name}" for name in head)
    return table(("accuracy", *head, *exact), rows)


def families(found: dict[str, Any]) -> str:
    """ECE with other models as the only evidence, by family."""
    rows = [
        (
            group,
            *(f"{rows[name]['ece']:.2f}" for name in FAMILIES),
            f"{rows['models']['worst']:+.1f}",
        )
        for group, rows in found["families"].items()
        if group.startswith("cifar10") or "weakest" not in group
    ]
    return table(("", *FAMILIES.values(), "worst case, points"), rows)


def sources(found: dict[str, Any]) -> str:
    """ECE with an older labeled set, by what changed since."""
    rows = [
        (group, *(f"{rows[name]['ece']:.2f}" for name in SOURCES))
        for group, rows in found["sources"].items()
    ]
    return table(("", *SOURCES), rows)


def coverage(found: dict[str, Any]) -> str:
    """How often each interval contains the temperature of all labels."""
    rows = []
    for name in COVERED:
        r = found["sets"]["all sets"][name]
        shares = (r.get(f"cover{part}") for part in ("", "_vision", "_language", "_least"))
        cells = ("" if share is None else f"{100 * share:.0f}" for share in shares)
        rows.append((name, *cells, f"{math.exp(r['width']):.1f}"))
    head = ("evidence", "covers, %", "vision", "language models", "worst set", "high / low")
    return table(head, rows)


def helps(found: dict[str, Any]) -> str:
    """The reliability of `helps`."""
    edges = (0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1)
    rows = [
        (f"{low:g} to {high:g}", r["cases"], f"{r['predicted']:.3f}", f"{r['realized']:.3f}")
        for (low, high), r in zip(itertools.pairwise(edges), found["helps"]["bins"], strict=True)
    ]
    head = ("`helps`", "cases", "mean", "share of cases in which T lowered the NLL")
    return table(head, rows)


def speed(result: dict[str, Any]) -> str:
    """How much longer the labeled peers take than the label-free fit."""
    versions = result["versions"]
    names = [f"{p} {versions[p]}" for p in PEERS[:2]] + [f"L-BFGS, torch {versions['torch']}"]
    rows = []
    for size in result["results"]:
        times = (f"{size['ratio'][p]['min']:.1f} ×" for p in PEERS)
        fit = 1000 * size["seconds"]["tepid.uts"]["min"]
        rows.append((size["size"], f"{fit:.3g} ms", *times))
    return table(("rows × classes", "`uts`", *names), rows)


LANGUAGE = {
    "T = 1": "nothing: T = 1",
    "UTS": "logits alone, `uts`",
    "logits alone": "logits alone",
    "25 labels": "25 labels",
    "25 labels + accuracy ±.03": "25 labels and the accuracy ± 0.03",
    "DACA": "a reference, DACA",
    "reference": "a reference",
    "reference + 25 labels": "a reference and 25 labels",
    "labeled TS": "labels for every row, temperature scaling",
}


def language_models(found: dict[str, Any]) -> str:
    """What evidence buys eight language models, and the ninth is their reference."""
    rows = found["without the reference"]
    lines = [(title, *_cells(rows[name])) for name, title in LANGUAGE.items()]
    return table(("you have", "ECE, %", "excess NLL", "harmed", "interval covers"), lines)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    harmed = f"{row['harmed']} of {row['sets']}"
    covers = f"{row['cover']:.2f}" if "cover" in row else ""
    return f"{row['ece']:.2f}", f"{row['excess_nll']:.4f}", harmed, covers


def language_sets(found: dict[str, Any]) -> str:
    """The ECE of every set by evidence."""
    names = ("T = 1", "UTS", "logits alone", "25 labels", "DACA", "reference",
             "reference + 25 labels", "labeled TS")  # fmt: skip
    lines = [
        (name, *(f"{each[row]:.1f}" if row in each else "" for row in names))
        for name, each in found["by set"].items()
    ]
    return table(("set", *names), lines)


def judged_rows(found: dict[str, Any]) -> str:
    """What a reference on some of the rows is worth."""
    rows = found["without the reference"]
    counts = {f"{n} judged rows": str(n) for n in (50, 100, 200, 500)} | {"reference": "all 2000"}
    lines = []
    for name, shown in counts.items():
        both = (rows[name], rows[f"{name}, classes alone"])
        lines.append((shown, *(cell for row in both for cell in _judged(row))))
    head = ("ECE, %", "excess NLL", "covers")
    return table(("judged rows", *head, *(f"{title}, classes alone" for title in head)), lines)


def _judged(row: dict[str, Any]) -> tuple[str, str, str]:
    return f"{row['ece']:.2f}", f"{row['excess_nll']:.4f}", f"{row['cover']:.2f}"


OF_LANGUAGE_MODELS = (language_models, language_sets, judged_rows)


def acts(result: dict[str, Any]) -> str:
    """Three ways to choose T on the same posterior of labels."""
    counts = result["acts"]["labels"]
    rows = [
        (title, *(f"{value:.4f}" for value in result["acts"][name]))
        for name, title in (
            ("bayes", "Bayes act for log loss"), ("mean", "posterior mean"), ("mode", "mode")
        )
    ]  # fmt: skip
    return table(("excess NLL with", *(f"{n} labels" for n in counts)), rows)


def weak_models(result: dict[str, Any]) -> str:
    """What the rule for less confident models costs and saves."""
    rows = [(name, *(f"{value:.2f}" for value in row)) for name, row in result["models"].items()]
    return table(("ECE, %", "without the rule", "with it"), rows)


OF_EVIDENCE = (evidence, bought, promise, harm, accuracies, families, sources, coverage, helps)
OF_DESIGN = (acts, weak_models)


def contents() -> dict[str, str]:
    """What belongs between the marks of each name."""
    found = _read("evidence")
    makers: tuple[Callable[[dict[str, Any]], str], ...] = OF_EVIDENCE
    others = {make.__name__: make(_read(make.__name__)) for make in OF_THEIR_OWN}
    others |= {make.__name__: make(_read("reading")) for make in OF_READING}
    others |= {make.__name__: make(_read("design")) for make in OF_DESIGN}
    others |= {make.__name__: make(_read("llm")) for make in OF_LANGUAGE_MODELS}
    others |= {make.__name__: make(_read(name)) for name, make in OF_TRUST.items()}
    again = {make.__name__: make(_read("reproduction")) for make in OF_REPRODUCTION}
    return {make.__name__: make(found) for make in makers} | others | again


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _excess(figures: dict[str, Any]) -> str:
    value = figures["excess_nll"]
    return f"{value:.2f}" if value >= 1 else f"{value:.4f}"


# Each from the results file of its own name.
OF_THEIR_OWN = (speed, resnet20, warmup, methods, overhead, decisions)
OF_READING = (reading_rates, reading_memory)
# By the results file.
OF_TRUST = {
    "evidence": intervals_hold,
    "fuzz": fuzzing,
    "fuzz_guided": guided_fuzzing,
    "chaos": interruptions,
    "soak": long_run,
    "matrix": other_machines,
    "conformance": other_packages,
    "mutants": mutation_testing,
}


def between(text: str, name: str, content: str) -> str:
    """The text with `content` between the marks of `name`."""
    head, rest = text.split(f"<!-- {name}", 1)
    mark, tail = rest.split("-->", 1)
    return f"{head}<!-- {name}{mark}-->\n{content}\n<!-- end -->{tail.split('<!-- end -->', 1)[1]}"


def main() -> None:
    """Rewrite what stands between the marks."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        for name, content in contents().items():
            if f"<!-- {name}:" in text:
                text = between(text, f"{name}:", content)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
