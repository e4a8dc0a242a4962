"""The two figures of the docs, as SVG: ECE by evidence, and the excess NLL by number of labels."""

from pathlib import Path
from typing import Any

# A blue and a vermilion that the color-blind tell apart, after Okabe and Ito, and a gray: all are
# legible on white and on black, and there is no background of their own.
BLUE, VERMILION, GREY = "#2A8FCB", "#D55E00", "#808080"
ROWS = {
    "T = 1": "nothing (T = 1)",
    "UTS": "logits, UTS",
    "logits alone": "logits, calibrate",
    "10 labels": "10 labels",
    "25 labels": "25 labels",
    "100 labels": "100 labels",
    "accuracy ±.03": "accuracy ± .03",
    "accuracy ±0": "accuracy, exact",
    "25 labels + accuracy ±.03": "25 labels, accuracy ± .03",
    "reference": "a stronger reference",
    "labels: all fitted rows": "all labels",
}
STYLE = {
    "svg.hashsalt": "tepid",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **{f"{name}.color": GREY for name in ("text", "xtick", "ytick", "grid")},
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "legend.frameon": False,
}


def draw(records: list[dict[str, Any]], summary: dict[str, Any], folder: Path) -> None:
    """Write `evidence.svg` and `labels.svg` into a folder."""
    import matplotlib as mpl  # noqa: PLC0415  # only here, so that all else works without

    mpl.use("svg")
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        _save(_by_evidence(records), folder / "evidence.svg")
        _save(_by_labels(summary["sets"]["all sets"]), folder / "labels.svg")


def _by_evidence(records: list[dict[str, Any]]) -> Any:
    """The ECE of every set in every row, a little apart where they would hide one another."""
    figure, axes = _axes(7.2, 5.2)
    for height, row in enumerate(ROWS):
        by_set: dict[str, list[float]] = {}
        for each in records:
            if each["part"] == "sets" and each["row"] == row:
                by_set.setdefault(each["set"], []).append(100 * each["ece"])
        ece = sorted(sum(values) / len(values) for values in by_set.values())
        where = [height + 0.09 * (i % 5 - 2) for i in range(len(ece))]
        axes.plot(ece, where, "o", color=BLUE, markersize=4, alpha=0.75, markeredgewidth=0)
        mean = sum(ece) / len(ece)
        axes.plot([mean], [height], "D", color=VERMILION, markersize=8)
        axes.annotate(
            f"{mean:.1f}", (mean, height), (0, 9), textcoords="offset points", ha="center"
        )
    axes.set(yticks=range(len(ROWS)), yticklabels=list(ROWS.values()))
    axes.set(xscale="log", xlabel="calibration error (ECE), %: a dot per set, ◆ their mean")
    axes.set_xticks(
        [0.2, 0.5, 1, 2, 5, 10, 20, 50], ["0.2", "0.5", "1", "2", "5", "10", "20", "50"]
    )
    axes.set_ylim(len(ROWS) - 0.5, -0.8)
    axes.minorticks_off()
    return figure


def _by_labels(rows: dict[str, Any]) -> Any:
    figure, axes = _axes(6.0, 3.6)
    counts = [5, 10, 25, 50, 100, 200]
    excess = [rows[f"{n} labels"]["excess_nll"] for n in counts]
    axes.plot(counts, excess, "o-", color=BLUE, label="calibrate")
    axes.plot(counts, [0.5 / n for n in counts], ":", color=GREY, label="1 / (2 n)")
    axes.set(
        xscale="log", yscale="log", xlabel="labels", ylabel="NLL above the oracle temperature's"
    )
    axes.set_xticks(counts, [str(n) for n in counts])
    axes.minorticks_off()
    axes.legend(labelcolor=GREY)
    return figure


def _axes(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure((width, height), layout="constrained")
    axes = figure.subplots()
    axes.grid(visible=True, axis="both", linewidth=0.4, alpha=0.5)
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, transparent=True, metadata={"Date": None})
