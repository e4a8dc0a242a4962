"""The HTML page: escaped elements, the data of the charts, and one file that holds everything."""

import base64
import hashlib
import html
import importlib.metadata
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from tepid.decisions import class_performance
from tepid.report.findings import Findings, Slider, Stop
from tepid.report.summaries import EDGES
from tepid.summaries.reliability import wilson_interval
from tepid.validation import Array, Float64

# In the order of their dependencies.
_SCRIPTS = ("draw", "reliability", "slider", "acceptance", "classes", "theme")
# The histogram of M_k is drawn for the classes that are predicted most.
_MOST_DIVISIONS = 1000
_CONFIDENCE = "mean confidence of the rows predicted k"
_PRECISION = "share of the rows predicted k that are k"
_RECALL = "share of the rows labeled k that are predicted k"
_CLASS_ECE = "calibration error of the probability of k over all rows"


@dataclass(frozen=True)
class Section:
    """A section of the page; the table of contents lists its title."""

    name: str
    title: str
    inside: str

    def __str__(self) -> str:
        return (
            f'<section id="{self.name}" aria-labelledby="{self.name}-title">'
            f'<h2 id="{self.name}-title">{escape(self.title)}</h2>{self.inside}</section>'
        )


def render(title: str, facts: str, sections: Sequence[Section], data: object) -> str:
    """The whole document, with its style, scripts and data inside."""
    links = (f'<li><a href="#{s.name}">{escape(s.title)}</a></li>' for s in sections)
    style = _asset("page.css")
    script = "\n".join(_asset(f"{name}.js") for name in _SCRIPTS)
    return Template(_asset("page.html")).substitute(
        title=escape(title),
        facts=escape(facts),
        version=escape(importlib.metadata.version("tepid")),
        policy=f"default-src 'none'; img-src data:; style-src '{_csp_hash(style)}'; "
        f"script-src '{_csp_hash(script)}'; base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
        data=script_json(data),
        contents="".join(links),
        sections="\n".join(map(str, sections)),
    )


def _asset(name: str) -> str:
    return (resources.files("tepid.report") / "assets" / name).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    """The hash by which the content security policy allows exactly this text."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def escape(text: object) -> str:
    """Text that is safe inside an element or a quoted attribute."""
    return html.escape(str(text), quote=True)


def table(caption: str, head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table; the first cell of each row is its heading."""
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    rows = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in body
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def details(summary: str, inside: str) -> str:
    """A part that is folded until it is clicked."""
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def paragraph(text: str) -> str:
    """A paragraph of text."""
    return f"<p>{escape(no_breaks(text))}</p>"


def no_breaks(text: str) -> str:
    """The text with non-breaking spaces between numbers and their units."""
    return text.replace(" %", "\u00a0%").replace("T = ", "T\u00a0=\u00a0")


def percent(value: float) -> str:
    """A share as a percentage with two digits."""
    return f"{100 * value:.2f} %"


def script_json(value: object) -> str:
    """JSON that cannot end its script element; NaN and infinity become null."""
    text = json.dumps(_to_json(value), allow_nan=False, separators=(",", ":"))
    # In JSON these characters occur inside strings only, where they may be escaped.
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _to_json(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _to_json(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    return _shorten(value) if isinstance(value, float) else value


def _shorten(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.9g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short


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
