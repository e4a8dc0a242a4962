"""The sections of a report: text and tables, and placeholders for the charts."""

from collections.abc import Sequence

import numpy as np

from tepid.methods.advice import judged
from tepid.report.findings import Findings, Slider, Stop
from tepid.report.images import Image, Images
from tepid.report.page import Section, details, escape, no_breaks, paragraph, percent, table
from tepid.report.summaries import Example
from tepid.summaries.reliability import wilson_interval
from tepid.temperature import Temperature

_EVIDENCE = {
    "temperature": "the labels of every row",
    "accuracy": "the model's accuracy",
    "few-labels": "labels of a few rows",
    "models": "other models on the same rows",
    "source": "an older labeled set",
    "guarded": "the logits alone, cautiously",
    "odds": "the logits alone, by the odds of each class",
    "uts": "the logits alone, by UTS",
    "uts-debiased": "the logits alone, by UTS with its bias removed",
}
_NEXT = {
    "use": "divide logits by this T from now on, as the command tepid apply does.",
    "check": "hold the implied accuracy against what is known of the model before using this T.",
    "do not use": "keep T = 1 until there is more evidence.",
}
_IN_SAMPLE = (
    "What was found from labels is measured here on the rows that it was found from, which "
    "flatters it a little."
)


def all_sections(
    findings: Findings, slider: Slider, names: Sequence[str], images: Images | None
) -> list[Section]:
    """The sections of the page in order."""
    sections = [
        _in_short(findings, slider),
        _slider(findings),
        _reliability(slider) if findings.labeled else None,
        _classes(),
        _example_rows(findings, names, images),
        _groups(findings.fits.temperatures),
    ]
    return [section for section in sections if section is not None]


def facts(findings: Findings) -> str:
    """The size of the data in one line."""
    labeled = "with labels" if findings.labeled else "without labels"
    return f"{_count_rows(findings)}, {findings.tails.classes:,} classes, {labeled}"


def _in_short(findings: Findings, slider: Slider) -> Section:
    """The result, its evidence, whether to trust it, and what to do next."""
    fits = findings.fits
    main = fits.temperatures[fits.main]
    verdict, _ = _verdict(main)
    what, why = _headline(main)
    headline = f"<strong>{escape(what)}</strong> {escape(why)}"
    parts = [
        f'<p class="verdict" data-verdict="{escape(verdict)}">{headline}</p>',
        paragraph(_origin(main)),
    ]
    stop = slider.stop_of(fits.main)
    if stop is not None and main.status != "abstained":
        parts.append(paragraph(_effect(findings, slider.stops[slider.uncalibrated], stop)))
    parts.append(paragraph(_next_step(findings)))
    if main.warnings:
        notes = "".join(f"<li>{escape(w)}</li>" for w in main.warnings)
        parts.append(f'<h3>Notes</h3><ul class="notes">{notes}</ul>')
    parts.append(_methods(findings, slider))
    if fits.own and findings.labeled:
        parts.append(paragraph(_IN_SAMPLE))
    return Section("short", "In short", "".join(parts))


def _verdict(temperature: Temperature) -> tuple[str, str]:
    if temperature.method not in _EVIDENCE and temperature.status == "ok":
        return "check", "its method is not one of tepid's"
    return judged(temperature)


def _headline(temperature: Temperature) -> tuple[str, str]:
    verdict, reason = _verdict(temperature)
    t = f"T = {temperature.value:.4g}"
    kept = "Keep T = 1." if temperature.status == "abstained" else f"Do not use {t}."
    what = {"use": f"Use {t}.", "check": f"Check {t} before you use it.", "do not use": kept}
    return what[verdict], reason[:1].upper() + reason[1:] + "."


def _evidence(temperature: Temperature) -> str:
    return _EVIDENCE.get(temperature.method, f"the method {temperature.method}")


def _origin(t: Temperature) -> str:
    """The evidence from which T was found, and the accuracy that it implies."""
    size = f"({t.samples:,} rows, {t.classes:,} classes)"
    accuracy = percent(t.implied_accuracy)
    if t.status == "abstained":
        return (
            f"No temperature was found from {_evidence(t)} {size}. T = 1 implies an accuracy of "
            f"{accuracy}, the mean confidence of those rows; if the model is right more or less "
            "often than that, it needs another temperature."
        )
    interval = ""
    if t.interval is not None:
        kind = "range" if t.method == "accuracy" else "95 % interval"
        interval = f", {kind} {t.interval[0]:.4g} to {t.interval[1]:.4g},"
    return (
        f"T = {t.value:.4g}{interval} was found from {_evidence(t)} {size}. It implies an accuracy "
        f"of {accuracy}, the mean confidence of those rows at this temperature; if the model is "
        "right more or less often than that, T is wrong."
    )


def _effect(findings: Findings, before: Stop, after: Stop) -> str:
    """How confidence and, with labels, ECE and NLL change."""
    rows = f"the {_count_rows(findings)} of this report"
    if findings.accuracy is None:
        return (
            f"The mean confidence of {rows} is {percent(before.confidence)} at T = 1 and "
            f"{percent(after.confidence)} at this T."
        )
    return (
        f"The labels of {rows} say {percent(findings.accuracy)}. The mean "
        f"confidence goes from {percent(before.confidence)} at T = 1 to "
        f"{percent(after.confidence)}, the calibration error (ECE) from {percent(before.ece)} to "
        f"{percent(after.ece)}, and the NLL from {before.nll:.4f} to {after.nll:.4f}."
    )


def _count_rows(findings: Findings) -> str:
    return f"{findings.curve.rows:,.0f} rows"


def _next_step(findings: Findings) -> str:
    if findings.fits.would_help:
        return f"What would help most: {findings.fits.would_help}."
    main = findings.fits.temperatures[findings.fits.main]
    if findings.labeled and main.method not in ("temperature", "accuracy"):
        return (
            "Next: these rows have labels, which settle T; tepid fit --labels finds it from them."
        )
    return f"Next: {_NEXT[_verdict(main)[0]]}"


def _methods(findings: Findings, slider: Slider) -> str:
    labeled = findings.labeled
    uncalibrated = _scores(slider.stops[slider.uncalibrated], labeled=labeled)
    body = [["uncalibrated", "nothing", "1.0000", *uncalibrated, "", ""]]
    for name, t in findings.fits.temperatures.items():
        scores = _scores(slider.stop_of(name), labeled=labeled)
        verdict, _ = _verdict(t)
        body.append([name, _evidence(t), f"{t.value:.4f}", *scores, t.status, verdict])
    columns = ["ECE", "NLL"] if labeled else []
    head = ["method", "found from", "T", "mean confidence", *columns, "status", "verdict"]
    return table("Every temperature, on the rows of this report", head, body)


def _scores(stop: Stop | None, *, labeled: bool) -> list[str]:
    if stop is None:
        return ["out of reach"] + ["", ""] * labeled
    scores = [percent(stop.ece), f"{stop.nll:.4f}"] if labeled else []
    return [percent(stop.confidence), *scores]


def _slider(findings: Findings) -> Section:
    readings = {"confidence": "implied accuracy (mean confidence)", "uts": "UTS loss per pair"}
    if findings.labeled:
        readings |= {"accuracy": "accuracy by the labels", "nll": "NLL", "ece": "ECE"}
    cells = "".join(
        f'<div><dt>{title}</dt><dd id="read-{name}"></dd></div>' for name, title in readings.items()
    )
    charts = ["loss", "histogram"] + ["reliability"] * findings.labeled
    figures = "".join(f'<figure id="chart-{name}"></figure>' for name in charts)
    inside = (
        "<p>Every chart here follows the slider. It stops where the rows were summed: every 9 % "
        "and at each of the temperatures above.</p>"
        '<div class="control"><label for="slider">Temperature T = '
        '<output id="temperature" for="slider"></output></label>'
        '<input type="range" id="slider" min="0" step="1">'
        '<div id="jumps" class="jumps" role="group" aria-label="Go to a temperature"></div>'
        f'<dl class="readings">{cells}</dl></div><div class="charts">{figures}</div>'
    )
    return Section("slider-section", "Move the temperature", inside)


def _reliability(slider: Slider) -> Section:
    figures = []
    for name, position in {"uncalibrated": slider.uncalibrated, **slider.positions}.items():
        stop = slider.stops[position]
        caption = f"{name}, T = {stop.temperature:.4g}"
        figures.append(
            f'<div><h3>{escape(caption)}</h3><figure class="diagram" data-stop="{position}">'
            f"</figure>{details('The data', _bins(stop, f'Bins: {caption}'))}</div>"
        )
    inside = (
        "<p>Bars: how often the rows of a bin are right, with 95 % Wilson intervals. Hatched: the "
        "gap to their mean confidence. Below: how many rows. A bin without rows is blank. "
        "On the diagonal confidence is what it claims to be.</p>"
        f'<div class="charts">{"".join(figures)}</div>'
    )
    return Section("reliability", "Reliability before and after", inside)


def _bins(stop: Stop, caption: str) -> str:
    low, high = wilson_interval(stop.correct, stop.count)
    n, edges = len(stop.count), np.arange(len(stop.count) + 1) / len(stop.count)
    body = [
        [
            f"{edges[b]:.3f}–{edges[b + 1]:.3f}",
            f"{stop.count[b]:,.10g}",
            percent(stop.confidence_sum[b] / stop.count[b]),
            percent(stop.correct[b] / stop.count[b]),
            f"{100 * low[b]:.1f}–{100 * high[b]:.1f} %",
        ]
        for b in range(n)
        if stop.count[b]
    ]
    head = ["bin of confidence", "rows", "mean confidence", "accuracy", "95 % interval"]
    return table(caption, head, body)


def _classes() -> Section:
    """The class table, which the scripts fill."""
    inside = (
        '<div class="tools"><label>Find a class <input type="search" id="find"></label>'
        '<p id="found" role="status"></p></div>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Classes">'
        '<table id="classes"><caption>Every class; a heading sorts by its column</caption>'
        "<thead></thead><tbody></tbody></table></div>"
        '<button type="button" id="more">Show more</button>'
        "<h3>Who counts for a class</h3><p>UTS takes for class k the rows M_k whose softmax S_k is "
        "at least θ_k, whether or not they are predicted k.</p>"
        '<label>Class <select id="class"></select></label>'
        '<figure id="chart-division" class="wide"></figure>'
    )
    return Section("classes-section", "Classes", inside)


def _example_rows(findings: Findings, names: Sequence[str], images: Images | None) -> Section:
    """Example rows with their confidence before and after, as in the paper's Figures 2 and 3."""
    after = f"T = {findings.after.temperature:.4g}"
    kinds = {
        "Right: drawn by a fixed lot": findings.examples.right,
        "Wrong: the surest mistakes": findings.examples.wrong,
        "Rows whose confidence moved most": findings.examples.moved,
    }
    parts = [paragraph(f"Confidence at T = 1 and at {after} ({findings.fits.shown}).")]
    for title, rows in kinds.items():
        cards = "".join(_card(example, names, images, after) for example in rows.examples())
        if cards:
            parts.append(f'<h3>{escape(title)}</h3><ul class="gallery">{cards}</ul>')
    return Section("rows", "Some rows", "".join(parts))


def _card(example: Example, names: Sequence[str], images: Images | None, after: str) -> str:
    image = Image("", f"row {example.row}") if images is None else images.of(example.row)
    picture = ""
    if image.uri:
        picture = f'<img src="{escape(image.uri)}" alt="{escape(image.name)}">'
    lines = [("predicted", names[example.prediction])]
    if example.label >= 0:
        lines.insert(0, ("label", names[example.label]))
    lines += [("T = 1", percent(example.before)), (after, percent(example.after))]
    terms = "".join(
        f"<div><dt>{term}</dt><dd>{escape(no_breaks(value))}</dd></div>" for term, value in lines
    )
    return f'<li>{picture}<p class="name">{escape(image.name)}</p><dl>{terms}</dl></li>'


def _groups(temperatures: dict[str, Temperature]) -> Section | None:
    """The temperatures of groups, if there are any."""
    tables = []
    for name, t in temperatures.items():
        if t.groups:
            body = [
                [g, f"{own.value:.4f}", percent(own.implied_accuracy), f"{own.samples:,}",
                 own.status]
                for g, own in t.groups.items()
            ]  # fmt: skip
            head = ["group", "T", "implied accuracy", "rows", "status"]
            tables.append(table(f"Groups of {name}", head, body))
    return Section("groups", "Groups", "".join(tables)) if tables else None
