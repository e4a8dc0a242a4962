"""Confidence against accuracy: the tables (`bins`, `covered`) and the plots that draw them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tepid import metrics
from tepid.errors import InputError
from tepid.plots import style
from tepid.summaries.curve import Curve
from tepid.summaries.reliability import Reliability, wilson_interval
from tepid.validation import Float64

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = TypeVar("Row")


@dataclass(frozen=True)
class Bin:
    """The rows whose confidence lies in (low, high], with their mean confidence and accuracy.

    `interval` is the 95 % interval of the accuracy. It and `accuracy` are NaN without labels.
    """

    low: float
    high: float
    rows: float
    share: float
    confidence: float
    accuracy: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Covered:
    """The rows with a confidence above `threshold`: their share of all rows and their error rate.

    `risk` is the error rate, `claimed` the error rate that the confidence implies.
    """

    threshold: float
    coverage: float
    risk: float
    claimed: float


def bins(data: Reliability | Curve, *, temperature: float | None = None) -> tuple[Bin, ...]:
    r"""Every bin that has rows, in rising order, as a reliability diagram draws it.

    The interval is Wilson's, $\left(\hat p + \frac{z^2}{2n} \pm z \sqrt{\frac{\hat p (1 - \hat
    p)}{n} + \frac{z^2}{4n^2}}\right) / \left(1 + \frac{z^2}{n}\right)$, which stays inside [0, 1]
    and has a width even if every row is correct. A row of weight w counts as w rows. A curve has
    bins at its nodes only: `temperature`, by default 1, must be one of them.

    >>> two_sure_one_right = Reliability.of([[0.8, 0.2], [0.8, 0.2]], [0, 1], bins=5)
    >>> [(b.low, b.high, b.confidence, b.accuracy, b.interval) for b in bins(two_sure_one_right)]
    [(0.6, 0.8, 0.8, 0.5, (0.0945, 0.9055))]
    """
    count, confidence, correct = _sums_by_bin(data, temperature)
    total, width = float(count.sum()), len(count)
    low, high = wilson_interval(correct, count)
    return tuple(
        Bin(
            low=b / width,
            high=(b + 1) / width,
            rows=n,
            share=n / total,
            confidence=float(confidence[b]) / n,
            accuracy=float(correct[b]) / n,
            interval=(float(low[b]), float(high[b])),
        )
        for b, n in enumerate(count.tolist())
        if n > 0
    )


def covered(data: Reliability) -> tuple[Covered, ...]:
    """Coverage and risk if only confident rows are answered, for each threshold between bins.

    The most confident bin comes first; the last entry covers every row, so its risk is the error
    rate. Bins without rows are left out.

    >>> covered(Reliability.of([[0.9, 0.1], [0.6, 0.4]], [0, 1], bins=2, sample_weight=[3, 1]))
    (Covered(threshold=0.5, coverage=1.0, risk=0.25, claimed=0.175),)
    """
    table = bins(data)[::-1]
    rows = np.cumsum([b.rows for b in table])
    wrong = np.cumsum([b.rows * (1 - b.accuracy) for b in table])
    doubt = np.cumsum([b.rows * (1 - b.confidence) for b in table])
    return tuple(
        Covered(b.low, float(n / rows[-1]), float(w / n), float(d / n))
        for b, n, w, d in zip(table, rows, wrong, doubt, strict=True)
    )


def _sums_by_bin(data: Reliability | Curve, temperature: float | None) -> tuple[Float64, ...]:
    """The sums of weight, confidence and correctness per bin."""
    if isinstance(data, Reliability):
        if temperature is not None:
            must = "be left out for a Reliability, which has its own"
            raise InputError(f"temperature must {must}, got {temperature}")
        return data.count, data.confidence, data.correct
    if not data.bins:
        raise InputError("curve must have bins to be drawn, got 0")
    count, confidence, correct = data.histogram[_find_node(data, temperature or 1.0)]
    return count, confidence, correct if data.labeled else np.full(data.bins, math.nan)


def _find_node(curve: Curve, temperature: float) -> int:
    temperatures = 1 / curve.lattice.nodes
    node = int(np.abs(np.log(temperatures / temperature)).argmin())
    if not math.isclose(temperatures[node], temperature, rel_tol=1e-3):
        must = f"be a node of the curve, of which {temperatures[node]:.5g} is the nearest"
        raise InputError(f"temperature must {must}, got {temperature}")
    return node


def reliability(data: Reliability, ax: "Axes | None" = None) -> "Axes":
    """A reliability diagram: accuracy by bin, its gap to the confidence, and the share of rows.

    A bar is the accuracy of a bin. Its hatched part is the gap to the mean confidence: orange for
    overconfident bins, sky blue for underconfident ones. A dot stands at the mean confidence of the
    bin, so the dot of a calibrated bin lies on the diagonal whatever the bin width; its error bar
    is the 95 % interval of `bins`. The small histogram above shows the share of rows by bin.
    """
    table = _refuse_empty(bins(data))
    ax = style.make_axes(ax, height=5.4)
    width = 1 / data.bins
    ax.bar(
        [b.low for b in table], [b.accuracy for b in table], width, align="edge", color=style.BLUE,
        edgecolor="white", linewidth=0.5, label="accuracy",
    )  # fmt: skip
    _draw_gaps(ax, [b for b in table if b.confidence > b.accuracy], width, "overconfident")
    _draw_gaps(ax, [b for b in table if b.confidence < b.accuracy], width, "underconfident")
    style.draw_unit_square(ax)
    below = [b.accuracy - b.interval[0] for b in table]
    above = [b.interval[1] - b.accuracy for b in table]
    ax.errorbar(
        [b.confidence for b in table], [b.accuracy for b in table], [below, above], fmt="o",
        color=style.BLACK, markersize=3, elinewidth=1, capsize=2, label="95 % interval",
    )  # fmt: skip
    ax.text(
        0.97, 0.03, f"ECE {100 * metrics.ece(data):.2f} %", transform=ax.transAxes, ha="right",
        bbox={"facecolor": "white", "edgecolor": style.GRAY, "pad": 3},
    )  # fmt: skip
    ax.legend(loc="upper left", fontsize="small", framealpha=0.6)
    histogram = ax.inset_axes((0, 1.05, 1, 0.16), sharex=ax)
    _draw_shares(histogram, table, width)
    histogram.tick_params(labelbottom=False)
    histogram.set_ylabel("rows")
    return ax


def confidence(
    data: Reliability | Curve, *, temperature: float | None = None, ax: "Axes | None" = None
) -> "Axes":
    """A histogram of confidence, with its mean and, if there are labels, the accuracy.

    A mean right of the accuracy means overconfidence. A curve shows the confidence at any of its
    nodes, also without labels.
    """
    table = _refuse_empty(bins(data, temperature=temperature))
    ax = style.make_axes(ax)
    _draw_shares(ax, table, 1 / data.bins)
    mean = sum(b.share * b.confidence for b in table)
    ax.axvline(
        mean, color=style.VERMILION, linestyle="--", label=f"mean confidence {100 * mean:.2f} %"
    )
    accuracy = sum(b.share * b.accuracy for b in table)
    if not math.isnan(accuracy):
        ax.axvline(accuracy, color=style.BLACK, label=f"accuracy {100 * accuracy:.2f} %")
    ax.set(xlim=(0, 1), xlabel="confidence", ylabel="share of rows")
    ax.legend(loc="upper left", fontsize="small")
    return ax


def coverage(data: Reliability, ax: "Axes | None" = None) -> "Axes":
    """The risk-coverage curve: the error rate if only the most confident rows are answered.

    The dashed line is the error rate that the confidence implies. There is one point per bin, so a
    summary with more bins gives a finer curve.
    """
    table = _refuse_empty(covered(data))
    ax = style.make_axes(ax)
    shares = [c.coverage for c in table]
    ax.plot(shares, [c.risk for c in table], "o-", color=style.BLUE, markersize=3, label="risk")
    claimed = [c.claimed for c in table]
    ax.plot(shares, claimed, "s--", color=style.VERMILION, markersize=3, label="risk as claimed")
    ax.set(xlabel="coverage: share of rows answered", ylabel="share of errors")
    ax.set_ylim(bottom=0)
    ax.legend(loc="upper left", fontsize="small")
    return ax


def arrows(
    before: Mapping[str, Reliability] | Reliability,
    after: Mapping[str, Reliability] | Reliability,
    ax: "Axes | None" = None,
) -> "Axes":
    """Mean confidence and accuracy of each set, class or group, before and after calibration.

    Right of the diagonal confidence is too high; an arrow that ends on it ends calibrated on
    average. A temperature does not change the accuracy, so its arrows are horizontal. Sets without
    rows before or after are left out.
    """
    pairs = _pair_up(before, after)
    ax = style.make_axes(ax, width=5.2, height=5.0)
    style.draw_unit_square(ax)
    starts, ends = ([_position(pair[side]) for pair in pairs.values()] for side in (0, 1))
    for start, end in zip(starts, ends, strict=True):
        arrow = {"arrowstyle": "->", "color": style.BLACK, "shrinkA": 2.5, "shrinkB": 2.5}
        ax.annotate("", xy=end, xytext=start, arrowprops=arrow)
    _draw_dots(ax, starts, "before", "white")
    _draw_dots(ax, ends, "after", style.BLUE)
    # Names stand alternately left and right, so that neighbors do not overlap.
    by_accuracy = sorted(zip(pairs, starts, ends, strict=True), key=lambda drawn: drawn[1][1])
    for number, (name, start, end) in enumerate(by_accuracy):
        _draw_name(ax, name, *((start, end) if number % 2 else (end, start)))
    _zoom(ax, [*starts, *ends])
    ax.legend(loc="upper left", fontsize="small", framealpha=0.6)
    return ax


def _draw_gaps(ax: "Axes", table: Sequence[Bin], width: float, label: str) -> None:
    over = label == "overconfident"
    ax.bar(
        [b.low for b in table],
        [abs(b.confidence - b.accuracy) for b in table],
        width,
        [min(b.confidence, b.accuracy) for b in table],
        align="edge",
        facecolor=style.ORANGE if over else style.SKY,
        edgecolor=style.BLACK,
        linewidth=0.5,
        hatch="///" if over else "...",
        alpha=0.75,
        label=label if table else "_nolegend_",
    )


def _draw_shares(ax: "Axes", table: Sequence[Bin], width: float) -> None:
    ax.bar(
        [b.low for b in table], [b.share for b in table], width, align="edge",
        color=style.GRAY, edgecolor="white", linewidth=0.5,
    )  # fmt: skip


def _draw_dots(ax: "Axes", positions: list[tuple[float, float]], label: str, fill: str) -> None:
    x, y = zip(*positions, strict=True)
    ax.plot(x, y, "o", markersize=5, color=style.BLUE, markerfacecolor=fill, label=label)


def _draw_name(
    ax: "Axes", name: str, beside: tuple[float, float], other: tuple[float, float]
) -> None:
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


def _pair_up(
    before: Mapping[str, Reliability] | Reliability, after: Mapping[str, Reliability] | Reliability
) -> dict[str, tuple[Reliability, Reliability]]:
    before = {"": before} if isinstance(before, Reliability) else before
    after = {"": after} if isinstance(after, Reliability) else after
    if before.keys() != after.keys():
        unpaired = ", ".join(sorted(before.keys() ^ after.keys()))
        raise InputError(f"before and after must have the same names, got {unpaired} in one alone")
    pairs = {name: (before[name], after[name]) for name in before}
    pairs = {name: (a, b) for name, (a, b) in pairs.items() if a.weight > 0 and b.weight > 0}
    if not pairs:
        raise InputError("before and after must have at least one row to be drawn, got none")
    return pairs


def _position(r: Reliability) -> tuple[float, float]:
    return metrics.confidence(r), metrics.accuracy(r)


def _zoom(ax: "Axes", positions: list[tuple[float, float]]) -> None:
    """Limit both axes to the smallest common range that holds all positions, with a margin."""
    values = [value for position in positions for value in position]
    margin = 0.1 * max(max(values) - min(values), 0.05)
    limits = max(0.0, min(values) - margin), min(1.0, max(values) + margin)
    ax.set(xlim=limits, ylim=limits)
    ax.locator_params(nbins=6)


def _refuse_empty(table: tuple[Row, ...]) -> tuple[Row, ...]:
    if not table:
        raise InputError("data must have at least one row to be drawn, got none")
    return table
