"""How frequent the classes are where there are no labels, from the probabilities of the rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tepid import arrays
from tepid.arrays import Array, Float32, Float64
from tepid.methods.entropies import probabilities
from tepid.methods.passes import Asking, Result, Summing, through
from tepid.sources import Batch

# How many probabilities are kept: 32 MB, which is every row of most sets.
_MOST = 1 << 23
_ROUNDS, _SETTLED = 500, 1e-8
# A class that has become so rare has gone.
_GONE = 1e-12


@dataclass(frozen=True)
class Sample:
    """Rows of probabilities, all of them or, of too many, those whose content hashes lowest.

    Which rows are kept depends on the rows alone, so the samples of parts merge to that of the
    whole in any order.
    """

    PARAMETERS: ClassVar = ()

    rows: float
    marks: Array
    kept: Float32
    weight: Float64  # of each row that is kept
    whole: bool = True  # whether every row is kept

    @classmethod
    def of(cls, batch: Batch, temperature: float) -> "Sample":
        """The sample of one batch."""
        p = probabilities(batch.logits, temperature).astype(np.float32)
        return _cut(cls(float(len(p)), _marks(p), p, arrays.weight_column(batch.weight, len(p))))

    def __add__(self, other: "Sample") -> "Sample":
        marks = np.concatenate([self.marks, other.marks])
        kept = np.concatenate([self.kept, other.kept])
        weight = np.concatenate([self.weight, other.weight])
        whole = self.whole and other.whole
        return _cut(Sample(self.rows + other.rows, marks, kept, weight, whole))


def _cut(sample: Sample) -> Sample:
    most = max(1, _MOST // sample.kept.shape[1])
    if len(sample.kept) <= most:
        return sample
    # Equal rows become one row of their total weight, so that a weight of two is the row twice.
    marks, first, where = np.unique(sample.marks, return_index=True, return_inverse=True)
    weight = np.bincount(where, sample.weight)[:most].astype(np.float64)
    whole = sample.whole and len(marks) <= most
    return Sample(sample.rows, marks[:most], sample.kept[first[:most]], weight, whole)


def _marks(p: Float32) -> Array:
    odd = np.random.default_rng(0).integers(0, 1 << 63, p.shape[1], np.uint64) * 2 + 1
    mixed: Array = (p.view(np.uint32).astype(np.uint64) * odd).sum(axis=1)
    spread: Array = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    return spread


def grown(sample: Sample, old: Float64) -> Float64:
    r"""How much more frequent each class is in the sample than it was, by maximum likelihood.

    Expectation maximisation (Saerens et al. 2002): with $p_{ik}$ calibrated where the classes had
    the frequencies $\pi_k$, $q_k \leftarrow \frac1n \sum_i p_{ik} q_k / \pi_k \,/ \sum_j p_{ij}
    q_j / \pi_j$ until it settles. A class that was never there stays so.
    """
    known = old > 0
    before = np.where(known, old, 1.0)
    p = sample.kept.astype(np.float64)
    u = sample.weight / sample.weight.sum()
    new = old.copy()
    for _ in range(_ROUNDS):
        weighed = p * np.where(known, new / before, 0.0)
        share = weighed / np.maximum(weighed.sum(axis=1, keepdims=True), 1e-300)
        following = u @ share
        moved = np.abs(following - new).max()
        new = following
        if moved < _SETTLED:
            break
    return np.where(known, new / before, 0.0)


def weighing(asking: Asking[Result], ratio: Float64) -> Asking[Result]:
    """The same method with each row weighed by how much more frequent its class has become."""

    def weighed(of: Summing) -> Summing:
        def changed(batch: Batch) -> Any:
            labels = arrays.label_column(batch.labels, len(batch.logits), len(ratio))
            weight = np.where(ratio[labels] > _GONE, ratio[labels], 0.0)
            return of(
                batch._replace(weight=weight * (1.0 if batch.weight is None else batch.weight))
            )

        return changed

    return through(asking, weighed)
