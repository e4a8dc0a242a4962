"""Which predictions to accept: thresholds of the main temperature, and a slider of thresholds."""

from typing import Any

import numpy as np

from tepid.decisions import Accepted, Goal, Temperatures, expected_accuracy, read_threshold
from tepid.report.findings import BINS, Findings, Slider, Stop
from tepid.report.page import Section, no_breaks, paragraph, percent, table
from tepid.validation import Float64, Int64

_PRECISIONS = (0.9, 0.95, 0.99)
# Where the slider starts if no threshold is known.
_START = 0.9


def _edges() -> Int64:
    """The thresholds of the slider, in units of 1 / BINS: finer where confidence is near 1."""
    coarse = [np.arange(0, 0.5, 0.02), np.arange(0.5, 0.9, 0.01), np.arange(0.9, 0.98, 0.002)]
    whole = np.rint(np.concatenate(coarse) * BINS).astype(np.int64)
    return np.concatenate([whole, np.arange(round(0.98 * BINS), BINS)])


EDGES = _edges()


def find_thresholds(findings: Findings) -> dict[float, tuple[Accepted, Accepted]]:
    """The rows to accept for each wanted precision, and cautiously; none for logits alone."""
    about = findings.fits.about
    if about.from_logits_alone:
        return {}
    return {
        wanted: read_threshold(findings.confidence, Goal(precision=wanted))
        for wanted in _PRECISIONS
    }


def acceptance_section(findings: Findings) -> Section:
    """The sliders of T and of the threshold, what they accept, and the thresholds to deploy."""
    about = findings.fits.about
    readings = {"share": "accepted share", "expected": "expected precision"}
    if about.from_logits_alone:
        del readings["expected"]
    if findings.labeled:
        readings["realized"] = "precision by the labels"
    cells = "".join(
        f'<div><dt>{title}</dt><dd id="read-{name}"></dd></div>' for name, title in readings.items()
    )
    inside = (
        f"{paragraph(_introduction(findings))}"
        '<div class="control still"><div class="pair">'
        '<div><label for="slider-beside">Temperature T = '
        '<output id="temperature-beside" for="slider-beside"></output></label>'
        '<input type="range" id="slider-beside" min="0" step="1"></div>'
        '<div><label for="threshold">Confidence threshold '
        '<output id="threshold-value" for="threshold"></output></label>'
        '<input type="range" id="threshold" min="0" step="1"></div></div>'
        '<div id="promises" class="jumps" role="group" aria-label="Go to a threshold"></div>'
        f'<dl class="readings">{cells}</dl></div>'
        '<div class="charts beside"><figure id="chart-accepted"></figure>'
        f"<div>{_promises(findings)}</div></div>"
    )
    return Section("acceptance", "What to do with it", inside)


def _introduction(findings: Findings) -> str:
    if findings.fits.about.from_logits_alone:
        return (
            "A threshold that promises a precision needs more evidence than the logits, from which "
            "alone this temperature comes: some labels of random rows, or the model's accuracy."
        )
    return (
        "Accept the predictions whose confidence is above a threshold, and give the others to a "
        "person. The expected precision, the mean confidence of the accepted rows, is how often "
        "they should be right if T fits. The two sliders are independent."
    )


def _promises(findings: Findings) -> str:
    """The thresholds of the main temperature, as `Temperature.threshold` returns them."""
    found = find_thresholds(findings)
    if not found:
        return ""
    about = findings.fits.about
    body = [
        [text, *_cells(accepted)]
        for wanted, threshold in found.items()
        for text, accepted in _kinds(findings, wanted, threshold).items()
    ]
    head = ["precision", "threshold", "accepted", "expected precision"]
    head += ["95 % interval"] * (about.interval is not None)
    caption = no_breaks(f"Thresholds for a wanted precision at T = {about.value:.4g}")
    notes = [f"Assumption: {Temperatures(*about.ends, groups={}).assumption}"]
    if about.interval is not None:
        cautious = "A cautious threshold keeps the precision also at the upper end of T's interval"
        notes.insert(0, f"{cautious}, T = {about.interval[1]:.4g}.")
    return table(caption, head, [row[: len(head)] for row in body]) + "".join(map(paragraph, notes))


def _kinds(
    findings: Findings, wanted: float, threshold: tuple[Accepted, Accepted]
) -> dict[str, Accepted]:
    """The threshold and, where T has an interval, the cautious one, by what they are called."""
    name = no_breaks(f"{100 * wanted:.0f} %")
    if findings.fits.about.interval is None:
        return {name: threshold[0]}
    return {name: threshold[0], f"{name},\u00a0cautious": threshold[1]}


def _cells(accepted: Accepted) -> list[str]:
    if accepted.threshold is None or accepted.precision is None:
        return ["nothing can be accepted", "0 %", "–", "–"]
    low, high = 100 * accepted.precision.low, 100 * accepted.precision.high
    return [
        f"{accepted.threshold:.4f}",
        percent(accepted.share),
        percent(accepted.precision.value),
        f"{low:.1f}–{high:.1f} %",
    ]


def acceptance_data(findings: Findings, slider: Slider) -> dict[str, Any]:
    """The numbers behind the slider of the threshold.

    `count`, `sure` and `correct` are sums over the rows between a threshold and the next one, for
    each stop of T. `promises` are buttons: positions of the slider of the threshold.
    """
    about = findings.fits.about
    stop = slider.positions.get(findings.fits.main)
    promises: list[dict[str, Any]] = []
    if stop is not None:
        counts = _between(slider.stops[stop].fine[0])
        for wanted, threshold in find_thresholds(findings).items():
            for text, accepted in _kinds(findings, wanted, threshold).items():
                if accepted.threshold is not None:
                    promises.append({"text": text, "at": _position(accepted.threshold, counts)})
    first = next((p["at"] for p in promises if p["text"] == no_breaks("95 %")), None)
    return {
        "edges": [round(edge / BINS, 6) for edge in EDGES.tolist()],
        "promise": not about.from_logits_alone,
        "stop": stop,
        "promises": promises,
        "start": _position(_START) if first is None else first,
        **_stop_sums(slider.stops, labeled=findings.labeled),
    }


def _position(threshold: float, counts: Float64 | None = None) -> int:
    """The first position at or above a threshold; the last one that accepts rows, if none does."""
    at = int(np.searchsorted(EDGES, threshold * BINS - 1e-6))
    last = len(EDGES) - 1
    if counts is not None and counts.any():
        last = int(np.flatnonzero(counts)[-1])
    return min(at, last)


def _between(fine: Float64) -> Float64:
    """Sums of narrow bins, added between one threshold of the slider and the next."""
    return np.add.reduceat(fine, EDGES)


def _stop_sums(stops: list[Stop], *, labeled: bool) -> dict[str, list[Float64]]:
    names = ("count", "sure", "correct")[: 2 + labeled]
    sums = {name: [_between(stop.fine[i]) for stop in stops] for i, name in enumerate(names)}
    # Six digits of each bin: more than what is shown of their sum.
    sums["sure"] = [np.array([float(f"{v:.6g}") for v in each]) for each in sums["sure"]]
    return sums


def describe_expectation(findings: Findings) -> str:
    """What the expected precision, recall and F1 of the class table rest on."""
    about, sums = findings.fits.about, findings.confidence
    mean = sums.confidence.sum(axis=1) / sums.rows
    accuracy = expected_accuracy(mean)
    text = (
        f"Expected precision, recall and F1 take the probabilities at T = {about.value:.4g} as the "
        f"distribution of the labels. The accuracy is then {percent(accuracy.value)}"
    )
    if about.interval is not None or not about.from_logits_alone:
        text += f", 95 % interval {100 * accuracy.low:.1f} to {100 * accuracy.high:.1f} %"
    if about.interval is not None:
        text += "; the small numbers are the range from one end of T's interval to the other"
    if about.from_logits_alone:
        text += ". T comes from the logits alone, which do not identify it"
    return f"{text}."
