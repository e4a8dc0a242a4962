"""Confidence before and after a calibration, against accuracy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tepid import metrics
from tepid.errors import InputError
from tepid.plots import canvas
from tepid.reliability import Reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def arrows(
    before: Mapping[str, Reliability] | Reliability,
    after: Mapping[str, Reliability] | Reliability,
    ax: "Axes | None" = None,
) -> "Axes":
    """An arrow for each set, class or group, from its confidence before to that after.

    Right of the diagonal confidence is too high; an arrow that ends on it ends calibrated on
    average. A temperature keeps the accuracy, so its arrows are level. What has no rows before or
    after is left out.
    """
    pairs = _pairs(before, after)
    ax = canvas.axes(ax, width=5.2, height=5.0)
    canvas.unit_square(ax)
    starts, ends = ([_place(pair[side]) for pair in pairs.values()] for side in (0, 1))
    for start, end in zip(starts, ends, strict=True):
        style = {"arrowstyle": "->", "color": canvas.BLACK, "shrinkA": 2.5, "shrinkB": 2.5}
        ax.annotate("", xy=end, xytext=start, arrowprops=style)
    _dots(ax, starts, "before", "white")
    _dots(ax, ends, "after", canvas.BLUE)
    # By turns left and right, so that neighbours in height do not cover one another.
    ranked = sorted(zip(pairs, starts, ends, strict=True), key=lambda drawn: drawn[1][1])
    for number, (name, start, end) in enumerate(ranked):
        _name(ax, name, (start, end) if number % 2 else (end, start))
    _zoom(ax, [*starts, *ends])
    ax.legend(loc="upper left", fontsize="small", framealpha=0.6)
    return ax


def _dots(ax: "Axes", places: list[tuple[float, float]], label: str, fill: str) -> None:
    x, y = zip(*places, strict=True)
    ax.plot(x, y, "o", markersize=5, color=canvas.BLUE, markerfacecolor=fill, label=label)


def _name(ax: "Axes", name: str, ends: tuple[tuple[float, float], tuple[float, float]]) -> None:
    beside, other = ends
    right = beside[0] >= other[0]
    ax.annotate(
        name,
        beside,
        (6 if right else -6, 0),
        textcoords="offset points",
        fontsize="small",
        ha="left" if right else "right",
        va="center",
    )


def _pairs(
    before: Mapping[str, Reliability] | Reliability, after: Mapping[str, Reliability] | Reliability
) -> dict[str, tuple[Reliability, Reliability]]:
    before = {"": before} if isinstance(before, Reliability) else before
    after = {"": after} if isinstance(after, Reliability) else after
    if before.keys() != after.keys():
        odd = ", ".join(sorted(before.keys() ^ after.keys()))
        raise InputError(f"before and after must have the same names, got {odd} in one alone")
    pairs = {name: (before[name], after[name]) for name in before}
    there = {name: (a, b) for name, (a, b) in pairs.items() if a.weight > 0 and b.weight > 0}
    if not there:
        raise InputError("before and after must have at least one row to be drawn, got none")
    return there


def _place(r: Reliability) -> tuple[float, float]:
    return metrics.confidence(r), metrics.accuracy(r)


def _zoom(ax: "Axes", places: list[tuple[float, float]]) -> None:
    """The smallest square by the diagonal that holds all places, with some air."""
    values = [value for place in places for value in place]
    air = 0.1 * max(max(values) - min(values), 0.05)
    limits = max(0.0, min(values) - air), min(1.0, max(values) + air)
    ax.set(xlim=limits, ylim=limits)
    ax.locator_params(nbins=6)
