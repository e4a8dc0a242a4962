"""Mergeable sums over rows: tails per class, curves over the temperature, reliability."""

from tepid.summaries import arithmetic, curve, hermite, lattice, optimum, reliability, shared, tails
from tepid.summaries.curve import Curve
from tepid.summaries.lattice import Lattice
from tepid.summaries.reliability import Reliability
from tepid.summaries.tails import Tails

__all__ = [
    "Curve",
    "Lattice",
    "Reliability",
    "Tails",
    "arithmetic",
    "curve",
    "hermite",
    "lattice",
    "optimum",
    "reliability",
    "shared",
    "tails",
]
