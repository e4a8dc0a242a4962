"""What a measure is given: labels and probabilities, rows checked before, or a `Reliability`."""

from typing import Any

from tepid.errors import InputError
from tepid.reliability import Reliability
from tepid.rows import Rows


def reliability_of(labels: Any, probabilities: Any, weight: Any, bins: int = 15) -> Reliability:
    """The sums over bins, for a measure that needs no more."""
    if isinstance(labels, Reliability):
        return labels
    if isinstance(labels, Rows):
        return Reliability.of_rows(labels, bins=bins)
    return Reliability.of(probabilities, labels, bins=bins, sample_weight=weight)


def rows_of(measure: str, labels: Any, probabilities: Any, weight: Any) -> Rows:
    """Every row, for a measure that sums over bins cannot give."""
    if isinstance(labels, Reliability):
        raise InputError(
            f"labels must be the label of every row, with the probabilities beside them, because "
            f"{measure} is no sum over bins, got a Reliability"
        )
    return labels if isinstance(labels, Rows) else Rows.of(labels, probabilities, weight)


def per_weight(r: Reliability, total: float) -> float:
    """A sum over rows as a mean; NaN where there are none."""
    return float(total) / r.weight if r.weight else float("nan")
