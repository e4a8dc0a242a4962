"""Ensemble temperature scaling."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid import store
from tepid.errors import InputError
from tepid.methods import temperature_scaling
from tepid.scaling.calibrator import Calibrator, data_warnings, labeled, minimize, softmax
from tepid.validation import Float64

# A smaller weight counts as none.
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True, eq=False)
class Mixture(Calibrator):
    """A mixture of softmax(z / T), softmax(z) and the uniform distribution; call it on logits.

    `weights` are those of the three, in this order. The uniform part is shared by the classes that
    are not masked. All three keep a row's largest logit on top, and so does the mixture.
    """

    temperature: float
    weights: Float64

    @property
    def keeps_argmax(self) -> bool:
        """Whether a row's largest logit has its largest probability: unless all are alike."""
        return bool(self.weights[0] + self.weights[1] > 0)

    def apply(self, z: Float64) -> Float64:
        """Probabilities of checked logits (n, k)."""
        scaled, plain, uniform = _parts(z, self.temperature)
        w = self.weights
        return np.asarray(w[0] * scaled + w[1] * plain + w[2] * uniform)

    def check(self) -> None:
        """Raise unless it can be applied."""
        super().check()
        store.check_numbers("temperature", self.temperature, (), np.finfo(np.float64).tiny)
        store.check_numbers("weights", self.weights, (3,), 0.0, 1.0)
        if abs(self.weights.sum() - 1) > 1e-9:
            raise InputError(f"weights must sum to one, got {self.weights.sum():g}")


def ensemble(
    logits: Any,
    labels: Any = None,
    *,
    sample_weight: Any = None,
    class_axis: int | None = None,
    columns: Any = None,
    probabilities: bool = False,
) -> Mixture:
    r"""Ensemble temperature scaling, Zhang et al. (2020) eq. 8.

    $w_1\,\mathrm{softmax}(z/T) + w_2\,\mathrm{softmax}(z) + w_3/K$ with weights that are not
    negative and sum to one: T by NLL first, then the weights, by NLL too, which is convex in them.
    The temperature alone is among the mixtures, so on the rows of the fit the NLL is never above
    that of temperature scaling.

    >>> fitted = ensemble([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]], [0, 0, 1, 1])
    >>> fitted([[4.0, 0.0]])
    array([[0.75, 0.25]])
    """
    rows = labeled(logits, labels, sample_weight, class_axis, columns, probabilities=probabilities)
    fitted = temperature_scaling(rows.z, rows.y, sample_weight=rows.u)
    own = np.arange(len(rows.y)), rows.y
    chosen = np.column_stack([part[own] for part in _parts(rows.z, fitted.value)])
    weights = _fit_weights(chosen, rows.u / rows.u.sum())
    n, k = rows.z.shape
    return Mixture("ensemble", n, k, fitted.value, weights, warnings=data_warnings(rows))


def _parts(z: Float64, temperature: float) -> tuple[Float64, Float64, Float64]:
    d = z - z.max(axis=1, keepdims=True)
    open_ = ~np.isneginf(z)
    uniform = open_ / open_.sum(axis=1, keepdims=True)
    with np.errstate(over="ignore"):  # beyond float64 a class is as good as masked
        return softmax(d / temperature), softmax(d), uniform


def _fit_weights(chosen: Float64, u: Float64) -> Float64:
    """The weights on the simplex with the least NLL of the labels' probabilities (n, 3)."""

    def value(w: Float64) -> tuple[float, Float64]:
        p = np.maximum(chosen @ w, np.finfo(np.float64).tiny)
        return float(-(u @ np.log(p))), -(u / p) @ chosen

    found = minimize(
        value,
        np.full(3, 1 / 3),
        method="SLSQP",
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-15, "maxiter": 200},
    )
    inside = np.where(found.x < _NEGLIGIBLE, 0.0, found.x)
    # A corner that is as good is the simpler answer; the first is the temperature alone.
    return min((*np.eye(3), inside / inside.sum()), key=lambda w: value(w)[0])
