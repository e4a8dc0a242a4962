"""Pictures of summaries, on matplotlib axes that are yours or new.

Nothing here computes from logits: every function takes summaries, which add, so that a picture of
a thousand files needs a thousand summaries and no logits. matplotlib is imported when a figure is
made; without `ax` it is a `matplotlib.figure.Figure` of its own, which pyplot does not know of and
no backend opens: `ax.figure.savefig("diagram.png")` writes it. Settings are never changed.
"""

from tepid.plots.against import arrows
from tepid.plots.bars import classes
from tepid.plots.curves import loss
from tepid.plots.diagrams import confidence, coverage, reliability
from tepid.plots.tables import Bin, Covered, bins, covered
from tepid.plots.times import history

__all__ = [
    "Bin",
    "Covered",
    "arrows",
    "bins",
    "classes",
    "confidence",
    "coverage",
    "covered",
    "history",
    "loss",
    "reliability",
]
