"""Steps: one class against the rest, by piecewise constant maps of its probability."""

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tepid.arrays import Float64, Int64
from tepid.scaling import saving
from tepid.scaling.calling import applied
from tepid.scaling.rest import renormalised
from tepid.scaling.rows import Rows, about, softmax


class Column(NamedTuple):
    """A class's probability p in the rows where it is not masked, its hits, and their weights."""

    p: Float64
    hit: Float64
    u: Float64


# The inner edges of one class's bins and the value of each bin, one more than edges.
Map = tuple[Float64, Float64]


@dataclass(frozen=True, eq=False)
class Steps:
    """Each class's probability replaced by its bin's, then rows renormalised; call it on logits.

    Bins are closed on the right. Class k has the bins between `edges[starts[k]:starts[k + 1]]`,
    with the values `values[starts[k] + k:starts[k + 1] + k + 1]`. A masked class keeps 0, and a row
    that is left with nothing keeps its softmax.
    """

    method: str
    _: dataclasses.KW_ONLY
    samples: int
    classes: int
    starts: Int64
    edges: Float64
    values: Float64
    warnings: tuple[str, ...] = ()

    @property
    def keeps_argmax(self) -> bool:
        """Whether a row's largest logit always has its largest probability; bins cannot say so."""
        return False

    def __call__(
        self, logits: Any, *, class_axis: int | None = None, probabilities: bool = False
    ) -> Any:
        """Probabilities, in the shape of the logits."""
        return applied(self, logits, class_axis, probabilities=probabilities)

    def of_rows(self, z: Float64) -> Float64:
        """Probabilities of checked logits (n, k)."""
        p = softmax(z)
        return renormalised(self.columns(z, p), p)

    def columns(self, z: Float64, p: Float64) -> Float64:
        """Each class's calibrated probability, before rows are renormalised."""
        out = np.empty_like(p)
        for k in range(self.classes):
            low, high = self.starts[k], self.starts[k + 1]
            where = np.searchsorted(self.edges[low:high], p[:, k])
            out[:, k] = self.values[low + k : high + k + 1][where]
        out[np.isneginf(z)] = 0
        return out

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to `.npz`; a crash leaves the old file whole."""
        saving.save(self, path)


def fitted(method: str, rows: Rows, fit: Callable[[Column], Map]) -> Steps:
    """The steps that `fit` finds for each class against the rest."""
    p = softmax(rows.z)
    maps = [fit(column) for column in columns_of(rows, p)]
    return Steps(
        method,
        samples=len(rows.y),
        classes=len(maps),
        starts=np.cumsum([0, *(len(edges) for edges, _ in maps)]),
        edges=np.concatenate([edges for edges, _ in maps]),
        values=np.concatenate([values for _, values in maps]),
        warnings=about(rows),
    )


def columns_of(rows: Rows, p: Float64) -> list[Column]:
    """Every class against the rest."""
    k = p.shape[1]
    p = np.ascontiguousarray(p.T)
    masked = np.isneginf(rows.z)
    hits = [np.asarray(rows.y == j, np.float64) for j in range(k)]
    if not masked.any():
        return [Column(p[j], hits[j], rows.u) for j in range(k)]
    kept = [~masked[:, j] for j in range(k)]
    return [Column(p[j][kept[j]], hits[j][kept[j]], rows.u[kept[j]]) for j in range(k)]
