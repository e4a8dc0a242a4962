"""The loss along the temperature."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tepid import optimum
from tepid.curve import Curve
from tepid.errors import InputError
from tepid.plots import canvas
from tepid.temperature import Temperature

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = (canvas.BLUE, canvas.VERMILION, canvas.GREEN, canvas.PURPLE)
_MARKERS = ("o", "s", "^", "D")
_DASHES = ("--", "-.", ":")
_PER_OCTAVE = 16


def loss(
    data: Curve, marks: Mapping[str, Temperature] | None = None, ax: "Axes | None" = None
) -> "Axes":
    """The mean loss of a pair by temperature, with temperatures that were found marked on it.

    One line for each weighting of the curve: its thresholds in their order, then its labels. A
    mark's band is the interval of its temperature. The loss grows without bound as T shrinks, so
    the picture ends a little above what matters: the loss at T = 1, at the marks, and at the
    highest T.
    """
    drawn = {name: w for w, name in enumerate(_names(data)) if data.pairs[w] > 0}
    if not drawn:
        raise InputError("curve must have pairs to have a loss, got none")
    nodes = data.lattice.nodes
    if len(nodes) < 2:
        raise InputError("curve must have at least two temperatures to be drawn, got 1")
    ax = canvas.axes(ax)
    ends = 1 / nodes[-1], 1 / nodes[0]
    steps = max(2, round(_PER_OCTAVE * math.log2(nodes[-1] / nodes[0])) + 1)
    temperatures = np.geomspace(*ends, steps)
    for number, (name, w) in enumerate(drawn.items()):
        losses = [_per_pair(data, t, w) for t in temperatures]
        ax.plot(
            temperatures,
            losses,
            color=_COLOURS[number % 4],
            marker=_MARKERS[number % 4],
            markevery=(2 * number, _PER_OCTAVE),
            markersize=4,
            label=name,
        )
    _mark(ax, marks or {})
    places = [1.0, ends[1], *(t.value for t in (marks or {}).values())]
    heights = [_per_pair(data, t, w) for t in places for w in drawn.values()]
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter(lambda t, _: f"{t:g}")
    ax.set(xlim=(min(ends[0], *places), max(places)), ylim=(0, 1.15 * max(heights) or 1.0))
    ax.set(xlabel="temperature", ylabel="mean loss of a pair, nats")
    ax.legend(fontsize="small")
    return ax


def _names(curve: Curve) -> list[str]:
    some = len(curve.thresholds)
    names = ["thresholds" if some == 1 else f"thresholds {w + 1}" for w in range(some)]
    return names + ["labels"] * curve.labelled


def _per_pair(curve: Curve, temperature: float, weighting: int) -> float:
    return optimum.loss_at(curve, temperature, weighting) / float(curve.pairs[weighting])


def _mark(ax: "Axes", marks: Mapping[str, Temperature]) -> None:
    for number, (name, t) in enumerate(marks.items()):
        ax.axvline(
            t.value,
            color=canvas.BLACK,
            linestyle=_DASHES[number % 3],
            linewidth=1,
            label=f"{name}: T = {t.value:.3f}",
        )
        if t.interval is not None:
            ax.axvspan(*t.interval, color=canvas.GREY, alpha=0.3, linewidth=0)
