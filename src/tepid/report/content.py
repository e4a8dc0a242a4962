"""The numbers behind the charts of a report, as its page reads them."""

from typing import Any

import numpy as np

from tepid.arrays import Array, Float64
from tepid.report.reading import Findings
from tepid.report.stops import Stop, place, wilson
from tepid.report.summaries import EDGES, Classes

# The picture of M_k is drawn for the classes that are predicted most.
_MOST_DIVISIONS = 1000


def content(
    findings: Findings, every: list[Stop], places: dict[str, int], names: list[str]
) -> dict[str, Any]:
    """All that the charts are drawn from."""
    main = places.get(findings.fits.main)
    return {
        "labelled": findings.curve.labelled,
        "accuracy": findings.accuracy,
        "weight": findings.curve.weight,
        "stops": _stops(every),
        "marks": [{"name": "uncalibrated", "stop": place(every, 1.0)}]
        + [{"name": name, "stop": stop} for name, stop in places.items()],
        "start": place(every, 1.0) if main is None else main,
        "classes": {"names": names, "columns": _columns(findings)},
        "division": _division(findings),
    }


def _stops(every: list[Stop]) -> dict[str, Any]:
    intervals = [wilson(stop.correct, stop.count) for stop in every]
    return {
        "t": [stop.temperature for stop in every],
        "confidence": [stop.confidence for stop in every],
        "uts": [stop.uts for stop in every],
        "nll": [stop.nll for stop in every],
        "count": [stop.count for stop in every],
        "sure": [stop.sure for stop in every],
        "correct": [stop.correct for stop in every],
        "low": [low.round(4) for low, _ in intervals],
        "high": [high.round(4) for _, high in intervals],
    }


def _columns(findings: Findings) -> list[dict[str, Any]]:
    before, after, theta = findings.before, findings.after, findings.members.thresholds
    at = f"T\u00a0=\u00a0{after.temperature:.4g}"
    columns = [
        _column("predicted", "rows predicted k", "count", before.predicted),
        _column("confidence, T\u00a0=\u00a01", _CONFIDENCE, "percent", _mean(before)),
        _column(f"confidence, {at}", _CONFIDENCE, "percent", _mean(after)),
        _column("θ_k", "the threshold of UTS on S_k", "small", theta),
        _column("|M_k|", "rows with S_k of at least θ_k", "count", findings.members.members),
    ]
    if not findings.curve.labelled:
        return columns
    right = _over(before.correct, before.predicted)
    return [
        *columns,
        _column("labelled", "rows labelled k", "count", before.labelled),
        _column("accuracy", "share of the rows predicted k that are k", "percent", right),
        _column("class ECE, T\u00a0=\u00a01", _CLASS_ECE, "percent", before.error()),
        _column(f"class ECE, {at}", _CLASS_ECE, "percent", after.error()),
    ]


_CONFIDENCE = "mean confidence of the rows predicted k"
_CLASS_ECE = "calibration error of the probability of k over all rows"


def _column(title: str, meaning: str, kind: str, values: Float64) -> dict[str, Any]:
    return {"title": title, "meaning": meaning, "kind": kind, "values": _significant(values)}


def _mean(classes: Classes) -> Float64:
    return _over(classes.confidence, classes.predicted)


def _over(part: Float64, whole: Float64) -> Float64:
    return part / np.where(whole > 0, whole, np.nan)


def _significant(values: Float64) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]


def _division(findings: Findings) -> dict[str, Any]:
    members = findings.members
    # A class without a row predicted as it still has rows that are drawn in.
    order = np.lexsort((np.arange(members.classes), -findings.before.predicted))
    shown: Array = np.sort(order[:_MOST_DIVISIONS])
    return {
        "edges": _significant(EDGES),
        "theta": _significant(members.thresholds[shown]),
        "classes": shown,
        "counts": [[_significant(kind) for kind in members.histogram[k]] for k in shown],
    }
