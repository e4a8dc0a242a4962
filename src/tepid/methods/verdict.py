"""What a result says of itself: sentences for the person who reads it."""

import numpy as np

from tepid.curve import Curve
from tepid.methods.search import Answer
from tepid.tails import Tails

CONFIDENT = 0.95
ENOUGH_ROWS = 1000
# A factor of two in T.
WILD = 0.7

_BOUNDS = {
    "inside": "",
    "nowhere": "Every row's logits are equal, so that every temperature gives the same result.",
    "no-pairs": "No row reaches the threshold of UTS, so that nothing determines a temperature.",
    "beyond-zero": (
        "No temperature is low enough: the evidence agrees with every prediction. "
        "The value is the edge of the range."
    ),
    "beyond-infinity": (
        "No temperature is high enough: the evidence is no better than chance. "
        "The value is the edge of the range."
    ),
    "below": "The best temperature lies below the range that was summed; the value is its edge.",
    "above": "The best temperature lies above the range that was summed; the value is its edge.",
}


def about_bounds(answer: Answer) -> tuple[str, ...]:
    """Why no temperature inside the range was found."""
    sentence = _BOUNDS[answer.reading.where]
    return (sentence,) if sentence else ()


def about_rows(curve: Curve) -> tuple[str, ...]:
    """What the amount of data says."""
    if curve.rows < curve.classes:
        return (f"There are fewer rows ({curve.rows:.0f}) than classes ({curve.classes}).",)
    return ()


def about_uts(curve: Curve, tails: Tails, *, debiased: bool) -> tuple[str, ...]:
    """Where UTS was measured to fail."""
    said = []
    if curve.rows < ENOUGH_ROWS and not debiased:
        said.append(
            f"UTS is biased towards high temperatures below {ENOUGH_ROWS} rows and there are "
            f"{curve.rows:.0f}; debias=True (--debias) brings it nearer to UTS on many rows."
        )
    mean = float(tails.confidence.sum() / tails.weight)
    if mean < CONFIDENT:
        said.append(
            f"The mean confidence at T = 1 is {mean:.3f}, below {CONFIDENT}: there UTS was "
            "measured to help and to harm about equally often. The model's accuracy, if it is "
            "known, does better."
        )
    if np.count_nonzero(tails.predicted) == 1:
        only = int(tails.predicted.argmax())
        said.append(f"Every row is predicted as class {only}, so other classes say little.")
    return tuple(said)


def about_sensitivity(answer: Answer) -> tuple[str, ...]:
    """Which of the other temperatures is an edge and not a minimum."""
    names = ("half", "twice")
    edges = [n for n, r in zip(names, answer.readings[1:], strict=True) if r.where != "inside"]
    if not edges or answer.reading.where != "inside":
        return ()
    return (f"With {' and '.join(edges)} the deviations no temperature in reach is best.",)


def why_abstained(answer: Answer, confidence: float) -> str:
    """Why logits alone are not enough for a temperature."""
    if answer.status != "ok":
        return "UTS found no temperature, so that nothing is known beyond the network's own word."
    return (
        f"The mean confidence is {confidence:.3f}; outside .95 to 1 no rule was found that helps "
        "more often than it harms. Give the model's accuracy, or some labels."
    )
