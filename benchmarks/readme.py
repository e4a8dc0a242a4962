"""Puts the committed results into the README and the docs, between the marks of each."""

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reading import reading_memory, reading_rates
from reproduced import OF_REPRODUCTION
from tables import methods, overhead, percent, resnet20, table, warmup

ROOT = Path(__file__).parents[1]
PAGES = (
    ROOT / "README.md",
    ROOT / "docs" / "trust-the-temperature.md",
    ROOT / "docs" / "pytorch.md",
    ROOT / "docs" / "methods.md",
    ROOT / "docs" / "reproduction.md",
    ROOT / "docs" / "online.md",
    ROOT / "docs" / "any-size.md",
)
RESULTS = Path(__file__).parent / "results"
PEERS = ("scikit-learn", "probmetrics", "torch L-BFGS")
ALL = ("alone", "all sets")
# Part, group and rung of the results, and what the reader has in hand.
HAVING = (
    (*ALL, "T = 1", "nothing: T = 1"),
    (*ALL, "UTS", "logits alone, UTS"),
    (*ALL, "guarded", "logits alone, guarded"),
    ("few", "25 labels", "few labels", "logits and 25 labels"),
    ("few", "100 labels", "few labels", "logits and 100 labels"),
    (*ALL, "accuracy", "logits and the accuracy"),
    (*ALL, "labels", "labels for every fitted row"),
    ("peers", "pool pairs", "models", "logits and one other model"),
    ("peers", "pool triples", "models", "logits and two other models"),
    ("peers", "pool fives", "models", "logits and four other models"),
    ("shift", "iid", "source, any", "logits and an older labeled set; nothing changed"),
    ("shift", "label shift", "source, any", "the same; the classes' frequencies changed"),
    ("shift", "hard rows, others' confidence", "source, any", "the same; harder rows came"),
    ("shift", "real shift", "source, any", "the same; slides of another clinic came"),
)
LADDER = ("T = 1", "UTS", "UTS, debiased", "guarded, no budget", "guarded", "accuracy", "labels")
MODELS = ("T = 1", "UTS", "votes, no gate", "majority, no gate", "models", "labels")
SOURCES = ("T = 1", "UTS", "source, none", "source, any", "best T")


def evidence(parts: dict[str, Any]) -> str:
    """What each kind of evidence buys, beside T = 1 on the same rows."""
    rows = []
    for part, group, rung, title in HAVING:
        r = parts[part][group][rung]
        harmed = f"{r['harmed']} of {r['cases']}"
        rows.append((title, percent(r["ece_before"]), percent(r["ece"]), _excess(r), harmed))
    return table(("you have", "ECE at T = 1, %", "ECE, %", "excess NLL", "harmed"), rows)


def harm(parts: dict[str, Any]) -> str:
    """How often UTS helped and harmed, in a sentence."""
    rungs = parts["alone"]["all sets"]
    plain, uts, matched = (rungs[name] for name in ("T = 1", "UTS", "accuracy"))
    sentence = (
        f"Measured on {uts['cases']} real sets of logits, UTS raised the calibration error of "
        f"{uts['harmed']} by more than .2 points, at worst by {100 * uts['worst']:.0f} points, and "
        f"brought its mean from {percent(plain['ece'], 1)} % to {percent(uts['ece'], 1)} %; "
        f"matching the known accuracy brought it to {percent(matched['ece'], 1)} % and harmed "
        f"{matched['harmed'] or 'none'}."
    )
    return textwrap.fill(sentence, 100)


def ladder(parts: dict[str, Any]) -> str:
    """Logits alone, the accuracy and labels, with the worst harm of each."""
    rungs = parts["alone"]["all sets"]
    rows = [
        (
            name,
            percent(rungs[name]["ece"]),
            _excess(rungs[name]),
            rungs[name]["harmed"],
            f"{100 * rungs[name]['worst']:+.2f}",
            f"{rungs[name]['median_log_error']:.3f}",
        )
        for name in LADDER
    ]
    head = ("rung", "ECE, %", "excess NLL", "harmed", "worst, points", "median error of log T")
    return table(head, rows)


def few(parts: dict[str, Any]) -> str:
    """A few labels beside plain temperature scaling on the same."""
    rows = []
    for group, rungs in parts["few"].items():
        ours, plain = rungs["few labels"], rungs["plain scaling"]
        covered = f"{100 * ours['covered']:.0f}"
        both = (percent(ours["ece"]), _excess(ours), covered, percent(plain["ece"]))
        rows.append((group.split()[0], *both, _excess(plain)))
    head = ("labels", "ECE, %", "excess NLL", "interval covers, %", "plain: ECE", "excess NLL")
    return table(head, rows)


def peers(parts: dict[str, Any]) -> str:
    """ECE with other models, over all cases and over those in which no peer was refused."""
    groups = parts["peers"]
    rows = []
    for group, rungs in groups.items():
        gated = rungs["models"]
        kept = gated.get("accepted")
        refused = f"{gated['cases'] - (kept['cases'] if kept else 0)} of {gated['cases']}"
        there = percent(kept["ece"]) if kept else ""
        rows.append((group, *(percent(rungs[name]["ece"]) for name in MODELS), refused, there))
    return table(("", *MODELS, "refused", "models, not refused"), rows)


def shift(parts: dict[str, Any]) -> str:
    """ECE with an older labeled set, by what changed since."""
    rows = [
        (group, *(percent(rungs[name]["ece"]) for name in SOURCES))
        for group, rungs in parts["shift"].items()
    ]
    return table(("", *SOURCES), rows)


def coverage(parts: dict[str, Any]) -> str:
    """How often each interval held what it should."""
    rows = []
    for group, rungs in parts["coverage"].items():
        for name, r in rungs.items():
            least = f"{100 * r['least_covered']:.0f}" if r["cases"] > 1 else ""
            rows.append((name, group, r["intervals"], f"{100 * r['covered']:.1f}", least))
    return table(("interval", "on", "printed", "covered, %", "of the worst set, %"), rows)


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


def rules(result: dict[str, Any]) -> str:
    """Rules for logits alone, on real sets left out and on made networks."""
    rows = []
    for name, rule in result["rules"].items():
        real, made = rule["real"], rule["made"]
        first = (percent(real["ece"]), _excess(real), real["harmed"])
        second = (percent(made["ece"]), _excess(made), made["harmed"])
        rows.append((name, rule["tried"], *first, *second))
    head = ("ECE, %", "excess NLL", "harmed")
    return table(("rule", "tried", *head, *(f"made: {h}" for h in head)), rows)


OF_EVIDENCE = (evidence, harm, ladder, few, peers, shift, coverage)


def contents() -> dict[str, str]:
    """What belongs between the marks of each name."""
    parts = _read("evidence")["parts"]
    makers: tuple[Callable[[dict[str, Any]], str], ...] = OF_EVIDENCE
    others = {make.__name__: make(_read(make.__name__)) for make in OF_THEIR_OWN}
    others |= {make.__name__: make(_read("reading")) for make in OF_READING}
    found = _read("reproduction")
    again = {make.__name__: make(found) for make in OF_REPRODUCTION}
    return {make.__name__: make(parts) for make in makers} | others | again


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _excess(figures: dict[str, Any]) -> str:
    value = figures["excess_nll"]
    return f"{value:.2f}" if value >= 1 else f"{value:.4f}"


# Each from the results file of its own name.
OF_THEIR_OWN = (speed, rules, resnet20, warmup, methods, overhead)
OF_READING = (reading_rates, reading_memory)


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
