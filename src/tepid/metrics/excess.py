"""Excess NLL: how much a better temperature would lower the NLL."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from tepid import validation
from tepid.errors import InputError
from tepid.methods import temperature_scaling
from tepid.metrics.from_reliability import nll
from tepid.metrics.from_rows import refuse_sums
from tepid.summaries.reliability import Reliability
from tepid.validation import Float32, Float64, Int64


def excess_nll(
    labels: ArrayLike | Reliability,
    logits: ArrayLike | None = None,
    *,
    temperature: float = 1.0,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""The NLL at a temperature above the least that any temperature gives, in nats; from logits.

    $NLL(T) - \min_{T'} NLL(T')$ over the same rows, which must be given all: 0 means that no other
    temperature is better, not that the model is calibrated. It is never below zero, so it is
    biased upwards, by about $1 / 2n$ for a model at its best temperature. A label whose
    logit is -inf is refused.

    >>> excess_nll([0, 0, 0, 1], [[2.0, 0.0]] * 4)
    0.0646
    """
    refuse_sums("excess_nll", labels, "logits")
    if logits is None:
        raise InputError("logits must be given, got none")
    z = validation.as_array(logits)
    now = Reliability.of_logits(z, labels, temperature=temperature, sample_weight=sample_weight)
    if not now.weight:
        return float("nan")
    best = temperature_scaling(z, labels, sample_weight=sample_weight)
    least = Reliability.of_logits(z, labels, temperature=best.value, sample_weight=sample_weight)
    return max(nll(now) - nll(least), 0.0)  # the temperature is exact to 5e-6, not beyond


# Where the rows' losses are tabulated around the best temperature, in log T.
_REACH, _NODES = 0.8, 17


def excess_of_counts(
    labels: ArrayLike, logits: ArrayLike, temperature: float = 1.0
) -> Callable[[Float64], float]:
    """`excess_nll` as a function of how often each row counts, for many draws of the same rows.

    The loss of every row is tabulated around the best temperature, and the least of a weighted sum
    is that of the quartic through the five nodes nearest to it; a draw whose best temperature lies
    outside the table is measured in full.
    """
    z = validation.as_kernel_input(validation.as_array(logits))
    y = validation.label_column(labels, len(z), z.shape[1])
    best = temperature_scaling(z, y)
    if best.status != "ok":
        return lambda counts: excess_nll(y, z, temperature=temperature, sample_weight=counts)
    nodes = best.value * np.exp(np.linspace(-_REACH, _REACH, _NODES))
    table = np.stack([_losses(z, y, t) for t in (temperature, *nodes)])

    def excess(counts: Float64) -> float:
        now, *along = (table @ counts / counts.sum()).tolist()
        middle = int(np.argmin(along))
        if not 2 <= middle < _NODES - 2:
            return excess_nll(y, z, temperature=temperature, sample_weight=counts)
        return max(float(now) - _least(along[middle - 2 : middle + 3]), 0.0)

    return excess


def _losses(z: Float32, y: Int64, temperature: float) -> Float64:
    x = z.astype(np.float64) / temperature
    x -= x.max(axis=1, keepdims=True)
    chosen = x[np.arange(len(x)), y]
    return np.asarray(np.log(np.exp(x).sum(axis=1)) - chosen)


def _least(values: list[float]) -> float:
    """The least of the quartic through five equally spaced values, near the middle."""
    places = np.arange(-2.0, 3.0)
    quartic = np.polynomial.Polynomial(
        np.linalg.solve(np.vander(places, 5, increasing=True), values)
    )
    at = 0.0
    for _ in range(4):
        at -= float(quartic.deriv()(at) / quartic.deriv(2)(at))
    return float(quartic(at))
