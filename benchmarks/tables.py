"""Tables for the pages, each from the results file of its own name."""

import textwrap
from collections.abc import Iterable
from typing import Any


def percent(share: float, digits: int = 2) -> str:
    return f"{100 * share:.{digits}f}"


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    lines = [list(head), *([str(cell) for cell in row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("|" + "|".join(c if c == "---" else f" {c} " for c in x) + "|" for x in lines)


def resnet20(result: dict[str, Any]) -> str:
    """What each kind of evidence buys a real network, and how well its ONNX file says the same."""
    rows = []
    for row in result["rows"]:
        t, ece, nll = row["temperature"], row["ece"], row["nll"]
        onnx = f"{row['onnx']:.1e}" if "onnx" in row else ""
        rows.append((row["evidence"], f"{t:.3f}", f"{ece:.2f}", f"{nll:.3f}", onnx))
    return table(("evidence", "T", "ECE, %", "NLL", "ONNX file differs by"), rows)


METHODS = {
    "oracle": "oracle temperature (fitted on the scored rows)",
    "temperature": "temperature",
    "ensemble": "ensemble",
    "vector": "vector",
    "matrix": "matrix",
    "matrix, no ODIR": "matrix without regularization",
    "dirichlet": "Dirichlet",
    "histogram": "histogram binning",
    "isotonic": "isotonic regression",
    "bbq": "BBQ",
    "beta": "beta",
    "accuracy": "accuracy matching (no labels)",
    "uts": "UTS (no labels)",
    "uncalibrated": "none",
}


def methods(result: dict[str, Any]) -> str:
    """Every method with labels on real sets."""
    rows = []
    for name, title in METHODS.items():
        m = result["methods"][name]
        excess = f"infinite on {m['infinite']}" if m["excess"] is None else f"{m['excess']:.4f}"
        median = "infinite" if m["median"] is None else f"{m['median']:.4f}"
        worse = f"{m['worse_than_temperature']} of {m['sets']}"
        rows.append(
            (title, percent(m["ece"]), excess, median, worse, f"{100 * m['accuracy']:+.2f}")
        )
    nll = ("NLL above the oracle", "median")
    head = ("method", "ECE, %", *nll, "worse than temperature", "accuracy, points")
    return table(head, rows)


def warmup(result: dict[str, Any]) -> str:
    """What the rule of a warm-up costs."""
    median, sets = result["median"], len(result["sets"])
    sentence = (
        f"On {sets} real sets of logits, T was fitted to {result['samples']} random rows, "
        f"{result['draws']} times for each set. T from kept logits differs from T of all rows by "
        f"{100 * median['kept']:.1f} % (root mean square, median set), and T from two summaries by "
        f"{100 * median['halved']:.1f} %."
    )
    return textwrap.fill(sentence, 100)


WATCHING = {
    "Monitor.update": "`update`",
    "… reestimate=True": "with `reestimate=True`",
    "… autosave": "saved with every chunk",
    "… sample=0.1": "with `sample=0.1`",
}


def overhead(result: dict[str, Any]) -> str:
    """How many times each softmax watching takes, for every size."""
    rows = []
    for size in result["results"]:
        for name, title in WATCHING.items():
            ratios = (over[name] for over in size["over"].values())
            said = [f"{r['min']:.2f} ({r['median']:.2f})" for r in ratios]
            taken = f"{size['microseconds'][name]['min']:.0f}"
            rows.append((f"{size['rows']} × {size['classes']}", title, taken, *said))
    head = ("rows × classes", "", "µs", *(f"÷ {unit}" for unit in result["results"][0]["over"]))
    return table(head, rows)


# The rows of the page on decisions, and what the reader has in hand.
DECIDING = {
    "T = 1": "nothing: T = 1",
    "logits alone": "logits alone (refused)",
    "accuracy ±.02": "the accuracy ± 0.02",
    "25 labels": "25 labels",
    "25 labels + accuracy ±.03": "25 labels and the accuracy ± 0.03",
    "TS on 20 % labels": "labels for every row that T is fitted to",
}


def decisions(found: dict[str, Any]) -> str:
    """What thresholds, sets and expected performance promise and keep."""
    lines = []
    for name, title in DECIDING.items():
        plain, sets = (found[part]["0.95"][name] for part in ("precision", "sets"))
        cautious = found["precision"]["0.95"].get(f"{name}, cautious")
        lines.append((
            title, f"{plain['realized']:.3f}", f"{100 * plain['short']:.0f} %",
            f"{100 * plain['accepted']:.0f} %",
            f"{100 * cautious['short']:.0f} %" if cautious else "",
            f"{100 * cautious['accepted']:.0f} %" if cautious else "",
            f"{sets['coverage']:.3f} ± {sets['error']:.3f}",
            f"{found['performance'][name]['error']:.3f}",
        ))  # fmt: skip
    conformal = found["sets"]["0.95"]["split conformal, 100 labels"]
    cell = f"{conformal['coverage']:.3f} ± {conformal['error']:.3f}"
    lines.append(("100 labels, split conformal", *[""] * 5, cell, ""))
    head = (
        "you have", "precision, target 0.95", "sets short", "accepted", "cautious: sets short",
        "accepted", "coverage of sets, target 0.95", "error of the accuracy",
    )  # fmt: skip
    return table(head, lines)
