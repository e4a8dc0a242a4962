"""`tepid score`."""

from collections.abc import Callable

from rich.table import Table

import tepid
from tepid.cli import diagram, options, output


def score(
    logits: options.Logits,
    labels: options.Labels = None,
    calibration: options.Calibration = None,
    groups: options.Groups = None,
    probabilities: options.Probabilities = False,
    class_axis: options.ClassAxis = None,
    threads: options.ThreadCount = None,
    as_json: options.Json = False,
) -> None:
    """Measure confidence against labels, before and after a calibration.

    Example: tepid score logits.npy labels.npy -c calibration.json
    """
    source = tepid.sources.open_source(
        logits,
        labels=output.labels_beside(logits) if labels is None else labels,
        class_axis=class_axis,
        probabilities=probabilities,
        groups=groups,
    )
    fitted = {} if calibration is None else {"after": tepid.load(calibration)}
    for temperature in fitted.values():
        output.doubts(temperature)
        output.note_strangers(temperature, source)
    with output.working(threads) as engine:
        scored = {"before": engine.total(_reliability(None), source, "scoring before")}
        for name, temperature in fitted.items():
            scored[name] = engine.total(_reliability(temperature), source, f"scoring {name}")
    show(scored, as_json=as_json)


def show(scored: dict[str, "tepid.Reliability"], *, as_json: bool) -> None:
    """Print every measure of each reliability, and its diagram."""
    measured = {name: tepid.protocol.measures(r) for name, r in scored.items()}
    if as_json:
        output.print_json({"samples": round(scored["before"].rows)} | measured)
        return
    table = Table(box=None, padding=(0, 2), title="score", title_justify="left")
    table.add_column()
    for name in measured:
        table.add_column(name, justify="right")
    rows: dict[str, tuple[str, Callable[[float], str]]] = {
        "accuracy": ("accuracy", _percent),
        "confidence": ("mean confidence", _percent),
        "nll": ("NLL", _plain),
        "brier": ("Brier", _plain),
        "ece": ("ECE", _percent),
    }
    for key, (title, form) in rows.items():
        table.add_row(title, *(form(m[key]) for m in measured.values()))
    screen = output.console()
    screen.print(table)
    screen.print()
    screen.print(diagram.side_by_side(scored))


def _reliability(
    temperature: "tepid.Temperature | None",
) -> Callable[["tepid.sources.Block"], "tepid.Reliability"]:
    def of(block: tepid.sources.Block) -> tepid.Reliability:
        if temperature is None:
            return tepid.Reliability.of_logits(block.logits, block.labels)
        temperature.check_classes(tepid.shapes.class_count(block.logits))
        if block.groups is None:
            return tepid.Reliability.of_logits(
                block.logits, block.labels, temperature=temperature.value
            )
        p = temperature(block.logits, groups=block.groups)
        return tepid.Reliability.of(p, block.labels)

    return of


def _percent(value: float) -> str:
    return f"{100 * value:.2f} %"


def _plain(value: float) -> str:
    return f"{value:.4f}"
