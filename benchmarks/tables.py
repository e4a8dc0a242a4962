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
    "oracle": "the best temperature, which is not to be had",
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
        f"On {sets} real sets of logits, {result['samples']} rows drawn {result['draws']} times "
        f"from each, T from kept logits was {100 * median['kept']:.1f} % from that of all rows "
        f"(root mean square, median set), and T from two summaries "
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
