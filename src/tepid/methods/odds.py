"""Logits alone, the authors' later weighting: soft odds in the place of a hard threshold."""

import dataclasses
import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tepid import arrays, summary
from tepid.arrays import Float64
from tepid.curve import Curve
from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.lattice import Lattice
from tepid.methods import verdict
from tepid.methods.entropies import probabilities
from tepid.methods.errors import loss_error
from tepid.methods.groups import Fit, together
from tepid.methods.logits import check_repeatable
from tepid.methods.passes import Asking, Pass, check_total, each_answered
from tepid.methods.search import Question, mean_confidence, search
from tepid.optimum import least_loss, loss_step
from tepid.sources import Batch, open_source
from tepid.temperature import Temperature

# The exponents 1/w that are tried, from 1/32 to 32, and how often they are drawn closer.
_NODES, _WIDEST, _ROUNDS = 17, 5 * math.log(2), 4
# The part of the rows predicted k that counts as rows of class k.
_TRUSTED = 0.99


@dataclass(frozen=True)
class _Odds:
    """Per class the weight of the rows predicted so and, by exponent, the odds of the others."""

    PARAMETERS: ClassVar = ("classes",)

    classes: int
    weight: float
    predicted: Float64
    total: Float64  # (nodes, k)

    def __add__(self, other: "_Odds") -> "_Odds":
        return summary.added(self, other)


def from_odds(
    logits: Any,
    *,
    prior: Any = None,
    sample_weight: Any = None,
    class_axis: int | None = None,
    groups: Any = None,
    columns: Any = None,
    probabilities: bool = False,
    engine: Engine | None = None,
) -> Temperature:
    r"""The temperature of unlabelled logits by the weighting of Mozafari et al. (2020).

    A row that is not predicted k counts for it with $\omega_{ik} = (S_{ik}/(1-S_{ik}))^{1/w}$ in
    the place of UTS's 0 or 1, where w makes $\frac1n \sum_i \omega_{ik}$ closest, in squares over
    classes, to $\max(0, 1 - .99\, n_k / (n q_k))$, $n_k$ being how many rows are predicted k and
    $q_k$ the class prior; then
    $T = \arg\min -\sum_k [\sum_{\hat y_i = k} \log S_{ik}(T) + \frac1{K-1} \sum_{\hat y_i \ne k}
    \omega_{ik} \log S_{ik}(T)]$.

    The authors' code reads $q$ from labels; here `prior` is an argument, uniform by default, and
    no label is needed. On 2000 rows it was measured to be less biased than UTS, and several times
    noisier; but what it lacks of each class is mostly chance, so that T falls as rows are added.
    No interval, for the reasons that UTS has none.

    >>> import numpy as np
    >>> logits = 4 * np.random.default_rng(0).normal(size=(5000, 10))
    >>> from_odds(logits).method
    'odds'
    """
    source = open_source(
        logits,
        sample_weight=sample_weight,
        class_axis=class_axis,
        groups=groups,
        columns=columns,
        probabilities=probabilities,
    ).select()
    check_repeatable(source)
    engine = choose_engine(engine, source)
    fits = each_answered(lambda _: _fit(prior), source, engine)
    return together(fits, source, engine)


def _fit(prior: Any) -> Asking[Fit]:
    exponent, low, high = yield from _exponent(prior)
    summing = partial(_curve, exponent=exponent)
    answer = yield from search(Question(read=least_loss, step=loss_step, summing=summing))
    confidence = yield from mean_confidence(answer.temperature)
    said = verdict.about_bounds(answer) + verdict.about_rows(answer.curve)
    if not low < exponent < high:
        said += (f"No exponent fits the prior; 1/w is {exponent:.3g}, the edge of what was tried.",)
    t = Temperature(
        answer.temperature,
        "odds",
        samples=round(answer.curve.rows),
        classes=answer.curve.classes,
        implied_accuracy=confidence,
        status=answer.status,
        precision=answer.precision,
        warnings=said,
    )
    return Fit(t, loss_error(answer.point))


def _exponent(prior: Any) -> Asking[tuple[float, float, float]]:
    """The exponent 1/w, and the range in which it was looked for."""
    centre, reach = 0.0, _WIDEST
    for _ in range(_ROUNDS):
        logs = np.clip(centre + np.linspace(-reach, reach, _NODES), -_WIDEST, _WIDEST)
        odds: _Odds = yield Pass(partial(_odds, exponents=np.exp(logs)), "weighing odds")
        check_total(odds.weight)
        wanted = _wanted(odds, prior)
        misfit = ((odds.total / odds.weight - wanted) ** 2).sum(axis=1)
        centre = float(logs[int(misfit.argmin())])
        reach *= 2 / (_NODES - 1)
    return math.exp(centre), math.exp(-_WIDEST), math.exp(_WIDEST)


def _wanted(odds: _Odds, prior: Any) -> Float64:
    """How much of the rows each class still lacks."""
    k = odds.classes
    q = np.full(k, 1 / k) if prior is None else np.asarray(arrays.as_array(prior, "prior"), float)
    if q.shape != (k,) or not (q > 0).all() or abs(q.sum() - 1) > 1e-3:
        raise InputError(f"prior must be {k} frequencies above zero that sum to one, got {prior}")
    return np.maximum(0.0, 1 - _TRUSTED * odds.predicted / (odds.weight * q))


def _log_odds(batch: Batch) -> tuple[Float64, Float64]:
    """Log S/(1 - S), and -inf where a class is predicted, with the weight of each row."""
    s = probabilities(batch.logits, 1.0)
    with np.errstate(divide="ignore"):
        logs = np.log(s) - np.log1p(-s)
    logs[np.arange(len(s)), s.argmax(axis=1)] = -np.inf
    return logs, arrays.weight_column(batch.weight, len(s))


def _odds(batch: Batch, exponents: Float64) -> _Odds:
    logs, u = _log_odds(batch)
    k = logs.shape[1]
    predicted = np.bincount(probabilities(batch.logits, 1.0).argmax(axis=1), u, k)
    total = np.stack([u @ np.exp(e * logs) for e in exponents])
    return _Odds(k, float(u.sum()), predicted.astype(np.float64), total)


def _curve(batch: Batch, lattice: Lattice, exponent: float) -> Curve:
    """The curve of the weighted pairs: that of the predictions, pulled by the rows' odds."""
    logs, u = _log_odds(batch)
    k = logs.shape[1]
    odds = np.exp(exponent * logs) / (k - 1)
    z = np.asarray(arrays.block(arrays.as_array(batch.logits)), np.float64)
    distance = z - z.max(axis=1, keepdims=True, initial=-np.inf)
    pull = float((u * (odds * np.where(odds > 0, distance, 0.0)).sum(axis=1)).sum())
    weight = u * (1 + odds.sum(axis=1))
    curve = Curve.of(
        batch.logits, lattice=lattice, labels=z.argmax(axis=1), sample_weight=weight, bins=0
    )
    return dataclasses.replace(
        curve,
        pull=curve.pull + pull,
        loss=curve.loss - lattice.nodes * pull,
        slope=curve.slope - pull,
    )
