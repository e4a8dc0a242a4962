"""Puts the committed results of intervals.py into docs/measures.md, between the marks of each."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "measures.md"
RESULTS = ROOT / "benchmarks" / "results" / "intervals.json"
MEASURES = ("ece", "ece_equal_mass", "smooth_ece", "rmsce_debiased", "ks_error", "mce")


def calibrated(result: dict[str, Any]) -> str:
    """What rows score that are calibrated by their making, in percent."""
    lines = ["| rows | " + " | ".join(f"`{m}`" for m in MEASURES) + " |"]
    lines.append("|" + "---|" * (1 + len(MEASURES)))
    for row in result["calibrated"]:
        cells = " | ".join(f"{100 * row[m]:.3g}" for m in MEASURES)
        lines.append(f"| {row['rows']} | {cells} |")
    return "\n".join(lines)


def intervals(result: dict[str, Any]) -> str:
    """How often the basic interval of each measure held the truth, from case to case."""
    lines = ["| measure | calibrated | too sharp |", "|---|---|---|"]
    cases = result["intervals"]
    for measure in dict.fromkeys(case["measure"] for case in cases):
        own = [case for case in cases if case["measure"] == measure]
        right = _span([case["basic"] for case in own if case["sharpness"] == 1])
        sharp = _span([case["basic"] for case in own if case["sharpness"] > 1])
        lines.append(f"| `{measure}` | {right} | {sharp} |")
    return "\n".join(lines)


def _span(shares: list[float]) -> str:
    if not shares:
        return "not measured"
    low, high = (f"{100 * end:.0f}" for end in (min(shares), max(shares)))
    return low if low == high else f"{low} to {high}"


def written(text: str) -> str:
    """The page with what belongs between its marks."""
    result = json.loads(RESULTS.read_text(encoding="utf-8"))
    for make in (calibrated, intervals):
        head, rest = text.split(f"<!-- {make.__name__}:", 1)
        mark, rest = rest.split("-->", 1)
        tail = rest.split("<!-- end -->", 1)[1]
        text = f"{head}<!-- {make.__name__}:{mark}-->\n{make(result)}\n<!-- end -->{tail}"
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
