"""A reliability diagram for the terminal."""

from rich.table import Table
from rich.text import Text

import tepid

_WIDTH = 20


def side_by_side(scored: "dict[str, tepid.Reliability]") -> Table:
    """One column of bars per summary: accuracy as a bar, confidence as a mark, by bin."""
    table = Table(
        box=None,
        padding=(0, 1),
        title="reliability (█ accuracy, ◆ confidence, ! over 0.1 apart)",
        title_justify="left",
    )
    table.add_column("bin", justify="right")
    for name in scored:
        table.add_column(name)
        table.add_column("rows", justify="right")
    bins = next(iter(scored.values())).bins
    for b in reversed(range(bins)):
        if any(r.count[b] for r in scored.values()):
            cells = [cell for r in scored.values() for cell in _cells(r, b)]
            table.add_row(f"{b / bins:.2f}–{(b + 1) / bins:.2f}", *cells)
    return table


def _cells(r: "tepid.Reliability", b: int) -> tuple[Text, str]:
    n = r.count[b]
    if not n:
        return Text(""), ""
    accuracy, mark = r.correct[b] / n, round(_WIDTH * r.confidence[b] / n)
    filled = round(_WIDTH * accuracy)
    bar = [*"█" * filled, *"·" * (_WIDTH - filled), " "]
    bar[min(mark, _WIDTH)] = "◆"
    apart = abs(accuracy - r.confidence[b] / n) > 0.1
    bar.append("!" if apart else " ")
    return Text("".join(bar), style="red" if apart else "cyan"), f"{n:.0f}"
