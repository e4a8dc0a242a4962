"""Lines: isotonic regression, one class against the rest."""

import dataclasses
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid.arrays import Float64, Int64
from tepid.scaling import extras, saving
from tepid.scaling.calling import applied
from tepid.scaling.rest import renormalised
from tepid.scaling.rows import about, labelled, softmax
from tepid.scaling.steps import Column, columns_of


@dataclass(frozen=True, eq=False)
class Lines:
    """Each class's probability mapped by straight lines between knots, then rows renormalised.

    Class k has the knots `knots[starts[k]:starts[k + 1]]`, in order, and the values at them; beyond
    its first and last knot a map is constant. A masked class keeps 0, and a row that is left with
    nothing keeps its softmax.
    """

    method: str
    _: dataclasses.KW_ONLY
    samples: int
    classes: int
    starts: Int64
    knots: Float64
    values: Float64
    warnings: tuple[str, ...] = ()

    @property
    def keeps_argmax(self) -> bool:
        """Whether a row's largest logit always has its largest probability; each map is its own."""
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
            own = slice(self.starts[k], self.starts[k + 1])
            out[:, k] = np.interp(p[:, k], self.knots[own], self.values[own])
        out[np.isneginf(z)] = 0
        return out

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to `.npz`; a crash leaves the old file whole."""
        saving.save(self, path)


def isotonic(
    logits: Any,
    labels: Any = None,
    *,
    sample_weight: Any = None,
    class_axis: int | None = None,
    columns: Any = None,
    probabilities: bool = False,
) -> Lines:
    """Isotonic regression, Zadrozny and Elkan (2002), one class against the rest.

    The increasing map of each class's probability with the least squared error, by scikit-learn's
    `IsotonicRegression(out_of_bounds="clip")`. Where a class never occurs above or always occurs
    below some probability its map is exactly 0 or 1 there, so an NLL on other rows may be infinite.

    >>> isotonic([[2.0, 0.0], [2.0, 0.0], [1.0, 0.0]], [0, 1, 1])([[2.0, 0.0], [1.0, 0.0]])
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    rows = labelled(
        logits, labels, sample_weight, class_axis, columns=columns, probabilities=probabilities
    )
    p = softmax(rows.z)
    maps = [_increasing(column) for column in columns_of(rows, p)]
    return Lines(
        "isotonic",
        samples=len(rows.y),
        classes=len(maps),
        starts=np.cumsum([0, *(len(knots) for knots, _ in maps)]),
        knots=np.concatenate([knots for knots, _ in maps]),
        values=np.concatenate([values for _, values in maps]),
        warnings=about(rows),
    )


def _increasing(column: Column) -> tuple[Float64, Float64]:
    if not len(column.p):  # masked in every row
        return np.array([0.0, 1.0]), np.array([0.0, 1.0])
    regression = extras.isotonic_regression()(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    regression.fit(column.p, column.hit, sample_weight=column.u)
    return regression.X_thresholds_, regression.y_thresholds_
