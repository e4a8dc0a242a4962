"""Draw the figures of docs/how-it-works.md, in docs/figures, from the demo's logits.

python scripts/draw_docs.py
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import tepid
from tepid.plots import style

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
SHIRT = 6  # the class to which most rows are added


def softmax(logits: Any, temperature: float = 1.0) -> Any:
    classes = logits.shape[1]
    t = tepid.Temperature(temperature, "given", samples=0, classes=classes, implied_accuracy=1.0)
    return t(logits)


def division(data: dict[str, Any]) -> Figure:
    """The rows by their softmax for one class: predicted, added by the threshold, and the rest."""
    logits = data["logits"].astype("float32")
    s, theta = softmax(logits)[:, SHIRT], tepid.summaries.Tails.of(logits).thresholds()[SHIRT]
    predicted = logits.argmax(axis=1) == SHIRT
    added = (s >= theta) & ~predicted
    parts = {
        f"predicted {data['names'][SHIRT]}": (predicted, style.BLUE, ""),
        "added by the threshold": (added, style.ORANGE, "//"),
        "the rest": (~predicted & ~added, style.GRAY, ".."),
    }
    ax = _axes(7, 3.6)
    ax.hist(
        [s[rows] for rows, _, _ in parts.values()],
        bins=np.linspace(0, 1, 26),
        stacked=True,
        color=[color for _, color, _ in parts.values()],
        label=[f"{name}: {rows.sum()}" for name, (rows, _, _) in parts.items()],
    )
    for patches, (_, _, hatch) in zip(ax.containers, parts.values(), strict=True):
        for patch in patches:
            patch.set(hatch=hatch, edgecolor="white", linewidth=0.3)
    ax.axvline(theta, color=style.BLACK, linestyle="--", label=f"θ = {theta:.3f}")
    name = data["names"][SHIRT]
    ax.set(yscale="log", xlim=(0, 1), xlabel=f"softmax of {name} at T = 1", ylabel="rows")
    ax.legend(fontsize="small")
    return ax.figure


def softened(data: dict[str, Any]) -> Figure:
    """What the temperature does to one row."""
    logits = data["logits"].astype("float32")
    p = softmax(logits)
    row = int(np.abs(p.max(axis=1) - 0.9).argmin())
    ax = _axes(7, 3)
    places = np.arange(len(data["names"]))
    for number, (t, color) in enumerate(
        ((1.0, style.BLUE), (2.0, style.ORANGE), (4.0, style.GREEN))
    ):
        heights = softmax(logits[row : row + 1], t)[0]
        ax.bar(places + (number - 1) * 0.27, heights, 0.27, color=color, label=f"T = {t:g}")
    ax.set_xticks(places, data["names"], rotation=30, ha="right")
    ax.set(ylim=(0, 1), ylabel="probability")
    ax.legend(fontsize="small")
    return ax.figure


def loss(data: dict[str, Any]) -> Figure:
    """The curve of UTS and that of the labels, with the temperature of each."""
    logits, labels = data["logits"].astype("float32"), data["labels"]
    theta = tepid.summaries.Tails.of(logits).thresholds()
    curve = tepid.summaries.Curve.of(logits, thresholds=theta, labels=labels)
    marks = {"UTS": tepid.uts(logits), "labels": tepid.temperature_scaling(logits, labels)}
    return tepid.plots.loss(curve, marks, _axes(7, 4)).figure


def confidence(data: dict[str, Any]) -> Figure:
    """The mean confidence falls as the temperature rises, so an accuracy settles it."""
    logits = data["logits"].astype("float32")
    curve, found = tepid.summaries.Curve.of(logits), tepid.match_accuracy(logits, 0.93)
    temperatures = np.geomspace(0.25, 8, 81)
    ax = _axes(7, 3.6)
    confidences = [tepid.summaries.optimum.confidence_at(curve, t) for t in temperatures]
    ax.plot(temperatures, confidences, color=style.BLUE, label="mean confidence")
    ax.plot([0.25, found.value], [0.93, 0.93], "--", color=style.BLACK, label="known: 0.93")
    ax.plot([found.value] * 2, [0, 0.93], ":", color=style.BLACK, label=f"T = {found.value:.3f}")
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter(lambda t, _: f"{t:g}")
    ax.set(xlim=(0.25, 8), ylim=(0.4, 1.01), xlabel="temperature", ylabel="mean confidence")
    ax.legend(fontsize="small")
    return ax.figure


def reliability(data: dict[str, Any]) -> Figure:
    """Reliability at T = 1, and at the temperatures of logits alone and of 25 labels."""
    logits, labels = data["logits"].astype("float32"), data["labels"]
    some = np.full(len(labels), -1)
    known = np.random.default_rng(0).choice(len(labels), 25, replace=False)
    some[known] = labels[known]
    found = {
        "uncalibrated": 1.0,
        "logits alone": tepid.calibrate(logits).value,
        "25 labels": tepid.calibrate(logits, some).value,
    }
    figure = Figure(figsize=(12, 4.6), layout="constrained")
    for ax, (name, t) in zip(figure.subplots(1, 3), found.items(), strict=True):
        summary = tepid.summaries.Reliability.of_logits(logits, labels, temperature=t)
        tepid.plots.reliability(summary, ax)
        ax.set_xlabel(f"confidence; {name}, T = {t:.2f}")
    return figure


def _axes(width: float, height: float) -> Any:
    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def main() -> None:
    data = tepid.demo.fashion()
    # The same file for the same figure, so that a diff shows what changed.
    with mpl.rc_context({"svg.hashsalt": "tepid"}):
        for draw in (softened, division, loss, confidence, reliability):
            path = FIGURES / f"{draw.__name__}.svg"
            draw(data).savefig(path, metadata={"Date": None})
            print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
