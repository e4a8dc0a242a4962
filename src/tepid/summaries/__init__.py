"""Mergeable sums over rows: tails per class, curves over the temperature, reliability."""

from tepid.summaries import arithmetic, curve, hermite, lattice, optimum, reliability, tails

__all__ = ["arithmetic", "curve", "hermite", "lattice", "optimum", "reliability", "tails"]
