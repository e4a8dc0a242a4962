"""Calibration by bins, one class against the rest: histogram binning and BBQ."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from tepid import validation
from tepid.errors import InputError
from tepid.scaling.calibrator import Calibrator, import_optional
from tepid.scaling.rows import (
    Column,
    Rows,
    columns_of,
    data_warnings,
    labeled_rows,
    renormalize,
    softmax,
)
from tepid.validation import Float64, Int64

# Naeini et al. (2015): the range of the number of bins, and the weight of the prior.
_REACH, _PRIOR = 10, 2.0
# As in the authors' program: at least five rows per bin, and the least prior mean.
_FEWEST, _LEAST = 5, 0.005
# A binning of relative weight below exp(-50) does not change the average in float64.
_LOST = -50.0

# The inner edges of one class's bins and the value of each bin, one more than edges.
Map = tuple[Float64, Float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Steps(Calibrator):
    """Each class's probability replaced by its bin's, then rows renormalised; call it on logits.

    Bins are closed on the right. Class k has the bins between `edges[starts[k]:starts[k + 1]]`,
    with the values `values[starts[k] + k:starts[k + 1] + k + 1]`. A masked class keeps 0, and a row
    that is left with nothing keeps its softmax.
    """

    starts: Int64
    edges: Float64
    values: Float64

    @property
    def keeps_argmax(self) -> bool:
        """Always False: two classes may share a bin's value."""
        return False

    def of_rows(self, z: Float64) -> Float64:
        """Probabilities of checked logits (n, k)."""
        p = softmax(z)
        return renormalize(self.columns(z, p), p)

    def columns(self, z: Float64, p: Float64) -> Float64:
        """Each class's calibrated probability, before rows are renormalised."""
        out = np.empty_like(p)
        for k in range(self.classes):
            low, high = self.starts[k], self.starts[k + 1]
            where = np.searchsorted(self.edges[low:high], p[:, k])
            out[:, k] = self.values[low + k : high + k + 1][where]
        out[np.isneginf(z)] = 0
        return out


def histogram(
    logits: Any,
    labels: Any = None,
    *,
    sample_weight: Any = None,
    class_axis: int | None = None,
    columns: Any = None,
    probabilities: bool = False,
    bins: int = 15,
    spacing: Literal["width", "mass"] = "width",
) -> Steps:
    """Histogram binning, Zadrozny and Elkan (2001), one class against the rest.

    As in Guo et al. (2017): a probability becomes the share of hits among the rows of its bin. Bins
    are closed on the right and of equal width, or of equal mass, where equal probabilities are
    never parted and there may be fewer bins. A bin without rows keeps its midpoint. Where no row
    of a bin is a hit the share is 0, so an NLL on other rows may be infinite.

    >>> fitted = histogram([[2.0, 0.0]] * 4, [0, 0, 0, 1])
    >>> fitted([[2.0, 0.0]])
    array([[0.75, 0.25]])
    """
    validation.check_bins(bins)
    if spacing not in ("width", "mass"):
        raise InputError(f"spacing must be 'width' or 'mass', got {spacing!r}")
    rows = labeled_rows(
        logits, labels, sample_weight, class_axis, columns=columns, probabilities=probabilities
    )
    edges = np.arange(1, bins) / bins
    fit = (
        partial(_equal_width, edges=edges)
        if spacing == "width"
        else partial(_equal_mass, bins=bins)
    )
    return _fit_steps("histogram", rows, fit)


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
    rows = labeled_rows(
        logits, labels, sample_weight, class_axis, columns=columns, probabilities=probabilities
    )
    return _fit_steps("bbq", rows, _average_binnings)


def _fit_steps(method: str, rows: Rows, fit: Callable[[Column], Map]) -> Steps:
    """Fit each class against the rest by `fit`."""
    p = softmax(rows.z)
    maps = [fit(column) for column in columns_of(rows, p)]
    return Steps(
        method,
        samples=len(rows.y),
        classes=len(maps),
        starts=np.cumsum([0, *(len(edges) for edges, _ in maps)]),
        edges=np.concatenate([edges for edges, _ in maps]),
        values=np.concatenate([values for _, values in maps]),
        warnings=data_warnings(rows),
    )


def _equal_width(column: Column, edges: Float64) -> Map:
    where = np.searchsorted(edges, column.p)
    bounds = np.concatenate([[0.0], edges, [1.0]])
    return edges, _hit_rates(where, column, (bounds[1:] + bounds[:-1]) / 2)


def _equal_mass(column: Column, bins: int) -> Map:
    tally = _tally(column)
    cuts = np.unique(_cuts_at(tally, np.arange(1, bins), bins))
    edges = tally.p[cuts[cuts < len(tally.p) - 1]]
    where = np.searchsorted(edges, column.p)
    return edges, _hit_rates(where, column, np.full(len(edges) + 1, 0.5))


def _hit_rates(where: Int64, column: Column, empty: Float64) -> Float64:
    """The rate of hits in each bin, or the given value where a bin is empty."""
    weight = np.bincount(where, column.u, len(empty))
    hits = np.bincount(where, column.u * column.hit, len(empty))
    return np.where(weight > 0, hits / np.where(weight > 0, weight, 1.0), empty)


class _Tally(NamedTuple):
    """The distinct probabilities in order, with the weight and the hits up to each."""

    p: Float64
    weight: Float64
    hits: Float64


def _tally(column: Column) -> _Tally:
    """The tally of one class's probabilities."""
    order = np.argsort(column.p, kind="stable")
    p, u = column.p[order], column.u[order]
    last = np.append(p[1:] != p[:-1], np.ones(min(len(p), 1), bool))
    hits = np.cumsum(u * column.hit[order])
    return _Tally(p[last], np.cumsum(u)[last], hits[last])


def _cuts_at(tally: _Tally, rank: Int64, bins: int | Int64) -> Int64:
    """The positions in the tally at which the bins of these ranks end, of bins of equal mass."""
    if not len(tally.p):
        return np.zeros(0, np.int64)
    return np.asarray(np.searchsorted(tally.weight, rank * tally.weight[-1] / bins), np.int64)


class _Bins(NamedTuple):
    """The bins of all binnings, one after the other: which binning, last value, sums, middle."""

    binning: Int64
    last: Int64
    weight: Float64
    hits: Float64
    middle: Float64


def _average_binnings(column: Column) -> Map:
    tally = _tally(column)
    if not len(tally.p):  # masked in every row
        return np.zeros(0), np.array([0.5])
    between = (tally.p[1:] + tally.p[:-1]) / 2
    # The midpoint of neighbouring floats is one of them: it must not be the upper one.
    between = np.where(between < tally.p[1:], between, tally.p[:-1])
    bins = _all_binnings(tally, between)
    first = np.flatnonzero(np.diff(bins.binning, prepend=-1))
    count = np.diff(np.append(first, len(bins.binning)))
    prior = np.repeat(_PRIOR / count, count)
    alpha, beta = prior * bins.middle, prior * (1 - bins.middle)
    log_share = np.add.reduceat(_log_evidence(bins, alpha, beta), first)
    share = np.exp(log_share - log_share.max())
    share[log_share - log_share.max() < _LOST] = 0
    share /= share.sum()
    value = (bins.hits + alpha) / (bins.weight + prior)
    return _sum_steps(bins, first, np.repeat(share, count), value, between)


def _all_binnings(tally: _Tally, between: Float64) -> _Bins:
    total, values = float(tally.weight[-1]), len(tally.p)
    root = total ** (1 / 3)
    # More bins than distinct values would be empty.
    least = min(max(1, math.floor(root / _REACH)), values)
    most = max(least, min(math.ceil(total / _FEWEST), math.ceil(root * _REACH), values))
    sizes = np.arange(least, most + 1)
    binning = np.repeat(np.arange(len(sizes)), sizes)
    rank = np.arange(len(binning)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    last = np.minimum(_cuts_at(tally, rank, sizes[binning]), len(tally.p) - 1)
    last[np.cumsum(sizes) - 1] = len(tally.p) - 1
    kept = np.append((np.diff(last) != 0) | (np.diff(binning) != 0), [True])
    binning, last = binning[kept], last[kept]
    opens = np.diff(binning, prepend=-1) != 0
    before = np.where(opens, -1, np.roll(last, 1))
    bounds = np.concatenate([[0.0], between, [1.0]])
    middle = np.clip((bounds[before + 1] + bounds[last + 1]) / 2, _LEAST, 1 - _LEAST)
    weight, hits = np.append(tally.weight, 0.0), np.append(tally.hits, 0.0)
    return _Bins(binning, last, weight[last] - weight[before], hits[last] - hits[before], middle)


def _log_evidence(bins: _Bins, alpha: Float64, beta: Float64) -> Float64:
    """The logarithm of each bin's factor of the marginal likelihood."""
    log_gamma = import_optional("scipy.special", "gammaln")
    misses = np.maximum(bins.weight - bins.hits, 0.0)
    gained = log_gamma(bins.hits + alpha) + log_gamma(misses + beta)
    prior = log_gamma(alpha + beta) - log_gamma(alpha) - log_gamma(beta)
    return np.asarray(gained - log_gamma(bins.weight + alpha + beta) + prior)


def _sum_steps(bins: _Bins, first: Int64, share: Float64, value: Float64, between: Float64) -> Map:
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
