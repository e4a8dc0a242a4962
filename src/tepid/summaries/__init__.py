"""Mergeable sums over rows: tails per class, curves over the temperature, reliability."""

from tepid.summaries import optimum, tails
from tepid.summaries.curve import Curve, Lattice
from tepid.summaries.reliability import Reliability
from tepid.summaries.tails import Tails

__all__ = ["Curve", "Lattice", "Reliability", "Tails", "optimum", "tails"]
