"""Charts by temperature (`loss`), by class (`classes`) and by time (`history`)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tepid.errors import InputError
from tepid.plots import style
from tepid.summaries import optimum
from tepid.summaries.curve import Curve
from tepid.summaries.tails import Tails
from tepid.temperature import Temperature

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = (style.BLUE, style.VERMILION, style.GREEN, style.PURPLE)
_MARKERS = ("o", "s", "^", "D")
_DASHES = ("--", "-.", ":")
_PER_OCTAVE = 16
_MOST_NAMES = 40


def loss(
    data: Curve, marks: Mapping[str, Temperature] | None = None, ax: "Axes | None" = None
) -> "Axes":
    """The mean loss per pair against the temperature, with fitted temperatures marked.

    One line for each weighting of the curve: its thresholds in their order, then its labels. The
    shaded band of a mark is the interval of its temperature. The loss grows without bound as T
    shrinks, so the vertical axis ends a little above the loss at T = 1, at the marks and at the
    highest T.
    """
    drawn = {name: w for w, name in enumerate(_weighting_names(data)) if data.pairs[w] > 0}
    if not drawn:
        raise InputError("curve must have pairs to have a loss, got none")
    nodes = data.lattice.nodes
    if len(nodes) < 2:
        raise InputError("curve must have at least two temperatures to be drawn, got 1")
    ax = style.make_axes(ax)
    ends = 1 / nodes[-1], 1 / nodes[0]
    steps = max(2, round(_PER_OCTAVE * math.log2(nodes[-1] / nodes[0])) + 1)
    temperatures = np.geomspace(*ends, steps)
    for number, (name, w) in enumerate(drawn.items()):
        ax.plot(
            temperatures,
            [_loss_per_pair(data, t, w) for t in temperatures],
            color=_COLORS[number % 4],
            marker=_MARKERS[number % 4],
            markevery=(2 * number, _PER_OCTAVE),
            markersize=4,
            label=name,
        )
    _draw_marks(ax, marks or {})
    shown = [1.0, ends[1], *(t.value for t in (marks or {}).values())]
    heights = [_loss_per_pair(data, t, w) for t in shown for w in drawn.values()]
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter(lambda t, _: f"{t:g}")
    ax.set(xlim=(min(ends[0], *shown), max(shown)), ylim=(0, 1.15 * max(heights) or 1.0))
    ax.set(xlabel="temperature", ylabel="mean loss of a pair, nats")
    ax.legend(fontsize="small")
    return ax


def _weighting_names(curve: Curve) -> list[str]:
    count = len(curve.thresholds)
    names = ["thresholds" if count == 1 else f"thresholds {w + 1}" for w in range(count)]
    return names + ["labels"] * curve.labeled


def _loss_per_pair(curve: Curve, temperature: float, weighting: int) -> float:
    return optimum.loss_at(curve, temperature, weighting) / float(curve.pairs[weighting])


def _draw_marks(ax: "Axes", marks: Mapping[str, Temperature]) -> None:
    for number, (name, t) in enumerate(marks.items()):
        ax.axvline(
            t.value,
            color=style.BLACK,
            linestyle=_DASHES[number % 3],
            linewidth=1,
            label=f"{name}: T = {t.value:.3f}",
        )
        if t.interval is not None:
            ax.axvspan(*t.interval, color=style.GRAY, alpha=0.3, linewidth=0)


def classes(
    values: Tails | ArrayLike,
    names: Sequence[str] | None = None,
    ax: "Axes | None" = None,
    *,
    label: str | None = None,
) -> "Axes":
    """A horizontal bar per class, the first at the top; NaN and infinite values have no bar.

    `values` is one number per class, or `Tails`, of which the UTS thresholds are drawn. Beyond 40
    classes only some of the names are shown.
    """
    if isinstance(values, Tails):
        values, label = values.thresholds(), label or "threshold of UTS"
    numbers = np.asarray(values, np.float64)
    if numbers.ndim != 1 or not len(numbers):
        raise InputError(f"values must be one number for each class, got shape {numbers.shape}")
    if names is not None and len(names) != len(numbers):
        raise InputError(f"names must have one for each of {len(numbers)} values, got {len(names)}")
    ax = style.make_axes(ax, height=min(1.2 + 0.25 * len(numbers), 9.0))
    finite = np.flatnonzero(np.isfinite(numbers))
    ax.barh(finite, numbers[finite], color=style.BLUE)
    shown = range(0, len(numbers), -(-len(numbers) // _MOST_NAMES))
    ax.set_yticks(shown, [str(k if names is None else names[k]) for k in shown])
    ax.set_ylim(len(numbers) - 0.5, -0.5)
    ax.set(xlabel=label or "value", ylabel="class")
    return ax


def history(
    rows: Iterable[Mapping[str, Any]], ax: "Axes | None" = None, *, accepted: bool = False
) -> "Axes":
    """The implied accuracy of each chunk of a monitor, with its limits and alerts.

    `rows` come from `Monitor.history` or `tepid.online.read_log`. With `accepted`, the share of
    rows that the deployed threshold accepts. A chunk outside the limits has a cross in another
    color.
    """
    chunks = list(rows)
    if not chunks:
        raise InputError("rows must hold at least one closed chunk, got none")
    number = [row["chunk"] for row in chunks]
    name, kind = ("accepted_share", "accepted_") if accepted else ("implied_accuracy", "")
    value: list[Any] = [row.get(name) for row in chunks]
    if None in value:
        raise InputError("rows must come from a monitor with a threshold, got one without")
    ax = style.make_axes(ax, width=7.0, height=3.0)
    low, high = ([row[f"{kind}{end}"] for row in chunks] for end in ("lower", "upper"))
    ax.fill_between(number, low, high, color=style.GRAY, alpha=0.25, step="mid", label="limits")
    title = name.replace("_", " ")
    ax.plot(number, value, color=style.BLUE, marker="o", markersize=4, label=title)
    judged = zip(number, value, low, high, strict=True)
    alerts = [(n, v) for n, v, least, most in judged if not least <= v <= most]
    if alerts:
        ax.plot(*zip(*alerts, strict=True), "X", color=style.VERMILION, markersize=9, label="alert")
    ax.set(xlabel="chunk", ylabel=title)
    ax.legend(frameon=False, fontsize="small")
    return ax
