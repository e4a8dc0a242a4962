"""Puts the committed results into the README, between the marks of each."""

import json
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README, TRUST = ROOT / "README.md", ROOT / "docs" / "trust-the-temperature.md"
RESULTS = Path(__file__).parent / "results"
EVIDENCE = {
    "uncalibrated": "nothing (T = 1)",
    "uts": "unlabelled logits",
    "accuracy": "… and the accuracy, one number",
    "temperature": "labels for every row",
}
LADDER = {
    "T = 1": "nothing (T = 1)",
    "uts": "logits alone, UTS",
    "guarded": "logits alone, guarded",
    "25 labels": "… and 25 labels",
    "100 labels": "… and 100 labels",
    "accuracy": "… and the accuracy",
    "labels": "labels for every row",
}
PEERS = ("scikit-learn", "probmetrics", "torch L-BFGS")


def evidence(result: dict[str, Any]) -> str:
    """What each kind of evidence buys."""
    lines = ["| evidence | T | ECE, % | NLL |", "|---|---|---|---|"]
    for name, title in EVIDENCE.items():
        m = result["methods"][name]
        t, ece, nll = m["temperature"], m["ece"], m["nll"]
        lines.append(
            f"| {title} | {t['mean']:.2f} ± {t['sd']:.2f} "
            f"| {100 * ece['mean']:.2f} ± {100 * ece['sd']:.2f} "
            f"| {nll['mean']:.4f} ± {nll['sd']:.4f} |"
        )
    return "\n".join(lines)


def speed(result: dict[str, Any]) -> str:
    """How much longer the labelled peers take than the label-free fit."""
    versions = result["versions"]
    peers = [f"{p} {versions[p]}" for p in PEERS[:2]] + [f"L-BFGS, torch {versions['torch']}"]
    lines = [
        f"| rows × classes | `from_logits` | {' | '.join(peers)} |",
        "|---|---|---|---|---|",
    ]
    for size in result["results"]:
        times = (f"{size['ratio'][p]['min']:.1f} ×" for p in PEERS)
        fit = 1000 * size["seconds"]["tepid.from_logits"]["min"]
        lines.append(f"| {size['size']} | {fit:.3g} ms | {' | '.join(times)} |")
    return "\n".join(lines)


def real_sets(result: dict[str, Any]) -> str:
    """How often UTS helped on real sets."""
    uts, matched = result["summary"]["uts"], result["summary"]["accuracy"]
    plain, count = result["summary"]["uncalibrated"], len(result["sets"])
    sentence = (
        f"Measured on {count} real sets of logits, UTS lowered the calibration error of "
        f"{uts['lowered']}, raised that of {uts['harmed']} by more than .2 points, and brought "
        f"its mean from {100 * plain['ece']:.1f} % to {100 * uts['ece']:.1f} %; matching the known "
        f"accuracy brought it to {100 * matched['ece']:.1f} % and harmed {matched['harmed']}."
    )
    return textwrap.fill(sentence, 100)


def ladder(result: dict[str, Any]) -> str:
    """What each rung is worth on real sets."""
    lines = ["| evidence | ECE, % | excess NLL | harmed of 30 |", "|---|---|---|---|"]
    for name, title in LADDER.items():
        r = result["rungs"][name]
        harmed = r.get("harmed", "")
        lines.append(f"| {title} | {100 * r['ece']:.2f} | {r['excess']:.4f} | {harmed} |")
    return "\n".join(lines)


def between(text: str, name: str, content: str) -> str:
    """The text with `content` between the marks of `name`."""
    head, rest = text.split(f"<!-- {name}", 1)
    mark, tail = rest.split("-->", 1)
    return f"{head}<!-- {name}{mark}-->\n{content}\n<!-- end -->{tail.split('<!-- end -->', 1)[1]}"


def main() -> None:
    """Rewrite the tables of the README and of the page on trust."""
    tables = {"evidence": evidence, "speed": speed, "real_sets": real_sets, "ladder": ladder}
    for path in (README, TRUST):
        text = path.read_text(encoding="utf-8")
        for name, table in tables.items():
            if f"<!-- {name}:" in text:
                result = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
                text = between(text, f"{name}:", table(result))
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
