"""The figures of every rung as tables to read."""

from typing import Any

import record

HEAD = (
    "rung",
    "cases",
    "ECE at T = 1, %",
    "ECE, %",
    "excess NLL",
    "harmed",
    "worst harm, points",
    "median error of log T",
)
ACCEPTED = ("ECE where no peer was refused, %", "excess NLL there", "cases there")
COVERED = (
    "interval",
    "cases",
    "draws",
    "with an interval",
    "covered, %",
    "least of a case, %",
    "log(high / low)",
)
TITLES = {
    "alone": "Logits alone, the accuracy, labels",
    "few": "A few labels",
    "peers": "Other models on the same rows",
    "shift": "An older labeled set",
    "coverage": "Coverage of the intervals",
}
NOTE = """\
ECE: 15 equal-width bins. Excess NLL: above that of the best temperature for the same rows. A case
is harmed if its ECE rises by more than .2 points above that at T = 1. Means are over cases of the
means over draws. T is judged within .05 to 50. What is drawn is said at the head of `cases.py`,
`rungs.py`, `shifts.py` and `covering.py`.
"""


def tables(summary: dict[str, Any]) -> str:
    """Everything, part by part."""
    text = [NOTE]
    for part, groups in summary.items():
        text.append(f"## {TITLES[part]}\n")
        for group, rungs in groups.items():
            text.append(f"### {group}\n")
            text.append((_covered if part == "coverage" else _judged)(rungs) + "\n")
    return "\n".join(text)


def _judged(rungs: dict[str, Any]) -> str:
    models = any("accepted" in r for r in rungs.values())
    covered = any("covered" in r for r in rungs.values())
    head = HEAD + (ACCEPTED if models else ()) + (("covered, %",) if covered else ())
    rows = []
    for name, r in rungs.items():
        row = [
            f"{name} ({r['refused']} refused)" if "refused" in r else name,
            r["cases"],
            f"{100 * r['ece_before']:.2f}",
            f"{100 * r['ece']:.2f}",
            f"{r['excess_nll']:.4f}",
            r["harmed"],
            f"{100 * r['worst']:.2f}",
            f"{r['median_log_error']:.3f}",
        ]
        if models:
            kept = r["accepted"]
            row += [f"{100 * kept['ece']:.2f}", f"{kept['excess_nll']:.4f}", kept["cases"]]
        if covered:
            row.append(f"{100 * r['covered']:.1f}" if "covered" in r else "")
        rows.append(row)
    return record.table(head, rows)


def _covered(rungs: dict[str, Any]) -> str:
    rows = [
        (
            name,
            r["cases"],
            r["draws"],
            r["intervals"],
            f"{100 * r['covered']:.1f}",
            f"{100 * r['least_covered']:.1f}",
            f"{r['width']:.3f}" if "width" in r else "",
        )
        for name, r in rungs.items()
    ]
    return record.table(COVERED, rows)
