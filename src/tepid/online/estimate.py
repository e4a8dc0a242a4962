"""A temperature from the sums of recent rows, without labels."""

from tepid.methods import verdict
from tepid.methods.search import Question, read_off, readings_of
from tepid.online.sums import Sums
from tepid.optimum import least_loss, loss_step
from tepid.temperature import Temperature

_QUESTION = Question(read=least_loss, step=loss_step, per_octave=1)


def estimate_of(sums: Sums) -> float | None:
    """The temperature of rows by UTS, if there is one within reach of the reference's."""
    found = estimated(sums)
    return found.value if found.status == "ok" else None


def estimated(sums: Sums) -> Temperature:
    """The temperature of rows by UTS with the thresholds of the reference."""
    curve = sums.curve
    answer = read_off(curve, readings_of(_QUESTION, curve))
    said = verdict.about_bounds(answer) + verdict.about_rows(curve)
    said += verdict.about_uts(curve, sums.tails, debiased=False)
    return Temperature(
        answer.temperature,
        "uts-online",
        samples=round(curve.rows),
        classes=curve.classes,
        implied_accuracy=answer.confidence,
        status=answer.status,
        precision=answer.precision,
        warnings=said,
    )
