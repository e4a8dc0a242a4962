"""One class against the rest: histogram binning, isotonic regression and BBQ."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from tepid import store, validation
from tepid.errors import InputError
from tepid.scaling.calibrator import calibrate, check_counts, import_optional
from tepid.scaling.rows import Rows, data_warnings, labeled, softmax
from tepid.validation import Float64, Int64

# Naeini et al. (2015): the range of the number of bins, and the weight of the prior.
_REACH, _PRIOR = 10, 2.0
# As in the authors' program: at least five rows per bin, and the least prior mean.
_FEWEST, _LEAST = 5, 0.005
# A binning of relative weight below exp(-50) does not change the average in float64.
_LOST = -50.0

Shape = Literal["steps", "lines"]
# The knots of one class's map and the values at them.
Map = tuple[Float64, Float64]


@dataclass(frozen=True, eq=False)
class ClassMaps:
    """A map of each class's probability, after which rows are renormalized; call it on logits.

    Class k has the knots `knots[starts[k]:starts[k + 1]]`, in order, and as many values. Of
    `steps` a value belongs to the bin that ends at its knot, inclusive; the last bin has no end.
    Of `lines` the map is straight between knots and constant beyond them. A masked class keeps 0,
    and a row that is left with nothing keeps its softmax.
    """

    method: str
    samples: int
    classes: int
    shape: Shape
    starts: Int64
    knots: Float64
    values: Float64
    warnings: tuple[str, ...] = ()

    __call__ = calibrate
    save = store.save

    @property
    def keeps_argmax(self) -> bool:
        """Always False: each class has a map of its own."""
        return False

    def apply(self, z: Float64) -> Float64:
        """Probabilities of checked logits (n, k)."""
        p = softmax(z)
        mapped = self.columns(z, p)
        total = mapped.sum(axis=1, keepdims=True)
        # A row of the fit cannot be left with nothing: its own label counts in its bin.
        return np.where(total > 0, mapped / np.where(total > 0, total, 1.0), p)

    def columns(self, z: Float64, p: Float64) -> Float64:
        """Each class's calibrated probability, before rows are renormalized."""
        out = np.empty_like(p)
        for k, (low, high) in enumerate(pairwise(self.starts)):
            knots, values = self.knots[low:high], self.values[low:high]
            if self.shape == "lines":
                out[:, k] = np.interp(p[:, k], knots, values)
            else:
                out[:, k] = values[np.searchsorted(knots[:-1], p[:, k])]
        out[np.isneginf(z)] = 0
        return out

    def check(self) -> None:
        """Raise unless it can be applied."""
        check_counts(self.samples, self.classes)
        store.check_numbers("starts", self.starts, (self.classes + 1,), 0)
        if self.starts[0] != 0 or (np.diff(self.starts) < 1).any():
            raise InputError("starts must rise from 0, got others")
        for name, values in (("knots", self.knots), ("values", self.values)):
            store.check_numbers(name, values, (int(self.starts[-1]),), 0.0, 1.0)
        first = np.isin(np.arange(1, len(self.knots)), self.starts)  # of the next class
        if (np.diff(self.knots)[~first] <= 0).any():
            raise InputError("knots must rise within each class, got others")


class Column(NamedTuple):
    """A class's probability p in the rows where it is not masked, its hits, and their weights."""

    p: Float64
    hit: Float64
    u: Float64


def _columns_of(rows: Rows) -> Iterator[Column]:
    p, open_ = softmax(rows.z), ~np.isneginf(rows.z)
    for k in range(p.shape[1]):
        own = open_[:, k]
        yield Column(p[own, k], (rows.y[own] == k).astype(np.float64), rows.u[own])


def _fit(method: str, shape: Shape, rows: Rows, fit: Callable[[Column], Map]) -> ClassMaps:
    """Fit each class against the rest by `fit`."""
    maps = [fit(column) for column in _columns_of(rows)]
    return ClassMaps(
        method,
        samples=len(rows.y),
        classes=len(maps),
        shape=shape,
        starts=np.cumsum([0, *(len(knots) for knots, _ in maps)]),
        knots=np.concatenate([knots for knots, _ in maps]),
        values=np.concatenate([values for _, values in maps]),
        warnings=data_warnings(rows),
    )


# --- isotonic regression


def isotonic(
    logits: Any,
    labels: Any = None,
    *,
    sample_weight: Any = None,
    class_axis: int | None = None,
    columns: Any = None,
    probabilities: bool = False,
) -> ClassMaps:
    """Isotonic regression, Zadrozny and Elkan (2002), one class against the rest.

    The increasing map of each class's probability with the least squared error, by scikit-learn's
    `IsotonicRegression(out_of_bounds="clip")`. Where a class never occurs above or always occurs
    below some probability its map is exactly 0 or 1 there, so an NLL on other rows may be infinite.

    >>> isotonic([[2.0, 0.0], [2.0, 0.0], [1.0, 0.0]], [0, 1, 1])([[2.0, 0.0], [1.0, 0.0]])
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    rows = labeled(logits, labels, sample_weight, class_axis, columns, probabilities=probabilities)
    return _fit("isotonic", "lines", rows, _increasing)


def _increasing(column: Column) -> Map:
    if not len(column.p):  # masked in every row
        return np.array([0.0, 1.0]), np.array([0.0, 1.0])
    regression = import_optional("sklearn.isotonic", "IsotonicRegression")(y_min=0.0, y_max=1.0)
    regression.fit(column.p, column.hit, sample_weight=column.u)
    return regression.X_thresholds_, regression.y_thresholds_


# --- histogram binning


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
) -> ClassMaps:
    """Histogram binning, Zadrozny and Elkan (2001), one class against the rest.

    As in Guo et al. (2017): a probability becomes the share of hits among the rows of its bin. Bins
    are closed on the right and of equal width, or of equal mass, where equal probabilities are
    never parted and there may be fewer bins. A bin without rows keeps its midpoint. Where no row
    of a bin is a hit the share is 0, so an NLL on other rows may be infinite.

    >>> fitted = histogram([[2.0, 0.0]] * 4, [0, 0, 0, 1])
    >>> fitted([[2.0, 0.0]])
    array([[0.75, 0.25]])
    """
    bins = validation.check_bins(bins)
    if spacing not in ("width", "mass"):
        raise InputError(f"spacing must be 'width' or 'mass', got {spacing!r}")
    rows = labeled(logits, labels, sample_weight, class_axis, columns, probabilities=probabilities)

    def fit(column: Column) -> Map:
        if spacing == "width":
            return _hit_rates(column, np.arange(1, bins + 1) / bins)
        p, weight, _ = _tally(column)
        ends = np.unique(p[_quantiles(weight, bins)])
        return _hit_rates(column, np.append(ends[ends < p.max(initial=0.0)], 1.0))

    return _fit("histogram", "steps", rows, fit)


def _hit_rates(column: Column, ends: Float64) -> Map:
    """The rate of hits in the bins that end here, and the midpoint of a bin without rows."""
    where = np.searchsorted(ends[:-1], column.p)
    weight = np.bincount(where, column.u, len(ends))
    hits = np.bincount(where, column.u * column.hit, len(ends))
    middle = (np.append(0.0, ends[:-1]) + ends) / 2
    return ends, np.where(weight > 0, hits / np.where(weight > 0, weight, 1.0), middle)


def _tally(column: Column) -> tuple[Float64, Float64, Float64]:
    """The distinct probabilities in order, with the weight and the hits up to each."""
    p, which = np.unique(column.p, return_inverse=True)
    weight = np.bincount(which, column.u, len(p))
    hits = np.bincount(which, column.u * column.hit, len(p))
    return p, weight.cumsum(), hits.cumsum()


def _quantiles(weight: Float64, bins: int) -> Int64:
    """Where all bins of equal mass but the last end, given cumulative weights."""
    if not len(weight):
        return np.zeros(0, np.int64)
    ends = np.searchsorted(weight, np.arange(1, bins) * weight[-1] / bins)
    return np.asarray(np.minimum(ends, len(weight) - 1), np.int64)


# --- Bayesian binning into quantiles


def bbq(
    logits: Any,
    labels: Any = None,
    *,
    sample_weight: Any = None,
    class_axis: int | None = None,
    columns: Any = None,
    probabilities: bool = False,
) -> ClassMaps:
    r"""Bayesian binning into quantiles, Naeini et al. (2015), one class against the rest.

    The average over all binnings into B bins of equal mass, B from $\sqrt[3]{N}/10$ to
    $10\sqrt[3]{N}$, each weighted by its marginal likelihood under $\mathrm{Beta}(\alpha_b,
    \beta_b)$ priors, $\alpha_b = \frac{2}{B} p_b$, $\beta_b = \frac{2}{B} (1 - p_b)$, $p_b$ being
    the bin's midpoint. A bin's own value is its posterior mean. As in the authors' program there
    are at most N/5 bins and $p_b$ stays in [.005, .995]; equal probabilities are never parted.
    An average of step functions is a step function, so that is what is kept.
    Weights count as repeated rows.
    """
    rows = labeled(logits, labels, sample_weight, class_axis, columns, probabilities=probabilities)
    return _fit("bbq", "steps", rows, _average_binnings)


def _average_binnings(column: Column) -> Map:
    p, weight, hits = _tally(column)
    if not len(p):  # masked in every row
        return np.ones(1), np.array([0.5])
    between = (p[1:] + p[:-1]) / 2
    # The midpoint of neighboring floats is one of them: it must not be the upper one.
    bounds = np.concatenate([[0.0], np.where(between < p[1:], between, p[:-1]), [1.0]])
    sums = np.pad(np.stack([weight, hits]), ((0, 0), (1, 0)))
    binnings = [_binning(sums, bounds, bins) for bins in _bin_counts(weight[-1], len(p))]
    evidence = np.array([log_evidence for _, _, log_evidence in binnings])
    share = np.exp(evidence - evidence.max())
    share[evidence - evidence.max() < _LOST] = 0
    rise, used = np.zeros(len(p)), np.zeros(len(p), bool)
    for part, (first, value, _) in zip(share / share.sum(), binnings, strict=True):
        if part:
            rise[first] += part * np.diff(value, prepend=0.0)
            used[first] = True
    first = np.flatnonzero(used)
    return bounds[np.append(first[1:], len(p))], np.clip(rise[first].cumsum(), 0.0, 1.0)


def _bin_counts(total: float, values: int) -> range:
    """The numbers of bins to average over; more bins than distinct values would be empty."""
    root = total ** (1 / 3)
    least = min(max(1, math.floor(root / _REACH)), values)
    most = min(math.ceil(total / _FEWEST), math.ceil(root * _REACH), values)
    return range(least, max(least, most) + 1)


def _binning(sums: Float64, bounds: Float64, bins: int) -> tuple[Int64, Float64, float]:
    """Of one binning the first value of each bin, the posterior means, and the log evidence."""
    values = sums.shape[1] - 1
    last = np.unique(np.append(_quantiles(sums[0, 1:], bins) + 1, values))
    first = np.append(0, last[:-1])
    weight, hits = sums[:, last] - sums[:, first]
    middle = np.clip((bounds[first] + bounds[last]) / 2, _LEAST, 1 - _LEAST)
    alpha, beta = _PRIOR / len(last) * middle, _PRIOR / len(last) * (1 - middle)
    log_beta = import_optional("scipy.special", "betaln")
    evidence = log_beta(hits + alpha, np.maximum(weight - hits, 0.0) + beta) - log_beta(alpha, beta)
    return first, (hits + alpha) / (weight + alpha + beta), float(evidence.sum())
