"""Isotonic regression, one class against the rest."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid.scaling.calibrator import Calibrator, import_optional
from tepid.scaling.rows import (
    Column,
    columns_of,
    data_warnings,
    labeled_rows,
    renormalize,
    softmax,
)
from tepid.validation import Float64, Int64


@dataclass(frozen=True, eq=False, kw_only=True)
class Lines(Calibrator):
    """Each class's probability mapped by straight lines between knots, then rows renormalised.

    Class k has the knots `knots[starts[k]:starts[k + 1]]`, in order, and the values at them; beyond
    its first and last knot a map is constant. A masked class keeps 0, and a row that is left with
    nothing keeps its softmax.
    """

    starts: Int64
    knots: Float64
    values: Float64

    @property
    def keeps_argmax(self) -> bool:
        """Always False: each class has a map of its own."""
        return False

    def of_rows(self, z: Float64) -> Float64:
        """Probabilities of checked logits (n, k)."""
        p = softmax(z)
        return renormalize(self.columns(z, p), p)

    def columns(self, z: Float64, p: Float64) -> Float64:
        """Each class's calibrated probability, before rows are renormalised."""
        out = np.empty_like(p)
        for k in range(self.classes):
            own = slice(self.starts[k], self.starts[k + 1])
            out[:, k] = np.interp(p[:, k], self.knots[own], self.values[own])
        out[np.isneginf(z)] = 0
        return out


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
    rows = labeled_rows(
        logits, labels, sample_weight, class_axis, columns=columns, probabilities=probabilities
    )
    p = softmax(rows.z)
    maps = [_fit_class(column) for column in columns_of(rows, p)]
    return Lines(
        "isotonic",
        samples=len(rows.y),
        classes=len(maps),
        starts=np.cumsum([0, *(len(knots) for knots, _ in maps)]),
        knots=np.concatenate([knots for knots, _ in maps]),
        values=np.concatenate([values for _, values in maps]),
        warnings=data_warnings(rows),
    )


def _fit_class(column: Column) -> tuple[Float64, Float64]:
    if not len(column.p):  # masked in every row
        return np.array([0.0, 1.0]), np.array([0.0, 1.0])
    regression = import_optional("sklearn.isotonic", "IsotonicRegression")(
        y_min=0.0, y_max=1.0, out_of_bounds="clip"
    )
    regression.fit(column.p, column.hit, sample_weight=column.u)
    return regression.X_thresholds_, regression.y_thresholds_
