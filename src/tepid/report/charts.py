"""The numbers from which the scripts of the page draw the charts and the class table."""

from typing import Any

import numpy as np

from tepid.decisions import Accepted, Goal, class_performance, read_threshold
from tepid.report.findings import BINS, Findings, Slider, Stop
from tepid.report.page import no_breaks
from tepid.report.summaries import EDGES
from tepid.summaries.reliability import wilson_interval
from tepid.validation import Array, Float64, Int64

# The histogram of M_k is drawn for the classes that are predicted most.
_MOST_DIVISIONS = 1000
_CONFIDENCE = "mean confidence of the rows predicted k"
_PRECISION = "share of the rows predicted k that are k"
_RECALL = "share of the rows labeled k that are predicted k"
_CLASS_ECE = "calibration error of the probability of k over all rows"


_PRECISIONS = (0.9, 0.95, 0.99)
# Where the slider starts if no threshold is known.
_START = 0.9


def chart_data(findings: Findings, slider: Slider, names: list[str]) -> dict[str, Any]:
    """The numbers from which the scripts draw the charts."""
    uncalibrated = slider.uncalibrated
    return {
        "labeled": findings.labeled,
        "accuracy": findings.accuracy,
        "weight": findings.curve.weight,
        "stops": _stop_data(slider.stops),
        "marks": [{"name": "uncalibrated", "stop": uncalibrated}]
        + [{"name": name, "stop": stop} for name, stop in slider.positions.items()],
        "start": slider.positions.get(findings.fits.main, uncalibrated),
        "classes": {"names": names, "columns": _class_columns(findings)},
        "division": _division(findings),
        "acceptance": _acceptance_data(findings, slider),
    }


def _stop_data(stops: list[Stop]) -> dict[str, Any]:
    intervals = [wilson_interval(stop.correct, stop.count) for stop in stops]
    return {
        "t": [stop.temperature for stop in stops],
        "confidence": [stop.confidence for stop in stops],
        "uts": [stop.uts for stop in stops],
        "nll": [stop.nll for stop in stops],
        "count": [stop.count for stop in stops],
        "sure": [stop.confidence_sum for stop in stops],
        "correct": [stop.correct for stop in stops],
        "low": [low.round(4) for low, _ in intervals],
        "high": [high.round(4) for _, high in intervals],
    }


def _class_columns(findings: Findings) -> list[dict[str, Any]]:
    before, after, theta = findings.before, findings.after, findings.members.thresholds
    at = f"T\u00a0=\u00a0{after.temperature:.4g}"
    sure = [_ratio(classes.confidence, classes.predicted) for classes in (before, after)]
    columns = [
        _column("predicted", "rows predicted k", "count", before.predicted),
        _column("confidence, T\u00a0=\u00a01", _CONFIDENCE, "percent", sure[0]),
    ]
    if after.temperature not in (1.0, findings.fits.about.value):
        columns.append(_column(f"confidence, {at}", _CONFIDENCE, "percent", sure[1]))
    columns += _expected_columns(findings)
    if findings.labeled:
        right, predicted, labeled = before.correct, before.predicted, before.labeled
        f1 = _ratio(2 * right, predicted + labeled)
        columns += [
            _column("labeled", "rows labeled k", "count", labeled),
            _column("precision", _PRECISION, "percent", _ratio(right, predicted)),
            _column("recall", _RECALL, "percent", _ratio(right, labeled)),
            _column("F1", "harmonic mean of precision and recall", "percent", f1),
            _column("class ECE, T\u00a0=\u00a01", _CLASS_ECE, "percent", before.error()),
        ]
        if after.temperature != 1:
            columns.append(_column(f"class ECE, {at}", _CLASS_ECE, "percent", after.error()))
    return [
        *columns,
        _column("θ_k", "the threshold of UTS on S_k", "small", theta),
        _column("|M_k|", "rows with S_k of at least θ_k", "count", findings.members.members),
    ]


def _expected_columns(findings: Findings) -> list[dict[str, Any]]:
    """Precision, recall and F1 that the main temperature leads to expect, with their intervals."""
    about = findings.fits.about
    sums = [findings.by_class[t] for t in about.ends]
    right = np.stack([each.confidence for each in sums])
    predicted = np.stack([each.predicted for each in sums])
    mass = np.stack([each.mass for each in sums])
    found = list(class_performance(right, predicted, mass, findings.curve.weight))
    meanings = {
        "precision": "mean probability of k over the rows predicted k",
        "recall": "share of the probability of k that lies in the rows predicted k",
        "f1": "harmonic mean of expected precision and recall",
    }
    columns = []
    for name, meaning in meanings.items():
        values = [getattr(each, name) for each in found]
        known = np.array([[np.nan] * 3 if v is None else [v.value, v.low, v.high] for v in values])
        title = "expected F1" if name == "f1" else f"expected {name}"
        column = _column(title, meaning, "percent", known[:, 0])
        if about.interval is not None:
            column |= {"low": known[:, 1].round(4), "high": known[:, 2].round(4)}
        columns.append(column)
    return columns


def _column(title: str, meaning: str, kind: str, values: Float64) -> dict[str, Any]:
    return {"title": title, "meaning": meaning, "kind": kind, "values": _significant(values)}


def _ratio(part: Float64, whole: Float64) -> Float64:
    return part / np.where(whole > 0, whole, np.nan)


def _significant(values: Float64) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]


def _division(findings: Findings) -> dict[str, Any]:
    """The histograms of S_k; a class that is never predicted may still have members."""
    members = findings.members
    order = np.argsort(-findings.before.predicted, kind="stable")
    shown: Array = np.sort(order[:_MOST_DIVISIONS])
    return {
        "edges": _significant(EDGES),
        "theta": _significant(members.thresholds[shown]),
        "classes": shown,
        "counts": [[_significant(kind) for kind in members.histogram[k]] for k in shown],
    }


# Which predictions to accept.


def find_promises(findings: Findings) -> dict[str, Accepted]:
    """The rows to accept for each precision, by its text; none for logits alone.

    Where T has an interval, a cautious threshold follows each one.
    """
    about = findings.fits.about
    found: dict[str, Accepted] = {}
    if about.from_logits_alone:
        return found
    for wanted in _PRECISIONS:
        name = no_breaks(f"{100 * wanted:.0f} %")
        plain, cautious = read_threshold(findings.confidence, Goal(precision=wanted))
        found[name] = plain
        if about.interval is not None:
            found[f"{name},\u00a0cautious"] = cautious
    return found


def _edges() -> Int64:
    """The thresholds of the slider, in units of 1 / BINS: finer where confidence is near 1."""
    coarse = [np.arange(0, 0.5, 0.02), np.arange(0.5, 0.9, 0.01), np.arange(0.9, 0.98, 0.002)]
    whole = np.rint(np.concatenate(coarse) * BINS).astype(np.int64)
    return np.concatenate([whole, np.arange(round(0.98 * BINS), BINS)])


_THRESHOLDS = _edges()


def _acceptance_data(findings: Findings, slider: Slider) -> dict[str, Any]:
    """The numbers behind the slider of the threshold.

    `count`, `sure` and `correct` are sums over the rows between a threshold and the next one, for
    each stop of T. `promises` are buttons: positions of the slider of the threshold.
    """
    stop = slider.positions.get(findings.fits.main)
    positions: dict[str, int] = {}
    if stop is not None:
        counts = _between(slider.stops[stop].fine[0])
        positions = {
            text: _position(accepted.threshold, counts)
            for text, accepted in find_promises(findings).items()
            if accepted.threshold is not None
        }
    return {
        "edges": [round(edge / BINS, 6) for edge in _THRESHOLDS.tolist()],
        "promise": not findings.fits.about.from_logits_alone,
        "stop": stop,
        "promises": [{"text": text, "at": at} for text, at in positions.items()],
        "start": positions.get(no_breaks("95 %"), _position(_START)),
        **_stop_sums(slider.stops, labeled=findings.labeled),
    }


def _position(threshold: float, counts: Float64 | None = None) -> int:
    """The first position at or above a threshold; the last one that accepts rows, if none does."""
    at = int(np.searchsorted(_THRESHOLDS, threshold * BINS - 1e-6))
    last = len(_THRESHOLDS) - 1
    if counts is not None and counts.any():
        last = int(np.flatnonzero(counts)[-1])
    return min(at, last)


def _between(fine: Float64) -> Float64:
    """Sums of narrow bins, added between one threshold of the slider and the next."""
    return np.add.reduceat(fine, _THRESHOLDS)


def _stop_sums(stops: list[Stop], *, labeled: bool) -> dict[str, list[Float64]]:
    names = ("count", "sure", "correct")[: 2 + labeled]
    sums = {name: [_between(stop.fine[i]) for stop in stops] for i, name in enumerate(names)}
    # Six digits of each bin: more than what is shown of their sum.
    sums["sure"] = [np.array([float(f"{v:.6g}") for v in each]) for each in sums["sure"]]
    return sums
