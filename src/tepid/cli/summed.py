"""`tepid fit --summary`: a fit without rows."""

from pathlib import Path

import tepid
from tepid.cli.evidence import Evidence
from tepid.cli.inputs import Reading
from tepid.cli.machines import Machine


def check(
    evidence: Evidence,
    machine: Machine,
    reading: Reading,
    *,
    logits: list[str] | None,
    sample_weight: str | None,
    report: Path | None,
) -> None:
    """Refuse what needs rows."""
    if logits:
        raise tepid.InputError(f"--summary must go without logits, got {logits[0]}")
    wrong = [
        name for name in evidence.given() if name not in ("--accuracy", "--correct", "--guarded")
    ]
    others = {
        "--groups": evidence.groups is not None,
        "--sample-weight": sample_weight is not None,
        "--columns": reading.columns is not None,
        "--where": bool(reading.where),
        "--header": reading.header is not None,
        "--probabilities": reading.probabilities,
        "--class-axis": reading.class_axis is not None,
        "--deviations": evidence.deviations != 1.0,
        "--debias": evidence.debias,
        "--report": report is not None,
        "--engine": machine.engine != "threads",
    }
    wrong += [name for name, there in others.items() if there]
    if wrong:
        raise tepid.InputError(f"--summary must go without {wrong[0]}, which needs rows, got both")


def fit(evidence: Evidence, path: Path) -> "tepid.Temperature":
    """The temperature that the summaries tell with what else is known."""
    summaries = tepid.Summaries.load(path)
    if evidence.accuracy is not None or evidence.correct is not None:
        known, error = evidence.known()
        return tepid.from_summaries(summaries, accuracy=known, standard_error=error)
    budget = evidence.budget if evidence.guarded else None
    if budget is not None and summaries.curve.labelled:
        raise tepid.InputError("--guarded must go with summaries without labels, got some with")
    return tepid.from_summaries(summaries, budget=budget)
