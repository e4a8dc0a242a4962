"""What a report says in words."""

from tepid.methods import judged
from tepid.report.reading import Findings
from tepid.report.stops import Stop
from tepid.temperature import Temperature

_EVIDENCE = {
    "temperature": "the labels of every row",
    "accuracy": "the model's accuracy",
    "few-labels": "labels of a few rows",
    "models": "other models on the same rows",
    "source-any": "an older labelled set, whatever shifted since",
    "source-label": "an older labelled set, if only the class frequencies shifted",
    "source-none": "an older labelled set, if nothing shifted since",
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

IN_SAMPLE = (
    "What was found from labels is measured here on the rows that it was found from, which "
    "flatters it a little."
)


def verdict_of(temperature: Temperature) -> tuple[str, str]:
    """Use, check or do not use, and why; a method from elsewhere is to be checked."""
    if temperature.method not in _EVIDENCE and temperature.status == "ok":
        return "check", "its method is not one of tepid's"
    return judged(temperature)


def evidence(temperature: Temperature) -> str:
    """What the temperature was found from."""
    return _EVIDENCE.get(temperature.method, f"the method {temperature.method}")


def headline(temperature: Temperature) -> tuple[str, str]:
    """What to do, and why, as two sentences."""
    verdict, reason = verdict_of(temperature)
    t = f"T = {temperature.value:.4g}"
    say = {"use": f"Use {t}.", "check": f"Check {t} before you use it.", "do not use": ""}
    kept = "Keep T = 1." if temperature.status == "abstained" else f"Do not use {t}."
    return say[verdict] or kept, sentence(reason)


def sentence(text: str) -> str:
    """The text with a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def found_from(t: Temperature) -> str:
    """From what evidence T was found, and what accuracy it implies."""
    size = f"({t.samples:,} rows, {t.classes:,} classes)"
    accuracy = percent(t.implied_accuracy)
    if t.status == "abstained":
        return (
            f"No temperature was found from {evidence(t)} {size}. T = 1 implies an accuracy of "
            f"{accuracy}, the mean confidence of those rows; if the model is right more or less "
            "often than that, it needs another temperature."
        )
    interval = ""
    if t.interval is not None:
        kind = "range" if t.method == "accuracy" else "95 % interval"
        interval = f", {kind} {t.interval[0]:.4g} to {t.interval[1]:.4g},"
    return (
        f"T = {t.value:.4g}{interval} was found from {evidence(t)} {size}. It implies an accuracy "
        f"of {accuracy}, the mean confidence of those rows at this temperature; if the model is "
        "right more or less often than that, T is wrong."
    )


def measured(findings: Findings, before: Stop, after: Stop) -> str:
    """What the labels say of it, or how the confidence moves where there are none."""
    here = f"the {rows(findings)} of this report"
    if findings.accuracy is None:
        return (
            f"The mean confidence of {here} is {percent(before.confidence)} at T = 1 and "
            f"{percent(after.confidence)} at this T."
        )
    return (
        f"The labels of {here} say {percent(findings.accuracy)}. The mean "
        f"confidence goes from {percent(before.confidence)} at T = 1 to "
        f"{percent(after.confidence)}, the calibration error (ECE) from {percent(before.ece)} to "
        f"{percent(after.ece)}, and the NLL from {before.nll:.4f} to {after.nll:.4f}."
    )


def rows(findings: Findings) -> str:
    """How many rows there are."""
    return f"{findings.curve.rows:,.0f} rows"


def onward(findings: Findings) -> str:
    """What to do next, as a sentence."""
    if findings.fits.would_help:
        return f"What would help most: {findings.fits.would_help}."
    main = findings.fits.temperatures[findings.fits.main]
    if findings.accuracy is not None and main.method not in ("temperature", "accuracy"):
        return (
            "Next: these rows have labels, which settle T; tepid fit --labels finds it from them."
        )
    return f"Next: {_NEXT[verdict_of(main)[0]]}"


def percent(value: float) -> str:
    """A share as a percentage with two digits."""
    return f"{100 * value:.2f} %"
