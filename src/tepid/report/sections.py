"""The sections of a report: text and tables, and placeholders for the charts."""

from collections.abc import Sequence

import numpy as np

from tepid.decisions import Accepted, Temperatures, expected_accuracy
from tepid.report.charts import find_promises
from tepid.report.findings import Findings, Slider, Stop
from tepid.report.images import Image, Images
from tepid.report.page import (
    Section,
    escape,
    no_breaks,
    paragraph,
    percent,
    range_input,
    readings,
    table,
    terms,
)
from tepid.report.summaries import Example
from tepid.summaries.reliability import wilson_interval
from tepid.temperature import Temperature

_EVIDENCE = {
    "temperature": "the labels of every row",
    "accuracy": "the model's accuracy",
    "odds": "the logits alone, by the odds of each class",
    "uts": "the logits alone, by UTS",
}
_KINDS = {
    "labels": "labels",
    "accuracy": "an accuracy",
    "models": "other models",
    "reference": "a reference model",
    "source": "an older labeled set",
}
_IN_SAMPLE = (
    "Temperatures that were fitted to these labels are scored here on the same rows, so their "
    "scores are slightly too good."
)


def all_sections(
    findings: Findings, slider: Slider, names: Sequence[str], images: Images | None
) -> list[Section]:
    """The sections of the page in order."""
    sections = [
        _in_short(findings, slider),
        _slider(findings),
        _acceptance(findings),
        _reliability(slider) if findings.labeled else None,
        _classes(findings),
        _example_rows(findings, names, images),
        _groups(findings.fits.temperatures),
    ]
    return [section for section in sections if section is not None]


def facts(findings: Findings) -> str:
    """The size of the data in one line."""
    labeled = "with labels" if findings.labeled else "without labels"
    return f"{_count_rows(findings)}, {findings.classes:,} classes, {labeled}"


def _in_short(findings: Findings, slider: Slider) -> Section:
    """The result, its evidence, whether to trust it, and what to do next."""
    fits = findings.fits
    main = fits.temperatures[fits.main]
    verdict = _verdict(main)
    what, why = _headline(main)
    headline = f"<strong>{escape(what)}</strong> {escape(why)}"
    parts = [
        f'<p class="verdict" data-verdict="{escape(verdict)}">{headline}</p>',
        paragraph(_origin(main)),
    ]
    stop = slider.stop_of(fits.main)
    if stop is not None and main.value != 1:
        parts.append(paragraph(_effect(findings, slider.stops[slider.uncalibrated], stop)))
    parts.append(paragraph(_next_step(findings)))
    if main.warnings:
        notes = "".join(f"<li>{escape(w)}</li>" for w in main.warnings)
        parts.append(f'<h3>Notes</h3><ul class="notes">{notes}</ul>')
    parts.append(_methods(findings, slider))
    if fits.own and findings.labeled:
        parts.append(paragraph(_IN_SAMPLE))
    return Section("short", "In short", "".join(parts))


def _verdict(temperature: Temperature) -> str:
    """The verdict; an exact method has none, and labels of every row settle T."""
    if temperature.verdict is not None:
        return temperature.verdict
    settled = temperature.method == "temperature" and temperature.status == "ok"
    return "use" if settled else "check"


def _headline(temperature: Temperature) -> tuple[str, str]:
    t = f"T = {temperature.value:.4g}"
    what = {"use": f"Use {t}.", "check": f"Check {t} before you use it.", "keep": "Keep T = 1."}
    why = temperature.reason
    if temperature.verdict is None:
        why = {
            "temperature": "It minimizes the log loss of the labels.",
            "accuracy": "It is as good as the accuracy that was given.",
        }.get(temperature.method, "The method has no verdict; tepid.calibrate gives one.")
    return what[_verdict(temperature)], why


def _evidence(temperature: Temperature) -> str:
    if temperature.method == "calibrate":
        given = [_KINDS.get(kind, kind) for kind in temperature.evidence if kind != "logits"]
        return " and ".join(["the logits", *given]) if given else "the logits alone"
    return _EVIDENCE.get(temperature.method, f"the method {temperature.method}")


def _origin(t: Temperature) -> str:
    """The evidence from which T was found, and the accuracy that it implies."""
    size = f"({t.samples:,} rows, {t.classes:,} classes)"
    accuracy = percent(t.implied_accuracy)
    interval = ""
    if t.interval is not None:
        interval = f", 95 % interval {t.interval[0]:.4g} to {t.interval[1]:.4g},"
    return (
        f"T = {t.value:.4g}{interval} comes from {_evidence(t)} {size}. It implies an accuracy "
        f"of {accuracy}, the mean confidence of those rows at this temperature. If the model's "
        "true accuracy differs, ECE is at least that difference."
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
        f"The accuracy by the labels of {rows} is {percent(findings.accuracy)}. The mean "
        f"confidence goes from {percent(before.confidence)} at T = 1 to "
        f"{percent(after.confidence)}, the calibration error (ECE) from {percent(before.ece)} to "
        f"{percent(after.ece)}, and the NLL from {before.nll:.4f} to {after.nll:.4f}."
    )


def _count_rows(findings: Findings) -> str:
    return f"{findings.curve.rows:,.0f} rows"


def _next_step(findings: Findings) -> str:
    main = findings.fits.temperatures[findings.fits.main]
    if findings.labeled and main.method != "temperature" and "labels" not in main.evidence:
        return "Next: these rows have labels; tepid fit --labels finds T from them."
    if main.next_step:
        return f"Next: {main.next_step}"
    if _verdict(main) == "use":
        return "Next: divide logits by this T from now on, as the command tepid apply does."
    return "Next: compare the implied accuracy with what is known of the model."


def _methods(findings: Findings, slider: Slider) -> str:
    labeled = findings.labeled
    uncalibrated = _scores(slider.stops[slider.uncalibrated], labeled=labeled)
    body = [["uncalibrated", "nothing", "1.0000", *uncalibrated, "", ""]]
    for name, t in findings.fits.temperatures.items():
        scores = _scores(slider.stop_of(name), labeled=labeled)
        row = [name, _evidence(t), f"{t.value:.4f}", *scores, t.status, t.verdict or ""]
        body.append(row)
    columns = ["ECE", "NLL"] if labeled else []
    head = ["method", "found from", "T", "mean confidence", *columns, "status", "verdict"]
    return table("Every temperature, on the rows of this report", head, body)


def _scores(stop: Stop | None, *, labeled: bool) -> list[str]:
    if stop is None:
        return ["out of reach"] + ["", ""] * labeled
    scores = [percent(stop.ece), f"{stop.nll:.4f}"] if labeled else []
    return [percent(stop.confidence), *scores]


def _slider(findings: Findings) -> Section:
    titles = {"confidence": "implied accuracy (mean confidence)", "uts": "UTS loss per pair"}
    if findings.labeled:
        titles |= {"accuracy": "accuracy by the labels", "nll": "NLL", "ece": "ECE"}
    charts = ["loss", "histogram"] + ["reliability"] * findings.labeled
    figures = "".join(f'<figure id="chart-{name}"></figure>' for name in charts)
    inside = (
        "<p>Every chart here follows the slider. It stops where the rows were summed: every 9 % "
        "and at each of the temperatures above.</p>"
        f'<div class="control">{range_input("slider", "Temperature T =", "temperature")}'
        '<div id="jumps" class="jumps" role="group" aria-label="Go to a temperature"></div>'
        f'{readings(titles)}</div><div class="charts">{figures}</div>'
    )
    return Section("slider-section", "Move the temperature", inside)


def _acceptance(findings: Findings) -> Section:
    """The sliders of T and of the threshold, what they accept, and the thresholds to deploy."""
    titles = {"share": "accepted share", "expected": "expected precision"}
    if findings.fits.about.from_logits_alone:
        del titles["expected"]
    if findings.labeled:
        titles["realized"] = "precision by the labels"
    inside = (
        f"{paragraph(_introduction(findings))}"
        '<div class="control still"><div class="pair">'
        f"<div>{range_input('slider-beside', 'Temperature T =', 'temperature-beside')}</div>"
        f"<div>{range_input('threshold', 'Confidence threshold', 'threshold-value')}</div></div>"
        '<div id="promises" class="jumps" role="group" aria-label="Go to a threshold"></div>'
        f"{readings(titles)}</div>"
        '<div class="charts beside"><figure id="chart-accepted"></figure>'
        f"<div>{_promise_table(findings)}</div></div>"
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


def _promise_table(findings: Findings) -> str:
    """The thresholds of the main temperature, as `Temperature.threshold` returns them."""
    body = [[text, *_cells(accepted)] for text, accepted in find_promises(findings).items()]
    if not body:
        return ""
    about = findings.fits.about
    head = ["precision", "threshold", "accepted", "expected precision"]
    head += ["95 % interval"] * (about.interval is not None)
    caption = no_breaks(f"Thresholds for a wanted precision at T = {about.value:.4g}")
    notes = [f"Assumption: {Temperatures(*about.ends, groups={}).assumption}"]
    if about.interval is not None:
        cautious = "A cautious threshold keeps the precision also at the upper end of T's interval"
        notes.insert(0, f"{cautious}, T = {about.interval[1]:.4g}.")
    return table(caption, head, [row[: len(head)] for row in body]) + "".join(map(paragraph, notes))


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


def _reliability(slider: Slider) -> Section:
    figures = []
    for name, position in {"uncalibrated": slider.uncalibrated, **slider.positions}.items():
        stop = slider.stops[position]
        caption = f"{name}, T = {stop.temperature:.4g}"
        figures.append(
            f'<div><h3>{escape(caption)}</h3><figure class="diagram" data-stop="{position}">'
            "</figure><details><summary>The data</summary>"
            f"{_bins(stop, f'Bins: {caption}')}</details></div>"
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


def _classes(findings: Findings) -> Section:
    """The class table, which the scripts fill."""
    inside = (
        f"{paragraph(_describe_expectation(findings))}"
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


def _describe_expectation(findings: Findings) -> str:
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


def _example_rows(findings: Findings, names: Sequence[str], images: Images | None) -> Section:
    """Example rows with their confidence before and after, as in the paper's Figures 2 and 3."""
    after = f"T = {findings.after.temperature:.4g}"
    titles = {
        "right": "Right: drawn by a fixed lot",
        "wrong": "Wrong: the surest mistakes",
        "moved": "Rows whose confidence moved most",
    }
    parts = [paragraph(f"Confidence at T = 1 and at {after} ({findings.fits.shown}).")]
    for kind, rows in findings.examples.items():
        cards = "".join(_card(example, names, images, after) for example in rows.examples())
        if cards:
            parts.append(f'<h3>{titles[kind]}</h3><ul class="gallery">{cards}</ul>')
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
    return f'<li>{picture}<p class="name">{escape(image.name)}</p><dl>{terms(lines)}</dl></li>'


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
