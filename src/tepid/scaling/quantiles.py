"""Bayesian binning into quantiles (BBQ), one class against the rest."""

import math
from typing import Any, NamedTuple

import numpy as np

from tepid.arrays import Float64, Int64
from tepid.scaling import extras, steps
from tepid.scaling.binning import Tally, cuts_at, tallied
from tepid.scaling.rows import labelled
from tepid.scaling.steps import Column, Map, Steps

# Naeini et al. (2015): the range of the number of bins, and the weight of the prior.
_REACH, _PRIOR = 10, 2.0
# As in their own program: no more bins than leave five rows in each, and a prior mean inside this.
_FEWEST, _LEAST = 5, 0.005
# A binning whose share is below exp(-50) changes no bit of the average.
_LOST = -50.0


def bbq(
    logits: Any,
    labels: Any = None,
    *,
    sample_weight: Any = None,
    class_axis: int | None = None,
    columns: Any = None,
    probabilities: bool = False,
) -> Steps:
    r"""Bayesian binning into quantiles, Naeini et al. (2015), one class against the rest.

    The average over all binnings into B bins of equal mass, B from $\sqrt[3]{N}/10$ to
    $10\sqrt[3]{N}$, each weighted by its marginal likelihood under $\mathrm{Beta}(\alpha_b,
    \beta_b)$ priors, $\alpha_b = \frac{2}{B} p_b$, $\beta_b = \frac{2}{B} (1 - p_b)$, $p_b$ being
    the bin's midpoint. A bin's own value is its posterior mean. As in the authors' program there
    are at most N/5 bins and $p_b$ stays in [.005, .995]; equal probabilities are never parted.
    An average of step functions is a step function, so that is what is kept.
    Weights count as repeated rows.
    """
    rows = labelled(
        logits, labels, sample_weight, class_axis, columns=columns, probabilities=probabilities
    )
    return steps.fitted("bbq", rows, _averaged)


class _Bins(NamedTuple):
    """The bins of all binnings, one binning after the other: which, its last value, its tally."""

    binning: Int64
    last: Int64
    weight: Float64
    hits: Float64
    middle: Float64


def _averaged(column: Column) -> Map:
    tally = tallied(column)
    if not len(tally.p):  # masked in every row
        return np.zeros(0), np.array([0.5])
    between = (tally.p[1:] + tally.p[:-1]) / 2
    # The midpoint of neighbouring floats is one of them: it must not be the upper one.
    between = np.where(between < tally.p[1:], between, tally.p[:-1])
    bins = _binned(tally, between)
    first = np.flatnonzero(np.diff(bins.binning, prepend=-1))
    count = np.diff(np.append(first, len(bins.binning)))
    prior = np.repeat(_PRIOR / count, count)
    alpha, beta = prior * bins.middle, prior * (1 - bins.middle)
    log_share = np.add.reduceat(_evidence(bins, alpha, beta), first)
    share = np.exp(log_share - log_share.max())
    share[log_share - log_share.max() < _LOST] = 0
    share /= share.sum()
    value = (bins.hits + alpha) / (bins.weight + prior)
    return _summed(bins, first, np.repeat(share, count), value, between)


def _binned(tally: Tally, between: Float64) -> _Bins:
    total, values = float(tally.weight[-1]), len(tally.p)
    root = total ** (1 / 3)
    # More bins than values part nothing, however much the rows weigh.
    least = min(max(1, math.floor(root / _REACH)), values)
    most = max(least, min(math.ceil(total / _FEWEST), math.ceil(root * _REACH), values))
    sizes = np.arange(least, most + 1)
    binning = np.repeat(np.arange(len(sizes)), sizes)
    rank = np.arange(len(binning)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    last = np.minimum(cuts_at(tally, rank, sizes[binning]), len(tally.p) - 1)
    last[np.cumsum(sizes) - 1] = len(tally.p) - 1
    kept = np.append((np.diff(last) != 0) | (np.diff(binning) != 0), [True])
    binning, last = binning[kept], last[kept]
    opens = np.diff(binning, prepend=-1) != 0
    before = np.where(opens, -1, np.roll(last, 1))
    bounds = np.concatenate([[0.0], between, [1.0]])
    middle = np.clip((bounds[before + 1] + bounds[last + 1]) / 2, _LEAST, 1 - _LEAST)
    weight, hits = np.append(tally.weight, 0.0), np.append(tally.hits, 0.0)
    return _Bins(binning, last, weight[last] - weight[before], hits[last] - hits[before], middle)


def _evidence(bins: _Bins, alpha: Float64, beta: Float64) -> Float64:
    """The logarithm of each bin's factor of the marginal likelihood."""
    log_gamma = extras.gammaln()
    misses = np.maximum(bins.weight - bins.hits, 0.0)
    gained = log_gamma(bins.hits + alpha) + log_gamma(misses + beta)
    prior = log_gamma(alpha + beta) - log_gamma(alpha) - log_gamma(beta)
    return np.asarray(gained - log_gamma(bins.weight + alpha + beta) + prior)


def _summed(bins: _Bins, first: Int64, share: Float64, value: Float64, between: Float64) -> Map:
    """The weighted sum of the step functions, as one step function on all of their edges."""
    used = share > 0
    rise = share * np.diff(value, prepend=0.0)
    rise[first] = (share * value)[first]
    ends = np.flatnonzero(np.diff(bins.binning, append=-1))
    inner = used.copy()
    inner[ends] = False
    cuts = np.unique(bins.last[inner])
    jumps = np.zeros(len(cuts))
    after = np.flatnonzero(inner) + 1
    np.add.at(jumps, np.searchsorted(cuts, bins.last[inner]), rise[after])
    values = np.concatenate([[rise[first].sum()], jumps]).cumsum()
    return between[cuts], np.clip(values, 0.0, 1.0)
