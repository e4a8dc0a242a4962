"""Histogram binning, one class against the rest."""

from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from tepid import arrays
from tepid.arrays import Float64, Int64
from tepid.errors import InputError
from tepid.scaling import steps
from tepid.scaling.rows import labelled
from tepid.scaling.steps import Column, Map, Steps


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
    arrays.check_bins(bins)
    if spacing not in ("width", "mass"):
        raise InputError(f"spacing must be 'width' or 'mass', got {spacing!r}")
    rows = labelled(
        logits, labels, sample_weight, class_axis, columns=columns, probabilities=probabilities
    )
    edges = np.arange(1, bins) / bins
    fit = partial(_of_width, edges=edges) if spacing == "width" else partial(_of_mass, bins=bins)
    return steps.fitted("histogram", rows, fit)


def _of_width(column: Column, edges: Float64) -> Map:
    where = np.searchsorted(edges, column.p)
    bounds = np.concatenate([[0.0], edges, [1.0]])
    return edges, _shares(where, column, (bounds[1:] + bounds[:-1]) / 2)


def _of_mass(column: Column, bins: int) -> Map:
    tally = tallied(column)
    cuts = np.unique(cuts_at(tally, np.arange(1, bins), bins))
    edges = tally.p[cuts[cuts < len(tally.p) - 1]]
    where = np.searchsorted(edges, column.p)
    return edges, _shares(where, column, np.full(len(edges) + 1, 0.5))


def _shares(where: Int64, column: Column, empty: Float64) -> Float64:
    """The share of hits in each bin, and what stands for it in an empty one."""
    weight = np.bincount(where, column.u, len(empty))
    hits = np.bincount(where, column.u * column.hit, len(empty))
    return np.where(weight > 0, hits / np.where(weight > 0, weight, 1.0), empty)


class Tally(NamedTuple):
    """The distinct probabilities in order, with the weight and the hits up to each."""

    p: Float64
    weight: Float64
    hits: Float64


def tallied(column: Column) -> Tally:
    """The tally of one class's probabilities."""
    order = np.argsort(column.p, kind="stable")
    p, u = column.p[order], column.u[order]
    last = np.append(p[1:] != p[:-1], np.ones(min(len(p), 1), bool))
    hits = np.cumsum(u * column.hit[order])
    return Tally(p[last], np.cumsum(u)[last], hits[last])


def cuts_at(tally: Tally, rank: Int64, bins: int | Int64) -> Int64:
    """Where, in the tally, the bins of these ranks end, of so many bins of equal mass."""
    if not len(tally.p):
        return np.zeros(0, np.int64)
    return np.asarray(np.searchsorted(tally.weight, rank * tally.weight[-1] / bins), np.int64)
