"""What a better temperature would save."""

from typing import Any

from tepid import arrays
from tepid.errors import InputError
from tepid.methods import from_labels
from tepid.metrics.means import nll
from tepid.reliability import Reliability


def excess_nll(
    labels: Any, logits: Any = None, *, temperature: float = 1.0, sample_weight: Any = None
) -> float:
    r"""The NLL at a temperature above the least that any temperature gives, in nats; from logits.

    $NLL(T) - \min_{T'} NLL(T')$ over the same rows, which must be given all: 0 says that no other
    temperature is better, not that the model is calibrated. Zero is the least possible, so it is
    biased upwards, by about $1 / 2n$ for a model at its best temperature. A label whose
    logit is -inf is refused.

    >>> excess_nll([0, 0, 0, 1], [[2.0, 0.0]] * 4)
    0.0646
    """
    if isinstance(labels, Reliability):
        raise InputError(
            "labels must be the label of every row, with the logits beside them, because "
            "excess_nll is no sum over bins, got a Reliability"
        )
    z = arrays.as_array(logits)
    now = Reliability.of_logits(z, labels, temperature=temperature, sample_weight=sample_weight)
    if not now.weight:
        return float("nan")
    best = from_labels(z, labels, sample_weight=sample_weight)
    least = Reliability.of_logits(z, labels, temperature=best.value, sample_weight=sample_weight)
    return max(nll(now) - nll(least), 0.0)  # the temperature is exact to 5e-6, not beyond
