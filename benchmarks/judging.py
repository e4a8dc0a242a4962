"""How a temperature is judged: on labeled rows, beside T = 1 and the best one for these rows."""

from dataclasses import dataclass
from typing import Any, Self

from sets import LogitSet

import tepid

Row = dict[str, Any]
ONE = tepid.Threads(1)
# Temperatures are judged within this range, as plain scaling on ten labels may answer zero.
BOX = (0.05, 50.0)


@dataclass(frozen=True)
class Judge:
    """Labeled rows, the temperature that is best for them, and how they fare at T = 1."""

    rows: LogitSet
    best: float
    least_nll: float
    ece_before: float

    @classmethod
    def of(cls, rows: LogitSet) -> Self:
        """The judge for some rows."""
        best = tepid.temperature_scaling(rows.logits, rows.labels, engine=ONE).value
        return cls(rows, best, _scored(rows, best)[1], _scored(rows, 1.0)[0])

    def judged(self, rung: str, found: Any) -> Row:
        """What a temperature is worth on these rows; `found` may be a number."""
        value = float(found)
        ece, nll = _scored(self.rows, min(max(value, BOX[0]), BOX[1]))
        return {
            "rung": rung,
            "temperature": value,
            "ece": ece,
            "excess_nll": nll - self.least_nll,
            "ece_before": self.ece_before,
            "target": self.best,
        } | _said(found)


def interval(rung: str, found: Any, target: float) -> Row:
    """Whether the interval of a temperature holds its target; None where none was printed."""
    row = {"rung": rung, "temperature": float(found), "target": target} | _said(found)
    if row["low"] is not None:
        row["covered"] = float(row["low"] <= target <= row["high"])
    return row


def _said(found: Any) -> Row:
    said = isinstance(found, tepid.Temperature)
    low, high = (found.interval if said else None) or (None, None)
    return {"status": found.status if said else "given", "low": low, "high": high}


def _scored(rows: LogitSet, temperature: float) -> tuple[float, float]:
    found = tepid.Reliability.of_logits(rows.logits, rows.labels, temperature=temperature)
    return tepid.metrics.ece(found), tepid.metrics.nll(found)
