"""What a monitor saw, chunk by chunk."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tepid.errors import InputError
from tepid.plots.canvas import BLUE, GREY, VERMILION, axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def history(rows: Iterable[Mapping[str, Any]], ax: "Axes | None" = None) -> "Axes":
    """The implied accuracy of each chunk over time, with its limits, and alerts marked.

    `rows` are those of `Monitor.history`, or of `tepid.online.read_log`. A chunk that raised an
    alert is a cross as well as another colour.
    """
    chunks = list(rows)
    if not chunks:
        raise InputError("rows must hold at least one closed chunk, got none")
    number = [row["chunk"] for row in chunks]
    value = [row["implied_accuracy"] for row in chunks]
    ax = axes(ax, width=7.0, height=3.0)
    limits = ([row["lower"] for row in chunks], [row["upper"] for row in chunks])
    ax.fill_between(number, *limits, color=GREY, alpha=0.25, step="mid", label="limits")
    ax.plot(number, value, color=BLUE, marker="o", markersize=4, label="implied accuracy")
    alerts = [(n, v) for n, v, row in zip(number, value, chunks, strict=True) if row["alert"]]
    if alerts:
        ax.plot(*zip(*alerts, strict=True), "X", color=VERMILION, markersize=9, label="alert")
    ax.set(xlabel="chunk", ylabel="implied accuracy")
    ax.legend(frameon=False, fontsize="small")
    return ax
