"""Tables and sentences of docs/trust.md, from the committed results."""

import textwrap
from typing import Any

from tables import table

SHOWN = ("logits alone", "10 labels", "25 labels", "100 labels", "accuracy ±.03", "reference")


def intervals_hold(found: dict[str, Any]) -> str:
    """How often the 95 % interval covers, and what `helps` is worth."""
    rows = found["sets"]["all sets"]
    lines = [(name, rows[name]["sets"], f"{100 * rows[name]['cover']:.0f}") for name in SHOWN]
    bins = found["helps"]["bins"]
    cases = sum(each["cases"] for each in bins)
    predicted, realized = (
        sum(each["cases"] * each[key] for each in bins) / cases for key in ("predicted", "realized")
    )
    helps = (
        f"Over {cases:,} cases, the mean of `helps` is {predicted:.2f}, and T lowered the log loss "
        f"in a share of {realized:.2f}."
    )
    covered = table(("evidence", "sets", "the 95 % interval covers, %"), lines)
    return f"{covered}\n\n{helps}"


def fuzzing(found: dict[str, Any]) -> str:
    """How many files were mutated, and what was found."""
    return _paragraph(
        f"{found['executions']:,} mutated files of {len(found['formats'])} formats "
        f"({found['date']}): {found['findings']} findings."
    )


def guided_fuzzing(found: dict[str, Any]) -> str:
    """How many files were mutated with coverage as the guide, and what was found."""
    executions = sum(each["executions"] for each in found["formats"])
    findings = sum(bool(each["finding"]) for each in found["formats"])
    return _paragraph(
        f"{executions:,} mutated files, guided by the coverage of tepid ({found['date']}): "
        f"{findings} findings."
    )


def interruptions(found: dict[str, Any]) -> str:
    """How many kills and faults, and what was found."""
    return _paragraph(
        f"{found['total']} kills and faults, {found['checks']} checks ({found['date']}): "
        f"{len(found['failed'])} failed."
    )


def long_run(found: dict[str, Any]) -> str:
    """The memory of a monitor over many rows."""
    return _paragraph(
        f"{found['rows']:,} rows in {found['batches']:,} batches ({found['date']}): "
        f"{found['memory_at_a_tenth_mb']:.0f} MB of memory after a tenth of the rows, at most "
        f"{found['memory_largest_mb']:.0f} MB later, and {len(found['wrong'])} of "
        f"{len(found['checks'])} checks failed."
    )


def other_machines(found: dict[str, Any]) -> str:
    """How many environments pass."""
    counts, cells = found["counts"], found["cells"]
    names = [cell["cell"] for cell in cells if cell["result"].startswith("failed")]
    passed = counts["cells"] - counts["failed"] - counts["skipped"] - counts["not_run"]
    failed = f", {counts['failed']} fail ({', '.join(names)})" if names else ""
    return _paragraph(
        f"{counts['cells']} environments ({found['date']}): {passed} pass{failed}, and "
        f"{counts['skipped']} skipped."
    )


def other_packages(found: dict[str, Any]) -> str:
    """The verdicts on the answers of each package."""
    verdicts = ("right", "refused", "no notice", "wrong", "not offered")
    rows = []
    for name, package in found["packages"].items():
        given = [answer["verdict"] for answer in package["answers"].values()]
        label = f"{name} {package['versions'][name]}"
        rows.append((label, *(given.count(verdict) for verdict in verdicts)))
    return table(("package", *verdicts), rows)


def mutation_testing(found: dict[str, Any]) -> str:
    """How many mutants the tests notice."""
    count = {"killed": 0, "same": 0, "left": 0} | found["folders"]["all"]
    total = sum(count.values())
    return _paragraph(
        f"{total} mutants ({found['date']}): the tests notice {count['killed']}, which is "
        f"{count['killed'] / total:.1%}. {count['same']} others compute the same, and "
        f"{count['left']} survive."
    )


def _paragraph(text: str) -> str:
    return textwrap.fill(text, 108)
