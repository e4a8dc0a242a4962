"""The sections of a report: words and tables, and the places where its charts are drawn."""

import numpy as np

from tepid.report import markup, words
from tepid.report.markup import Section
from tepid.report.reading import Findings
from tepid.report.stops import Stop, wilson
from tepid.temperature import Temperature


def in_short(
    findings: Findings, every: list[Stop], places: dict[str, int], before: Stop
) -> Section:
    """What was found, from what, whether to trust it, and what to do next."""
    fits = findings.fits
    main = fits.temperatures[fits.main]
    verdict, _ = words.verdict_of(main)
    what, why = words.headline(main)
    loud = f"<strong>{markup.escape(what)}</strong> {markup.escape(why)}"
    parts = [
        f'<p class="verdict" data-verdict="{markup.escape(verdict)}">{loud}</p>',
        markup.paragraph(words.found_from(main)),
    ]
    if fits.main in places and main.status != "abstained":
        parts.append(markup.paragraph(words.measured(findings, before, every[places[fits.main]])))
    parts.append(markup.paragraph(words.onward(findings)))
    if main.warnings:
        notes = "".join(f"<li>{markup.escape(w)}</li>" for w in main.warnings)
        parts.append(f'<h3>Notes</h3><ul class="notes">{notes}</ul>')
    parts.append(_methods(findings, every, places, before))
    if fits.own and findings.curve.labelled:
        parts.append(markup.paragraph(words.IN_SAMPLE))
    return Section("short", "In short", "".join(parts))


def _methods(findings: Findings, every: list[Stop], places: dict[str, int], before: Stop) -> str:
    labelled = findings.curve.labelled
    body = [["uncalibrated", "nothing", "1.0000", *_scores(before, labelled=labelled), "", ""]]
    for name, t in findings.fits.temperatures.items():
        stop = every[places[name]] if name in places else None
        body.append(
            [
                name,
                words.evidence(t),
                f"{t.value:.4f}",
                *_scores(stop, labelled=labelled),
                t.status,
                words.verdict_of(t)[0],
            ]
        )
    scores = ["ECE", "NLL"] if labelled else []
    head = ["method", "found from", "T", "mean confidence", *scores, "status", "verdict"]
    return markup.table("Every temperature, on the rows of this report", head, body)


def _scores(stop: Stop | None, *, labelled: bool) -> list[str]:
    if stop is None:
        return ["out of reach"] + ["", ""] * labelled
    scores = [words.percent(stop.ece), f"{stop.nll:.4f}"] if labelled else []
    return [words.percent(stop.confidence), *scores]


def slider(findings: Findings) -> Section:
    """The slider, its readings and its charts."""
    readings = {"confidence": "implied accuracy (mean confidence)", "uts": "UTS loss per pair"}
    if findings.curve.labelled:
        readings |= {"accuracy": "accuracy by the labels", "nll": "NLL", "ece": "ECE"}
    cells = "".join(
        f'<div><dt>{title}</dt><dd id="read-{name}"></dd></div>' for name, title in readings.items()
    )
    charts = ["loss", "histogram"] + ["reliability"] * findings.curve.labelled
    figures = "".join(f'<figure id="chart-{name}"></figure>' for name in charts)
    inside = (
        "<p>Every chart here follows the slider. It stops where the rows were summed: every 9 % "
        "and at each of the temperatures above.</p>"
        '<div class="control"><label for="slider">Temperature T = '
        '<output id="temperature" for="slider"></output></label>'
        '<input type="range" id="slider" min="0" step="1">'
        '<div id="jumps" class="jumps" role="group" aria-label="Go to a temperature"></div>'
        f'<dl class="readings">{cells}</dl></div><div class="charts">{figures}</div>'
    )
    return Section("slider-section", "Move the temperature", inside)


def reliability(every: list[Stop], places: dict[str, int], before: int) -> Section:
    """Confidence against correctness before and after, with the data of each diagram."""
    figures = []
    for name, i in {"uncalibrated": before, **places}.items():
        stop = every[i]
        caption = f"{name}, T = {stop.temperature:.4g}"
        figures.append(
            f'<div><h3>{markup.escape(caption)}</h3><figure class="diagram" data-stop="{i}">'
            f"</figure>{markup.details('The data', _bins(stop, f'Bins: {caption}'))}</div>"
        )
    inside = (
        "<p>Bars: how often the rows of a bin are right, with 95 % Wilson intervals. Hatched: the "
        "gap to their mean confidence. Below: how many rows. A bin without rows is blank. "
        "On the diagonal confidence is what it claims to be.</p>"
        f'<div class="charts">{"".join(figures)}</div>'
    )
    return Section("reliability", "Reliability before and after", inside)


def _bins(stop: Stop, caption: str) -> str:
    low, high = wilson(stop.correct, stop.count)
    n, edges = len(stop.count), np.arange(len(stop.count) + 1) / len(stop.count)
    body = [
        [
            f"{edges[b]:.3f}–{edges[b + 1]:.3f}",
            f"{stop.count[b]:,.10g}",
            words.percent(stop.sure[b] / stop.count[b]),
            words.percent(stop.correct[b] / stop.count[b]),
            f"{100 * low[b]:.1f}–{100 * high[b]:.1f} %",
        ]
        for b in range(n)
        if stop.count[b]
    ]
    head = ["bin of confidence", "rows", "mean confidence", "accuracy", "95 % interval"]
    return markup.table(caption, head, body)


def classes() -> Section:
    """The table of classes, filled by the page."""
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


def groups(temperatures: dict[str, Temperature]) -> Section | None:
    """The temperatures that were fitted to groups, if there are any."""
    tables = []
    for name, t in temperatures.items():
        if t.groups:
            body = [
                [g, f"{own.value:.4f}", words.percent(own.implied_accuracy), f"{own.samples:,}",
                 own.status]
                for g, own in t.groups.items()
            ]  # fmt: skip
            head = ["group", "T", "implied accuracy", "rows", "status"]
            tables.append(markup.table(f"Groups of {name}", head, body))
    return Section("groups", "Groups", "".join(tables)) if tables else None
