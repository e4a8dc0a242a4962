"""What there is to say of each row of a table, one line each."""

from collections.abc import Sequence

from tepid.lab.paper import Published
from tepid.lab.rows import Row


def notes(rows: Sequence[Row], published: Sequence[Published]) -> list[str]:
    """A line for each row that stands beside the paper's, and one for the rows without logits."""
    said = [note(row) for paper in published for row in rows if row.published == paper]
    there = {row.published for row in rows}
    missing = [p for p in published if p not in there]
    if missing:
        names = ", ".join(f"{p.model} on {p.dataset} (tepid lab train {p.recipe})" for p in missing)
        said.append(f"No logits at hand of {names}.")
    return said


def note(row: Row) -> str:
    """How many cells of a row agree with the paper's, and why the others do not.

    What a network does before calibration is settled by its training, so where that differs from
    the paper's, nothing that follows can be expected to agree.
    """
    paper = row.published
    if paper is None:
        raise TypeError("a row without the paper's has no note")
    nll = row.cells["uncalibrated", "nll"]
    apart = (
        f"accuracy {100 * row.accuracy.mean:.2f} % here and {100 * row.accuracy.paper:.2f} % "
        f"there, uncalibrated NLL {nll.mean:.3f} and {nll.paper:.3f}."
    )
    head = f"{paper.model} on {paper.dataset}, {row.logits.name}"
    if not row.same_network:
        return f"{head}: another network, {row.logits.network}, not to be compared: {apart}"
    agree, of = row.agreeing
    head = f"{head}: {agree} of {of} cells agree"
    if row.same_training:
        return f"{head}; before calibration it is the paper's network: {apart}"
    return f"{head}; another training: {apart}"
