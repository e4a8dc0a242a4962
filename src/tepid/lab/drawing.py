"""Pictures of a set of logits: who is drawn into M_k, and reliability before and after."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tepid import plots
from tepid.arrays import Array, Int64
from tepid.plots import canvas
from tepid.reliability import Reliability
from tepid.report.summaries import EDGES, Members
from tepid.tails import Tails

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS = 3
_KINDS = (
    ("predicted k", canvas.BLUE, ""),
    ("drawn in beside them", canvas.ORANGE, "///"),
    ("not in it", canvas.GREY, "..."),
)
# Where S_k is written below its log-odds.
_TICKS = (1e-4, 1e-2, 0.1, 0.5, 0.9, 0.99, 0.9999)


def division(logits: Array, names: Sequence[str]) -> "Figure":
    """The rows of a network by S_k, for the three classes that most rows are drawn into.

    The paper's Figure 1 for more than two dimensions: the axis is the softmax of class k in
    log-odds, the dashed line the threshold, and M_k all that lies right of it.
    """
    members = Members.of(logits, thresholds=Tails.of(logits).thresholds())
    drawn = members.histogram[:, 1].sum(axis=1)
    chosen = np.argsort(-drawn, kind="stable")[:_PANELS]
    figure = canvas.figure(4 * len(chosen), 3.4)
    for k, ax in zip(chosen.tolist(), np.ravel(figure.subplots(1, len(chosen))), strict=True):
        _divided(ax, members, k)
        ax.set(title=names[k], xlabel=f"softmax of {names[k]}", ylabel="rows")
    return figure


def _divided(ax: "Axes", members: Members, k: int) -> None:
    ends = _log_odds(EDGES)
    step = ends[1] - ends[0]
    left = np.concatenate([[ends[0] - step], ends])
    for counts, (label, colour, hatch) in zip(members.histogram[k], _KINDS, strict=True):
        ax.bar(
            left, counts, step, align="edge", color=colour, edgecolor="white", linewidth=0.3,
            hatch=hatch, alpha=0.8, label=f"{label}: {counts.sum():,.0f}",
        )  # fmt: skip
    theta = members.thresholds[k]
    edge = _log_odds(np.clip(theta, 1e-12, 1 - 1e-12))
    ax.axvline(float(edge), color=canvas.BLUE, linestyle="--", label=f"θ = {theta:.3g}")
    ax.set_yscale("log")
    ax.set_xticks(_log_odds(np.array(_TICKS)), [f"{tick:g}" for tick in _TICKS])
    ax.legend(fontsize="x-small")


def _log_odds(share: Array) -> Array:
    odds: Array = np.log(share / (1 - share))
    return odds


def reliabilities(logits: Array, labels: Int64, temperatures: dict[str, float]) -> "Figure":
    """Reliability at each of these temperatures, side by side."""
    figure = canvas.figure(4 * len(temperatures), 4.6)
    places = np.ravel(figure.subplots(1, len(temperatures)))
    for ax, (name, t) in zip(places, temperatures.items(), strict=True):
        plots.reliability(Reliability.of_logits(logits, labels, temperature=t), ax)
        ax.set_xlabel(f"confidence; {name}, T = {t:.3f}")
    return figure
