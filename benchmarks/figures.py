"""The two figures of the docs, as SVG: what each rung leaves, and what each label buys."""

from pathlib import Path
from typing import Any

# A blue and a vermilion that the color-blind tell apart, after Okabe and Ito, and a gray: all are
# legible on white and on black, and there is no background of their own.
BLUE, VERMILION, GREY = "#2A8FCB", "#D55E00", "#808080"
RUNGS = {
    ("alone", "all sets", "T = 1"): "nothing (T = 1)",
    ("alone", "all sets", "UTS"): "logits, UTS",
    ("alone", "all sets", "guarded"): "logits, guarded",
    ("few", "25 labels", "few labels"): "25 labels",
    ("few", "100 labels", "few labels"): "100 labels",
    ("alone", "all sets", "accuracy"): "the accuracy",
    ("alone", "all sets", "labels"): "all labels",
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


def draw(table: list[dict[str, Any]], summary: dict[str, Any], folder: Path) -> str:
    """Draw what the parts allow; says what was drawn, or why nothing was."""
    if not {"alone", "few"} <= summary.keys():
        return "no figures: they need the parts alone and few"
    try:
        import matplotlib as mpl  # noqa: PLC0415  # only here, so that all else works without
    except ImportError:
        return "no figures: they need matplotlib, pip install 'tepid[bench]'"
    mpl.use("svg")
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        _save(_by_rung(table), folder / "rungs.svg")
        _save(_by_labels(summary["few"]), folder / "labels.svg")
    return f"figures in {folder}"


def _by_rung(table: list[dict[str, Any]]) -> Any:
    """The ECE of every set on every rung, a little apart where they would hide one another."""
    figure, axes = _axes(7.2, 3.6)
    for height, (part, group, rung) in enumerate(RUNGS):
        ece = sorted(
            100 * row["ece"]
            for row in table
            if (row["part"], row["group"], row["rung"]) == (part, group, rung)
        )
        where = [height + 0.09 * (i % 5 - 2) for i in range(len(ece))]
        axes.plot(ece, where, "o", color=BLUE, markersize=4, alpha=0.75, markeredgewidth=0)
        mean = sum(ece) / len(ece)
        axes.plot([mean], [height], "D", color=VERMILION, markersize=8)
        axes.annotate(
            f"{mean:.1f}", (mean, height), (0, 9), textcoords="offset points", ha="center"
        )
    axes.set(yticks=range(len(RUNGS)), yticklabels=list(RUNGS.values()))
    axes.set(xscale="log", xlabel="calibration error (ECE), %: a dot per set, ◆ their mean")
    axes.set_xticks(
        [0.2, 0.5, 1, 2, 5, 10, 20, 50], ["0.2", "0.5", "1", "2", "5", "10", "20", "50"]
    )
    axes.set_ylim(len(RUNGS) - 0.5, -0.8)
    axes.minorticks_off()
    return figure


def _by_labels(few: dict[str, Any]) -> Any:
    figure, axes = _axes(6.0, 3.6)
    counts = [int(group.split()[0]) for group in few]
    for rung, title, style, color in (
        ("plain scaling", "temperature scaling on the labels alone", "s--", VERMILION),
        ("few labels", "from_few_labels", "o-", BLUE),
    ):
        excess = [few[group][rung]["excess_nll"] for group in few]
        axes.plot(counts, excess, style, color=color, label=title)
    axes.plot(counts, [0.5 / n for n in counts], ":", color=GREY, label="1 / (2 n)")
    axes.set(xscale="log", yscale="log", xlabel="labels", ylabel="NLL above the best temperature's")
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
