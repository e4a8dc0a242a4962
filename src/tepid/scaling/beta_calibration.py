"""Beta calibration, one class against the rest."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid import store
from tepid.scaling.calibrator import (
    Calibrator,
    data_warnings,
    labeled,
    log_softmax,
    minimize,
    softmax,
    unmasked,
)
from tepid.validation import Array, Float64

# Stands for log(1 - p) where all other classes are masked and 1 - p is zero.
_CERTAIN = -1e300
# A class with a smaller mean NLL than this on the rows of its fit is separable.
_NOTHING = 1e-7
_OPTIONS = {"ftol": 1e-13, "gtol": 1e-9, "maxiter": 500}


@dataclass(frozen=True, eq=False)
class Betas(Calibrator):
    r"""Each class's odds mapped by $a_k \log p - b_k \log(1 - p) + c_k$, then rows renormalized.

    A masked class keeps 0. Call it on logits.
    """

    a: Float64
    b: Float64
    c: Float64

    @property
    def keeps_argmax(self) -> bool:
        """Whether a row's largest logit always has its largest probability: if all share a map."""
        shared = all(bool((v == v[0]).all()) for v in (self.a, self.b, self.c))
        return shared and bool(self.a[0] + self.b[0] > 0)

    def apply(self, z: Float64) -> Float64:
        """Probabilities of checked logits (n, k)."""
        up, down = features_of(z)
        odds = self.a * up + self.b * down + self.c
        # Renormalized as logarithms, so that no row is left with nothing.
        log_p = np.minimum(odds, 0) - np.log1p(np.exp(-np.abs(odds)))
        log_p[np.isneginf(z)] = -np.inf
        return softmax(log_p)

    def check(self) -> None:
        """Raise unless it can be applied."""
        super().check()
        store.check_numbers("a", self.a, (self.classes,), 0.0)
        store.check_numbers("b", self.b, (self.classes,), 0.0)
        store.check_numbers("c", self.c, (self.classes,))


def beta(
    logits: Any,
    labels: Any = None,
    *,
    sample_weight: Any = None,
    class_axis: int | None = None,
    columns: Any = None,
    probabilities: bool = False,
) -> Betas:
    r"""Beta calibration, Kull et al. (2017), one class against the rest.

    A logistic regression of the hits on $\log p$ and $-\log(1-p)$ with $a, b \ge 0$, so that every
    map increases: convex, minimized by SciPy's L-BFGS-B within its bounds. Both logarithms come
    from the logits and are exact where p or 1 - p underflows. For a separable
    class no finite map is optimal: the fit stops where the loss stops falling, with a warning.
    """
    rows = labeled(logits, labels, sample_weight, class_axis, columns, probabilities=probabilities)
    up, down = features_of(rows.z)
    open_ = ~np.isneginf(rows.z) & (down < -_CERTAIN)
    maps = np.array(
        [
            _fit_class(*(part[open_[:, k]] for part in (up[:, k], down[:, k], rows.y == k, rows.u)))
            for k in range(rows.z.shape[1])
        ]
    )
    a, b, c, nll = np.ascontiguousarray(maps.T)
    separable = int((nll < _NOTHING).sum())
    warnings = data_warnings(rows)
    if separable:
        said = f"The logits separate {separable} classes perfectly, so no finite fit is optimal."
        warnings += (said,)
    return Betas("beta", len(rows.y), len(maps), a, b, c, warnings=warnings)


def features_of(z: Float64) -> tuple[Float64, Float64]:
    """The features log p, 0 where masked, and -log(1 - p)."""
    up = log_softmax(z)
    n = np.arange(len(z))
    top = z.argmax(axis=1)
    others = up.copy()
    others[n, top] = -np.inf
    least = np.maximum(others.max(axis=1), _CERTAIN)
    with np.errstate(divide="ignore"):
        # Of the most probable class 1 - p is the sum of the others; elsewhere p is at most a half.
        rest = least + np.log(np.exp(others - least[:, None]).sum(axis=1))
    down = -np.log1p(-np.exp(others))
    down[n, top] = -np.maximum(rest, _CERTAIN)
    return unmasked(up), down


def _fit_class(up: Float64, down: Float64, hit: Array, u: Float64) -> tuple[float, ...]:
    """The a, b and c with the least NLL, a and b not below zero, and that NLL."""
    if not len(hit):  # masked in every row, or alone in it
        return 1.0, 1.0, 0.0, np.inf
    u = u / u.sum()
    x = np.stack([up, down, np.ones(len(up))])
    size = np.sqrt(np.maximum((u * x * x).sum(axis=1), 1e-300))
    x /= size[:, None]
    sign = np.where(hit, -1.0, 1.0)

    def value(v: Float64) -> tuple[float, Float64]:
        s = sign * (v @ x)
        e = np.exp(-np.abs(s))
        nll = u @ (np.maximum(s, 0) + np.log1p(e))
        return float(nll), x @ (u * sign * np.where(s > 0, 1, e) / (1 + e))

    bounds = [(0, None), (0, None), (None, None)]
    first = np.array([1.0, 1.0, 0.0]) * size
    found = minimize(value, first, method="L-BFGS-B", bounds=bounds, options=_OPTIONS)
    return *(found.x / size).tolist(), float(found.fun)
