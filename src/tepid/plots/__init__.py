"""Plots of summaries, on matplotlib axes that you pass or on new ones.

Nothing here computes from logits: every function takes summaries, which add, so a plot of a
thousand files needs a thousand summaries and no logits. matplotlib is imported when a figure is
made. Without `ax` the figure is a `matplotlib.figure.Figure` that pyplot does not manage and no
backend opens: `ax.figure.savefig("diagram.png")` writes it. Settings are never changed.
"""

from tepid.plots.charts import classes, history, loss
from tepid.plots.diagrams import (
    Bin,
    Covered,
    arrows,
    bins,
    confidence,
    coverage,
    covered,
    reliability,
)

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
