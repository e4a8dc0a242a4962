"""Confidence against what came true, by bin."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tepid import metrics
from tepid.curve import Curve
from tepid.errors import InputError
from tepid.plots import canvas
from tepid.plots.tables import Bin, bins, covered
from tepid.reliability import Reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def reliability(data: Reliability, ax: "Axes | None" = None) -> "Axes":
    """A reliability diagram: accuracy by bin, its gap to the confidence, and where the rows are.

    A bar is the accuracy of a bin and its hatched part the gap to the mean confidence: orange
    where confidence is too high, sky blue where it is too low. The dots stand at the bin's mean
    confidence, so that a calibrated bin's dot lies on the diagonal whatever the bin's width, with
    the 95 % interval of `bins`. Above, the share of rows in each bin. A bin without rows is blank.
    """
    table = _refuse_empty(bins(data))
    ax = canvas.axes(ax, height=5.4)
    width = 1 / data.bins
    places = [b.low for b in table]
    ax.bar(
        places, [b.accuracy for b in table], width, align="edge", color=canvas.BLUE,
        edgecolor="white", linewidth=0.5, label="accuracy",
    )  # fmt: skip
    _gaps(ax, [b for b in table if b.confidence > b.accuracy], width, "overconfident")
    _gaps(ax, [b for b in table if b.confidence < b.accuracy], width, "underconfident")
    canvas.unit_square(ax)
    ax.errorbar(
        [b.confidence for b in table], [b.accuracy for b in table], _lengths(table), fmt="o",
        color=canvas.BLACK, markersize=3, elinewidth=1, capsize=2, label="95 % interval",
    )  # fmt: skip
    ax.text(
        0.97, 0.03, f"ECE {100 * metrics.ece(data):.2f} %", transform=ax.transAxes, ha="right",
        bbox={"facecolor": "white", "edgecolor": canvas.GREY, "pad": 3},
    )  # fmt: skip
    ax.legend(loc="upper left", fontsize="small", framealpha=0.6)
    above = ax.inset_axes((0, 1.05, 1, 0.16), sharex=ax)
    _shares(above, table, width)
    above.tick_params(labelbottom=False)
    above.set_ylabel("rows")
    return ax


def confidence(
    data: Reliability | Curve, *, temperature: float | None = None, ax: "Axes | None" = None
) -> "Axes":
    """A histogram of confidence, with its mean and, where there are labels, the accuracy.

    Where the mean lies right of the accuracy, the network is too sure. A curve shows the
    confidence at any of its nodes: without labels, what a temperature would do.
    """
    table = _refuse_empty(bins(data, temperature=temperature))
    ax = canvas.axes(ax)
    _shares(ax, table, 1 / data.bins)
    mean = sum(b.share * b.confidence for b in table)
    ax.axvline(
        mean, color=canvas.VERMILION, linestyle="--", label=f"mean confidence {100 * mean:.2f} %"
    )
    right = sum(b.share * b.accuracy for b in table)
    if not math.isnan(right):  # as it is without labels
        ax.axvline(right, color=canvas.BLACK, label=f"accuracy {100 * right:.2f} %")
    ax.set(xlim=(0, 1), xlabel="confidence", ylabel="share of rows")
    ax.legend(loc="upper left", fontsize="small")
    return ax


def coverage(data: Reliability, ax: "Axes | None" = None) -> "Axes":
    """The risk-coverage curve: how often the answers are wrong if only the surest are given.

    The dashed line is the risk that the confidence claims. One point per bin of confidence, so a
    summary with more bins gives a finer curve.
    """
    table = covered(data)
    if not table:
        raise _nothing()
    ax = canvas.axes(ax)
    shares = [c.coverage for c in table]
    ax.plot(shares, [c.risk for c in table], "o-", color=canvas.BLUE, markersize=3, label="risk")
    ax.plot(
        shares,
        [c.claimed for c in table],
        "s--",
        color=canvas.VERMILION,
        markersize=3,
        label="risk as claimed",
    )
    ax.set(xlabel="coverage: share of rows answered", ylabel="share of errors")
    ax.set_ylim(bottom=0)
    ax.legend(loc="upper left", fontsize="small")
    return ax


def _gaps(ax: "Axes", table: Sequence[Bin], width: float, label: str) -> None:
    over = label == "overconfident"
    ax.bar(
        [b.low for b in table],
        [abs(b.confidence - b.accuracy) for b in table],
        width,
        [min(b.confidence, b.accuracy) for b in table],
        align="edge",
        facecolor=canvas.ORANGE if over else canvas.SKY,
        edgecolor=canvas.BLACK,
        linewidth=0.5,
        hatch="///" if over else "...",
        alpha=0.75,
        label=label if table else "_nolegend_",
    )


def _shares(ax: "Axes", table: Sequence[Bin], width: float) -> None:
    ax.bar(
        [b.low for b in table], [b.share for b in table], width, align="edge",
        color=canvas.GREY, edgecolor="white", linewidth=0.5,
    )  # fmt: skip


def _lengths(table: Sequence[Bin]) -> list[list[float]]:
    """How far the intervals reach below and above."""
    below = [b.accuracy - b.interval[0] for b in table]
    return [below, [b.interval[1] - b.accuracy for b in table]]


def _refuse_empty(table: tuple[Bin, ...]) -> tuple[Bin, ...]:
    if not table:
        raise _nothing()
    return table


def _nothing() -> InputError:
    return InputError("data must have at least one row to be drawn, got none")
