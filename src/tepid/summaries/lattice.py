"""The temperatures at which a curve is known."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tepid.errors import InputError
from tepid.validation import Float64


@dataclass(frozen=True)
class Lattice:
    r"""Nodes $\beta = 1/T$ in chains of doublings: `starts[r] * 2**m` for m < `lengths[r]`.

    Doubling $\beta$ squares an exponential, so a chain costs one exponential per logit. All windows
    with the same number of nodes per octave are parts of one fixed lattice, $2^{q/R}$.
    """

    starts: tuple[float, ...]
    lengths: tuple[int, ...]

    @classmethod
    def window(cls, low: int = -5, high: int = 5, per_octave: int = 2) -> "Lattice":
        """The nodes from 2**low to 2**high, the default ten octaves around T = 1."""
        if high <= low or per_octave < 1:
            raise InputError(f"a window must span at least one octave, got {low} to {high}")
        starts = tuple(_single(2.0 ** (low + r / per_octave)) for r in range(per_octave))
        return cls(starts, (high - low + 1,) + (high - low,) * (per_octave - 1))

    @classmethod
    def point(cls, temperature: float) -> "Lattice":
        """One node."""
        return cls((_single(1.0 / temperature),), (1,))

    @property
    def nodes(self) -> Float64:
        """Every node, rising."""
        return _nodes(self)

    @property
    def per_octave(self) -> int:
        """How many nodes lie between one and its double."""
        return len(self.starts)

    @property
    def unit(self) -> float:
        """The power of two at or just below the first node."""
        return 2.0 ** math.floor(math.log2(self.starts[0]))


@lru_cache(maxsize=64)
def _nodes(lattice: Lattice) -> Float64:
    octaves = 2.0 ** np.arange(max(lattice.lengths))[:, None]
    nodes = np.array((octaves * lattice.starts).reshape(-1)[: sum(lattice.lengths)])
    nodes.flags.writeable = False  # every lattice of this shape shares it
    return nodes


def _single(beta: float) -> float:
    # The kernels scale in float32; a node is where they really evaluate.
    return float(np.float32(beta))
