"""The authors' later weighting for logits alone: soft odds in place of UTS's hard threshold."""

import dataclasses
import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tepid import validation
from tepid.engines import Engine, choose_engine
from tepid.errors import InputError
from tepid.methods.exact import check_repeatable
from tepid.methods.passes import Fit, Pass, Passes, check_total, fit_by_group, mean_confidence
from tepid.methods.search import Question, loss_error, search, to_temperature
from tepid.sources import Batch, open_source
from tepid.summaries.curve import Curve, Lattice
from tepid.summaries.summary import add, equal, scale, softmax
from tepid.temperature import Temperature
from tepid.validation import Float64

# The exponents 1/w that are tried, from 1/32 to 32, and the number of refinements of this grid.
_NODES, _WIDEST, _ROUNDS = 17, 5 * math.log(2), 4
# The share of the rows predicted k that counts as rows of class k.
_TRUSTED = 0.99


@dataclass(frozen=True, eq=False)
class _Odds:
    """Per class: the weight of the rows predicted so, and by exponent the odds of the others."""

    PARAMETERS: ClassVar[tuple[str, ...]] = ("classes",)

    classes: int
    weight: float
    predicted: Float64
    total: Float64  # (nodes, k)

    __add__ = add
    __mul__ = __rmul__ = scale
    __eq__ = equal


def from_odds(logits: Any, *, prior: Any = None, engine: Engine | None = None) -> Temperature:
    r"""The temperature of unlabeled logits by the weighting of Mozafari et al. (2020).

    A row that is not predicted k has the weight $\omega_{ik} = (S_{ik}/(1-S_{ik}))^{1/w}$ for class
    k, where UTS has 0 or 1. The least-squares fit over classes of $\frac1n \sum_i \omega_{ik}$ to
    $\max(0, 1 - .99\, n_k / (n q_k))$ determines w, where $n_k$ is the number of rows predicted k
    and $q_k$ the class prior; then
    $T = \arg\min -\sum_k [\sum_{\hat y_i = k} \log S_{ik}(T) + \frac1{K-1} \sum_{\hat y_i \ne k}
    \omega_{ik} \log S_{ik}(T)]$.

    The authors' code takes $q$ from labels; here `prior` is an argument, uniform by default, and no
    label is needed. On 2000 rows it was measured to be less biased than UTS and several times
    noisier. T decreases as rows are added, since the lack of rows of each class is mostly chance.
    There is no interval, as for UTS. Weights, groups and columns are given to
    `tepid.sources.open_source`, whose result is one of the forms of `logits`.

    >>> import numpy as np
    >>> logits = 4 * np.random.default_rng(0).normal(size=(5000, 10))
    >>> from_odds(logits).method
    'odds'
    """
    source = open_source(logits).select()
    check_repeatable(source)
    return fit_by_group(lambda _: _fit(prior), source, choose_engine(engine, source))


def _fit(prior: Any) -> Passes[Fit]:
    log_exponent = yield from _log_exponent(prior)
    of = partial(_curve, exponent=math.exp(log_exponent))
    answer = yield from search(Question(curve_of=of))
    confidence = yield from mean_confidence(answer.temperature)
    notes: tuple[str, ...] = ()
    if abs(log_exponent) >= _WIDEST:
        edge = f"1/w is {math.exp(log_exponent):.3g}, the edge of what was tried"
        notes = (f"No exponent fits the prior; {edge}.",)
    t = to_temperature(answer, "odds", notes=notes)
    return Fit(dataclasses.replace(t, implied_accuracy=confidence), loss_error(answer.point))


def _log_exponent(prior: Any) -> Passes[float]:
    """The logarithm of 1/w."""
    center, reach = 0.0, _WIDEST
    for _ in range(_ROUNDS):
        logs = np.clip(center + np.linspace(-reach, reach, _NODES), -_WIDEST, _WIDEST)
        odds: _Odds = yield Pass(partial(_odds, exponents=np.exp(logs)), "weighing odds")
        check_total(odds.weight)
        misfit = ((odds.total / odds.weight - _wanted(odds, prior)) ** 2).sum(axis=1)
        center = float(logs[int(misfit.argmin())])
        reach *= 2 / (_NODES - 1)
    return center


def _wanted(odds: _Odds, prior: Any) -> Float64:
    """The share of rows that each class lacks, by its prior."""
    k = odds.classes
    given = np.full(k, 1 / k) if prior is None else validation.as_array(prior, "prior")
    q = np.asarray(given, float)
    if q.shape != (k,) or not (q > 0).all() or abs(q.sum() - 1) > 1e-3:
        got = f"{q.size} with the sum {q.sum():g} and the least {q.min(initial=np.inf):g}"
        raise InputError(f"prior must be {k} frequencies above zero that sum to one, got {got}")
    return np.maximum(0.0, 1 - _TRUSTED * odds.predicted / (odds.weight * q))


def _log_odds(s: Float64) -> Float64:
    """Log S/(1 - S), and -inf where a class is predicted."""
    with np.errstate(divide="ignore"):
        logs: Float64 = np.log(s) - np.log1p(-s)
    logs[np.arange(len(s)), s.argmax(axis=1)] = -np.inf
    return logs


def _odds(batch: Batch, exponents: Float64) -> _Odds:
    s = softmax(batch.logits)
    u, k = validation.weight_column(batch.weight, len(s)), s.shape[1]
    logs = _log_odds(s)
    total = np.stack([u @ np.exp(e * logs) for e in exponents])
    predicted = np.bincount(s.argmax(axis=1), u, k).astype(np.float64)
    return _Odds(k, float(u.sum()), predicted, total)


def _curve(batch: Batch, lattice: Lattice, exponent: float) -> Curve:
    """The curve of the weighted pairs.

    A row's pairs are its prediction, at distance zero, and every other class with its odds. So its
    loss is that of its prediction with weight 1 + sum of odds, less beta times its `pull`.
    """
    s = softmax(batch.logits)
    u = validation.weight_column(batch.weight, len(s))
    odds = np.exp(exponent * _log_odds(s)) / (s.shape[1] - 1)
    z = np.asarray(validation.as_kernel_input(validation.as_array(batch.logits)), np.float64)
    distance = z - z.max(axis=1, keepdims=True, initial=-np.inf)
    distance[np.isneginf(distance)] = 0.0  # a masked class has neither odds nor probability
    pull = u * (odds * distance).sum(axis=1)
    weight = u * (1 + odds.sum(axis=1))
    curve = Curve.of(
        batch.logits, lattice=lattice, labels=z.argmax(axis=1), sample_weight=weight, bins=0
    )
    parts = [
        weight * (softmax(batch.logits, 1 / beta) * distance).sum(axis=1) - pull
        for beta in lattice.nodes
    ]
    total = float(pull.sum())
    return dataclasses.replace(
        curve,
        pull=curve.pull + total,
        loss=curve.loss - lattice.nodes * total,
        slope=curve.slope - total,
        square=np.array([[part @ part for part in parts]]),
    )
