"""Ensemble temperature scaling."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid.methods import temperature_scaling
from tepid.scaling.calibrator import Calibrator
from tepid.scaling.rows import data_warnings, labeled_rows, softmax
from tepid.validation import Float64

_FACES = [face for size in (1, 2, 3) for face in itertools.combinations(range(3), size)]


@dataclass(frozen=True, eq=False, kw_only=True)
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

    def of_rows(self, z: Float64) -> Float64:
        """Probabilities of checked logits (n, k)."""
        scaled, plain, uniform = _parts(z, self.temperature)
        w = self.weights
        return np.asarray(w[0] * scaled + w[1] * plain + w[2] * uniform)


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
    that of temperature scaling. Solved by Newton steps on the simplex; no library is needed.

    >>> fitted = ensemble([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]], [0, 0, 1, 1])
    >>> fitted([[4.0, 0.0]])
    array([[0.75, 0.25]])
    """
    rows = labeled_rows(
        logits, labels, sample_weight, class_axis, columns=columns, probabilities=probabilities
    )
    fitted = temperature_scaling(rows.z, rows.y, sample_weight=rows.u)
    own = np.arange(len(rows.y)), rows.y
    chosen = np.column_stack([part[own] for part in _parts(rows.z, fitted.value)])
    return Mixture(
        "ensemble",
        samples=len(rows.y),
        classes=rows.z.shape[1],
        temperature=fitted.value,
        weights=_fit_weights(chosen, rows.u / rows.u.sum()),
        warnings=data_warnings(rows),
    )


def _parts(z: Float64, temperature: float) -> tuple[Float64, Float64, Float64]:
    d = z - z.max(axis=1, keepdims=True)
    open_ = ~np.isneginf(z)
    uniform = open_ / open_.sum(axis=1, keepdims=True)
    with np.errstate(over="ignore"):  # beyond float64 a class is as good as masked
        return softmax(d / temperature), softmax(d), uniform


def _fit_weights(chosen: Float64, u: Float64) -> Float64:
    """The weights on the simplex with the least NLL, starting from the first part alone."""
    w = np.array([1.0, 0.0, 0.0])
    # A row with probability zero under every part carries no information about the weights.
    chosen, u = chosen[chosen.any(axis=1)], u[chosen.any(axis=1)]
    if not (chosen @ w > 0).all():
        w = np.array([0.0, 0.0, 1.0])
    best = _nll(chosen, u, w)
    for _ in range(100):
        ratio = chosen / (chosen @ w)[:, None]
        slope, bend = -(u @ ratio), (u[:, None] * ratio).T @ ratio
        step = _least_quadratic(slope - bend @ w, bend) - w
        length = 1.0
        while (better := _nll(chosen, u, w + length * step)) >= best and length > 1e-9:
            length /= 2
        if better >= best:
            break
        w, best = w + length * step, better
    return np.asarray(np.clip(w, 0, 1) / np.clip(w, 0, 1).sum())


def _nll(chosen: Float64, u: Float64, w: Float64) -> float:
    p = chosen @ w
    return float(-(u @ np.log(p))) if (p > 0).all() else np.inf


def _least_quadratic(slope: Float64, bend: Float64) -> Float64:
    """The minimum of slope·w + w·bend·w/2 on the simplex: the best of its seven faces."""
    best, least = np.array([1.0, 0.0, 0.0]), np.inf
    for face in _FACES:
        w = _on_face(slope, bend, list(face))
        value = float(slope @ w + w @ bend @ w / 2)
        if (w >= 0).all() and value < least:
            best, least = w, value
    return best


def _on_face(slope: Float64, bend: Float64, face: list[int]) -> Float64:
    """The minimum with weights off the face at zero, where the others sum to one."""
    n = len(face)
    system = np.ones((n + 1, n + 1))
    system[:n, :n], system[n, n] = bend[np.ix_(face, face)], 0.0
    w = np.zeros(3)
    w[face] = np.linalg.lstsq(system, np.append(-slope[face], 1.0), rcond=None)[0][:n]
    return w
